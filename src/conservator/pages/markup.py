"""Reading XML and HTML from strangers: no entity is defined, nothing is fetched, and limits are kept."""

import codecs
import html
import re
from dataclasses import dataclass
from html.entities import html5
from xml.parsers import expat

from conservator.errors import ConservatorError, OptionError
from conservator.pages.elements import ATTRIBUTE, TAG, Builder, Element, Limits, UnreadableError
from conservator.system.files import check_encoding

# Byte order marks, and how a file in UTF-16 without one begins -> the encoding.
ORDERS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
WIDE = ((b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))
DECLARED = re.compile(rb"""\s*<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)["']""")
META = re.compile(rb"""<meta\s[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
HEAD = 4096  # bytes at the beginning in which an encoding is declared
# Elements of HTML that have no content, and those whose content is no markup.
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
RAW = {"script", "style", "textarea", "title"}
CLOSED_BY_ITSELF = {"p", "li", "td", "th", "tr", "option"}  # one of these ends an open one of the same name


@dataclass(frozen=True)
class Markup:
    """A file of markup.

    Attributes:
        source: its text in UTF-8, to whose bytes the places of the elements refer.
        root: its outermost element.
        encoding: the encoding of the file.
        order: the byte order mark that it begins with.
    """

    source: bytes
    root: Element
    encoding: str
    order: bytes

    def encode(self, source: bytes) -> bytes:
        """A changed source in the encoding of the file; characters that have no place in it become references."""
        if self.encoding == "utf-8":
            return self.order + source
        return self.order + source.decode().encode(self.encoding, "xmlcharrefreplace")

    def where(self, element: Element) -> str:
        """The line of the file on which an element begins, from 1, for errors."""
        before = self.source.count(b"\n", 0, element.start)
        return f"line {before + 1}"


def decode(data: bytes, limits: Limits) -> tuple[bytes, str, bytes]:
    """A file of markup as UTF-8, its encoding and its byte order mark."""
    if len(data) > limits.size:
        raise ConservatorError(f"the file has {len(data):,} bytes; at most {limits.size:,} are accepted")
    order, encoding = next(((mark, name) for mark, name in ORDERS if data.startswith(mark)), (b"", ""))
    body = data[len(order) :]
    encoding = encoding or next((name for begin, name in WIDE if body.startswith(begin)), "") or _declared(body)
    try:
        text = body.decode(encoding)
        same = text.encode(encoding) == body
    except UnicodeDecodeError as error:
        raise ConservatorError(
            f"the file is not {encoding}: byte {len(order) + error.start} is {body[error.start]:#04x}, "
            "which begins no character"
        ) from error
    except UnicodeError as error:
        raise ConservatorError(f"the file is not {encoding}") from error
    if not same:
        raise ConservatorError(f"the file can be read as {encoding}, but not written so again; convert it to UTF-8")
    zero = text.find("\0")
    if zero >= 0:
        raise ConservatorError(f"character {zero} of the file is a null, which no markup has")
    return text.encode(), encoding, order


def read_xml(data: bytes, limits: Limits) -> Markup:
    """Read XML; a ConservatorError says what is wrong and where."""
    source, encoding, order = decode(data, limits)
    builder = Builder(limits)
    parser = expat.ParserCreate("utf-8", " ")  # names are "namespace name"

    def begin(name: str, attributes: dict[str, str]) -> None:
        space, _, local = name.rpartition(" ")
        tag = TAG.match(source, parser.CurrentByteIndex)
        if tag is None:
            raise ConservatorError(f"byte {parser.CurrentByteIndex}: no tag can be read here")
        builder.begin(local, space, attributes, tag.start(), tag.end())

    def end(_: str) -> None:
        at, element = parser.CurrentByteIndex, builder.open[-1]
        empty = source.startswith(b"/>", element.inside - 2)
        builder.end(*((element.inside, element.inside) if empty else (at, source.index(b">", at) + 1)))

    def text(value: str) -> None:
        builder.text(value, parser.CurrentByteIndex)

    def section() -> None:
        builder.cut(parser.CurrentByteIndex)
        builder.text("", parser.CurrentByteIndex)

    def section_ends() -> None:
        builder.cut(parser.CurrentByteIndex + 3)

    def other(*_: str) -> None:
        builder.cut(parser.CurrentByteIndex)

    def skipped(name: str, _: bool) -> None:
        if name + ";" not in html5:
            raise ConservatorError(f"byte {parser.CurrentByteIndex}: the entity &{name}; is not known")
        text(html5[name + ";"])

    def doctype(_: str, __: str | None, ___: str | None, subset: int) -> None:
        if subset:
            raise ConservatorError("the file has a DOCTYPE with declarations of its own, which are not accepted")

    def entity(name: str, *_: object) -> None:
        raise ConservatorError(f"the file declares the entity &{name};, which is not accepted")

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = begin, end, text
    parser.StartCdataSectionHandler, parser.EndCdataSectionHandler = section, section_ends
    parser.CommentHandler, parser.ProcessingInstructionHandler = other, other
    parser.SkippedEntityHandler = skipped
    parser.StartDoctypeDeclHandler, parser.EntityDeclHandler = doctype, entity
    try:
        parser.Parse(source, True)
    except expat.ExpatError as error:
        raise UnreadableError(f"the file is not well-formed XML: {error}") from error
    assert builder.root is not None
    return Markup(source, builder.root, encoding, order)


def read_html(data: bytes, limits: Limits) -> Markup:
    """Read HTML that is no XML: elements may lack an end tag, and attributes their quotes."""
    source, encoding, order = decode(data, limits)
    builder, at = Builder(limits), 0
    while at < len(source):
        start = source.find(b"<", at)
        start = len(source) if start < 0 else start
        if start > at:
            builder.text(html.unescape(source[at:start].decode()), at)
        at = _read_tag(source, builder, start)
    while builder.open:
        builder.end(len(source), len(source))
    if builder.root is None:
        raise ConservatorError("the file has no element")
    return Markup(source, builder.root, encoding, order)


def _read_tag(source: bytes, builder: Builder, start: int) -> int:
    """Read what begins with ``<``, and return where it ends."""
    follows = source[start + 1 : start + 2]
    if follows in (b"!", b"?"):
        builder.cut(start)
        begins, ends = (b"<!--", b"-->") if source.startswith(b"<!--", start) else (b"<", b">")
        return _find(source, ends, start + len(begins)) + len(ends)
    if follows == b"/":
        stop = _find(source, b">", start) + 1
        name = source[start + 2 : stop - 1].decode().strip().lower()
        if any(one.name == name for one in builder.open):
            while builder.open[-1].name != name:
                builder.end(start, start)
            builder.end(start, stop)
        builder.cut(start)
        return stop
    if not follows.isalpha():
        if follows:
            builder.text("<", start)
        return start + 1
    tag = TAG.match(source, start)
    if tag is None:
        raise ConservatorError(f"byte {start}: a tag begins here and does not end")
    name, attributes = _parts(tag[0])
    if name in CLOSED_BY_ITSELF and builder.open and builder.open[-1].name == name:
        builder.end(start, start)
    builder.begin(name, "", attributes, start, tag.end())
    if name in VOID or tag[0].endswith(b"/>"):
        builder.end(tag.end(), tag.end())
    elif name in RAW:
        close = re.compile(b"</" + name.encode(), re.IGNORECASE).search(source, tag.end())
        if close is None:
            raise ConservatorError(f"byte {start}: <{name}> begins here and does not end")
        return close.start()
    return tag.end()


def _parts(tag: bytes) -> tuple[str, dict[str, str]]:
    """The name and the attributes of a start tag of HTML."""
    found = ATTRIBUTE.finditer(tag, 1)
    name = next(found)[1].decode().lower()
    attributes: dict[str, str] = {}
    for one in found:
        value = (one[2] or b"").decode()
        value = value[1:-1] if value[:1] in ("'", '"') else value
        attributes.setdefault(one[1].decode().lower(), html.unescape(value))
    return name, attributes


def _find(source: bytes, sign: bytes, start: int) -> int:
    """Where a sign stands; raise a ConservatorError if there is none."""
    at = source.find(sign, start)
    if at < 0:
        raise ConservatorError(f"byte {start}: what begins here does not end; {sign.decode()} is missing")
    return at


def _declared(body: bytes) -> str:
    """The encoding that markup declares, or UTF-8."""
    head = body[:HEAD]
    found = DECLARED.match(head) or (None if head.lstrip().startswith(b"<?xml") else META.search(head))
    if found is None:
        return "utf-8"
    try:
        name = check_encoding(found[1].decode())
    except OptionError as error:
        raise ConservatorError(f"the file declares the encoding {found[1].decode()!r}, which is not known") from error
    if name.startswith(("utf-16", "utf-32")):
        raise ConservatorError(f"the file declares the encoding {name}, but its bytes are not {name}")
    return name
