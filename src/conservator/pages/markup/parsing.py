"""Parsing of untrusted XML and HTML: entities are not expanded, nothing is fetched, and size limits are enforced."""

import codecs
import html
import re
from dataclasses import dataclass
from html.entities import html5
from xml.parsers import expat

from conservator.errors import ConservatorError, OptionError
from conservator.pages.markup.elements import ATTRIBUTE, TAG, Element, FileLimits, TreeBuilder, UnreadableError
from conservator.system.files import check_encoding

# Byte order marks, and the first bytes of UTF-16 files without one, with their encodings.
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
UTF16_STARTS = ((b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))
XML_ENCODING = re.compile(rb"""\s*<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)["']""")
META_CHARSET = re.compile(rb"""<meta\s[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
HEAD_BYTES = 4096  # bytes: start of a file that is searched for the encoding and the root [untuned]
VOID_ELEMENTS = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
RAW_TEXT_ELEMENTS = {"script", "style", "textarea", "title"}
SELF_CLOSED_BY_SIBLING = {"p", "li", "td", "th", "tr", "option"}  # a start tag ends an open element of the same name


@dataclass(frozen=True)
class Markup:
    """A parsed XML or HTML file.

    Attributes:
        source: text of the file in UTF-8; the offsets of the elements refer to it.
        root: outermost element.
        encoding: encoding of the file.
        byte_order_mark: byte order mark at the start of the file, or empty.
    """

    source: bytes
    root: Element
    encoding: str
    byte_order_mark: bytes

    def encode(self, source: bytes) -> bytes:
        """Convert an edited source to the encoding of the file; unencodable characters become references."""
        if self.encoding == "utf-8":
            return self.byte_order_mark + source
        return self.byte_order_mark + source.decode().encode(self.encoding, "xmlcharrefreplace")

    def location(self, element: Element) -> str:
        """Return the line of an element, counted from 1, for error messages."""
        newlines = self.source.count(b"\n", 0, element.start)
        return f"line {newlines + 1}"


def decode(data: bytes, limits: FileLimits) -> tuple[bytes, str, bytes]:
    """Return the text of a file in UTF-8, its encoding and its byte order mark."""
    limits.check_size(data)
    byte_order_mark, encoding = next(
        ((mark, name) for mark, name in BYTE_ORDER_MARKS if data.startswith(mark)), (b"", "")
    )
    body = data[len(byte_order_mark) :]
    encoding = encoding or _declared_encoding(body)
    try:
        text = body.decode(encoding)
        round_trips = text.encode(encoding) == body
    except UnicodeDecodeError as error:
        raise ConservatorError(
            f"the file is not valid {encoding}: byte {len(byte_order_mark) + error.start} is "
            f"{body[error.start]:#04x}, which does not start a character"
        ) from error
    except UnicodeError as error:
        raise ConservatorError(f"the file is not valid {encoding}") from error
    if not round_trips:
        raise ConservatorError(
            f"the file cannot be written back in its encoding {encoding} without changes; convert it to UTF-8"
        )
    null = text.find("\0")
    if null >= 0:
        raise ConservatorError(f"character {null} of the file is a null character, which XML and HTML do not allow")
    return text.encode(), encoding, byte_order_mark


def read_xml(data: bytes, limits: FileLimits) -> Markup:
    """Parse XML; a ConservatorError states what is wrong, and where."""
    source, encoding, byte_order_mark = decode(data, limits)
    builder = TreeBuilder(limits)
    parser = expat.ParserCreate("utf-8", " ")  # names are "namespace name"

    def on_start(name: str, attributes: dict[str, str]) -> None:
        namespace, _, local_name = name.rpartition(" ")
        tag = TAG.match(source, parser.CurrentByteIndex)
        if tag is None:
            raise ConservatorError(f"byte {parser.CurrentByteIndex}: the start tag cannot be parsed")
        builder.start_element(local_name, namespace, attributes, tag.start(), tag.end())

    def on_end(_: str) -> None:
        offset, element = parser.CurrentByteIndex, builder.open[-1]
        if source.startswith(b"/>", element.content_start - 2):
            builder.end_element(element.content_start, element.content_start)
        else:
            builder.end_element(offset, source.index(b">", offset) + 1)

    def on_text(value: str) -> None:
        builder.add_text(value, parser.CurrentByteIndex)

    def on_cdata_start() -> None:
        builder.end_text(parser.CurrentByteIndex)
        builder.add_text("", parser.CurrentByteIndex)

    def on_cdata_end() -> None:
        builder.end_text(parser.CurrentByteIndex + 3)

    def on_other(*_: str) -> None:
        builder.end_text(parser.CurrentByteIndex)

    def on_skipped_entity(name: str, _: bool) -> None:
        if name + ";" not in html5:
            raise ConservatorError(f"byte {parser.CurrentByteIndex}: unknown entity &{name};")
        on_text(html5[name + ";"])

    def on_doctype(_: str, __: str | None, ___: str | None, has_internal_subset: int) -> None:
        if has_internal_subset:
            raise ConservatorError(
                "the DOCTYPE of the file contains declarations, which are not accepted; remove the part in [ ]"
            )

    def on_entity(name: str, *_: object) -> None:
        raise ConservatorError(f"the file declares the entity &{name};, which is not accepted")

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = on_start, on_end, on_text
    parser.StartCdataSectionHandler, parser.EndCdataSectionHandler = on_cdata_start, on_cdata_end
    parser.CommentHandler, parser.ProcessingInstructionHandler = on_other, on_other
    parser.SkippedEntityHandler = on_skipped_entity
    parser.StartDoctypeDeclHandler, parser.EntityDeclHandler = on_doctype, on_entity
    try:
        parser.Parse(source, True)
    except expat.ExpatError as error:
        raise UnreadableError(f"the file is not well-formed XML: {error}") from error
    assert builder.root is not None
    return Markup(source, builder.root, encoding, byte_order_mark)


def read_html(data: bytes, limits: FileLimits) -> Markup:
    """Parse HTML that is not well-formed XML: end tags and quotes of attributes may be missing."""
    source, encoding, byte_order_mark = decode(data, limits)
    builder, offset = TreeBuilder(limits), 0
    while offset < len(source):
        start = source.find(b"<", offset)
        start = len(source) if start < 0 else start
        if start > offset:
            builder.add_text(html.unescape(source[offset:start].decode()), offset)
        offset = _read_tag(source, builder, start)
    while builder.open:
        builder.end_element(len(source), len(source))
    if builder.root is None:
        raise ConservatorError("the file has no element")
    return Markup(source, builder.root, encoding, byte_order_mark)


def _read_tag(source: bytes, builder: TreeBuilder, start: int) -> int:
    """Read the tag, comment or declaration at ``start``, and return the offset after it."""
    second = source[start + 1 : start + 2]
    if second in (b"!", b"?"):
        builder.end_text(start)
        opening, closing = (b"<!--", b"-->") if source.startswith(b"<!--", start) else (b"<", b">")
        return _find(source, closing, start + len(opening)) + len(closing)
    if second == b"/":
        stop = _find(source, b">", start) + 1
        name = source[start + 2 : stop - 1].decode().strip().lower()
        if any(element.name == name for element in builder.open):
            while builder.open[-1].name != name:
                builder.end_element(start, start)
            builder.end_element(start, stop)
        builder.end_text(start)
        return stop
    if not second.isalpha():
        if second:
            builder.add_text("<", start)
        return start + 1
    tag = TAG.match(source, start)
    if tag is None:
        raise ConservatorError(f"byte {start}: the tag that starts here does not end")
    name, attributes = _parse_start_tag(tag[0])
    if name in SELF_CLOSED_BY_SIBLING and builder.open and builder.open[-1].name == name:
        builder.end_element(start, start)
    builder.start_element(name, "", attributes, start, tag.end())
    if name in VOID_ELEMENTS or tag[0].endswith(b"/>"):
        builder.end_element(tag.end(), tag.end())
    elif name in RAW_TEXT_ELEMENTS:
        end = re.compile(b"</" + name.encode(), re.IGNORECASE).search(source, tag.end())
        if end is None:
            raise ConservatorError(f"byte {start}: <{name}> has no end tag")
        return end.start()
    return tag.end()


def _parse_start_tag(tag: bytes) -> tuple[str, dict[str, str]]:
    """Return the name and the attributes of an HTML start tag."""
    matches = ATTRIBUTE.finditer(tag, 1)
    name = next(matches)[1].decode().lower()
    attributes: dict[str, str] = {}
    for match in matches:
        value = (match[2] or b"").decode()
        value = value[1:-1] if value[:1] in ("'", '"') else value
        attributes.setdefault(match[1].decode().lower(), html.unescape(value))
    return name, attributes


def _find(source: bytes, closing: bytes, start: int) -> int:
    """Return the offset of a closing delimiter; raise a ConservatorError if it is missing."""
    offset = source.find(closing, start)
    if offset < 0:
        raise ConservatorError(f"byte {start}: {closing.decode()} is missing after this position")
    return offset


def _declared_encoding(body: bytes) -> str:
    """Return UTF-16 by the first bytes of a file, else the encoding that it declares, or UTF-8."""
    for start, name in UTF16_STARTS:
        if body.startswith(start):
            return name
    head = body[:HEAD_BYTES]
    match = XML_ENCODING.match(head) or (None if head.lstrip().startswith(b"<?xml") else META_CHARSET.search(head))
    if match is None:
        return "utf-8"
    try:
        name = check_encoding(match[1].decode())
    except OptionError as error:
        raise ConservatorError(f"the file declares the unknown encoding {match[1].decode()!r}") from error
    if name.startswith(("utf-16", "utf-32")):
        raise ConservatorError(f"the file declares the encoding {name}, but its bytes are not {name}")
    return name
