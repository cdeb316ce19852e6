"""Element tree with byte offsets, and edits of the source at these offsets: all other bytes of a file stay the same."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from conservator.errors import ConservatorError

# A tag: name, then attributes; quoted values may contain ``>``. Possessive quantifiers exclude backtracking.
TAG = re.compile(rb"""<[^\s<>/!?][^\s<>/]*+(?:[^"'<>]++|"[^"]*+"|'[^']*+')*+>""")
ATTRIBUTE = re.compile(rb"""([^\s=/>"']++)(?:\s*+=\s*+("[^"]*+"|'[^']*+'|[^\s>"']++))?""")
TAG_NAME = re.compile(rb"<[^\s<>/]+")
QUALIFIED_NAME = re.compile(rb"<([^\s<>/:]+:)?([^\s<>/]+)")


@dataclass(frozen=True)
class FileLimits:
    """Size limits of an OCR file: larger than a scanned book needs, and small enough to protect memory."""

    max_bytes: int = 2**26  # bytes: size of the file [safety limit]
    max_elements: int = 2_000_000  # count: elements, or rows of a table [safety limit]
    max_depth: int = 100  # levels: nesting of elements [safety limit]
    max_attribute_chars: int = 2**17  # characters: length of one attribute [safety limit]

    def check_size(self, data: bytes) -> None:
        """Raise a ConservatorError if a file is too large."""
        if len(data) > self.max_bytes:
            raise ConservatorError(
                f"the file is too large: it has {len(data):,} bytes, the limit is {self.max_bytes:,} bytes"
            )


class UnreadableError(ConservatorError):
    """The file is not well-formed XML, or is nested too deeply; it may be HTML."""


class TextRun:
    """A run of text: its characters, and its bytes ``start`` to ``stop`` in the source."""

    __slots__ = ("start", "stop", "value")

    def __init__(self, value: str, start: int, stop: int) -> None:
        """Store the characters and the byte offsets."""
        self.value, self.start, self.stop = value, start, stop


class Element:
    """An element and its byte offsets in the source.

    Attributes:
        name: name without prefix.
        namespace: namespace, or an empty string.
        attributes: values by name, with character references replaced. Names with a namespace contain a space.
        children: elements and runs of text, in order.
        parent: enclosing element.
        start: offset of the start tag.
        content_start: offset after the start tag.
        content_stop: offset of the end tag.
        stop: offset after the end tag. A self-closing element has ``content_start == content_stop == stop``.
    """

    __slots__ = (
        "attributes",
        "children",
        "content_start",
        "content_stop",
        "name",
        "namespace",
        "parent",
        "start",
        "stop",
    )

    def __init__(
        self,
        name: str,
        namespace: str,
        attributes: dict[str, str],
        parent: "Element | None",
        start: int,
        content_start: int,
    ) -> None:
        """Create an element without content; the end tag sets ``content_stop`` and ``stop``."""
        self.name, self.namespace, self.attributes, self.parent = name, namespace, attributes, parent
        self.children: list[Element | TextRun] = []
        self.start, self.content_start = start, content_start
        self.content_stop, self.stop = content_start, content_start

    def elements(self, name: str | None = None) -> list["Element"]:
        """Return the child elements, all or those with a name."""
        return [child for child in self.children if isinstance(child, Element) and name in (None, child.name)]

    def walk(self) -> Iterator["Element"]:
        """Yield this element and all its descendants in document order."""
        stack = [self]
        while stack:
            element = stack.pop()
            yield element
            stack.extend(reversed(element.elements()))

    def text_runs(self) -> Iterator[TextRun]:
        """Yield all runs of text in this element in document order."""
        stack: list[Element | TextRun] = [self]
        while stack:
            node = stack.pop()
            if isinstance(node, TextRun):
                yield node
            else:
                stack.extend(reversed(node.children))

    def text(self) -> str:
        """Return the text of this element and its descendants."""
        return "".join(run.value for run in self.text_runs())


class TreeBuilder:
    """Builds an element tree from parser events and enforces limits.

    Attributes:
        limits: size limits.
        root: outermost element; None before the first start tag.
        open: elements without an end tag yet, outermost first.
    """

    def __init__(self, limits: FileLimits) -> None:
        """Start with an empty tree."""
        self.limits = limits
        self.root: Element | None = None
        self.open: list[Element] = []
        self._element_count = 0
        self._text_parts: list[str] = []
        self._text_start = 0

    def start_element(
        self, name: str, namespace: str, attributes: dict[str, str], start: int, content_start: int
    ) -> None:
        """Handle a start tag."""
        self.end_text(start)
        self._element_count += 1
        if self._element_count > self.limits.max_elements:
            raise ConservatorError(f"the file has more than {self.limits.max_elements:,} elements, which is the limit")
        if len(self.open) >= self.limits.max_depth:
            raise UnreadableError(f"byte {start}: elements are nested more than {self.limits.max_depth} levels deep")
        longest = max(map(len, attributes.values()), default=0)
        if longest > self.limits.max_attribute_chars:
            raise ConservatorError(
                f"byte {start}: an attribute is too long: it has {longest:,} characters, "
                f"the limit is {self.limits.max_attribute_chars:,}"
            )
        element = Element(name, namespace, attributes, self.open[-1] if self.open else None, start, content_start)
        if self.open:
            self.open[-1].children.append(element)
        elif self.root is None:
            self.root = element
        else:
            raise ConservatorError(f"byte {start}: a file must have one root element, got a second one, <{name}>")
        self.open.append(element)

    def end_element(self, content_stop: int, stop: int) -> None:
        """Handle the end of the innermost open element."""
        self.end_text(content_stop)
        element = self.open.pop()
        element.content_stop, element.stop = content_stop, stop

    def add_text(self, value: str, start: int) -> None:
        """Add characters to the current run of text; ``end_text`` sets its end."""
        if not self._text_parts:
            self._text_start = start
        self._text_parts.append(value)

    def end_text(self, stop: int) -> None:
        """End the current run of text, if there is one."""
        if self._text_parts and self.open:
            self.open[-1].children.append(TextRun("".join(self._text_parts), self._text_start, stop))
        self._text_parts = []


class Edits:
    """Replacements of byte ranges of a source; ranges must not overlap."""

    def __init__(self, source: bytes) -> None:
        """Start without edits."""
        self.source = source
        self._replacements: list[tuple[int, int, bytes]] = []
        self._contents_of_empty: dict[Element, list[bytes]] = {}

    def replace(self, start: int, stop: int, new: bytes) -> None:
        """Replace a byte range; several insertions at one offset keep their order."""
        self._replacements.append((start, stop, new))

    def set_attribute(self, element: Element, name: str, value: str) -> None:
        """Set an attribute; a new attribute is added as the last one."""
        span = attribute_span(self.source, element, name)
        if span is not None:
            self.replace(*span, quote(value))
        else:
            end = start_tag_end(self.source, element)
            self.replace(end, end, b" " + name.encode() + b"=" + quote(value))

    def remove_attribute(self, element: Element, name: str) -> None:
        """Remove an attribute, if the element has it."""
        span = attribute_span(self.source, element, name)
        if span is not None:
            start = span[0]
            while self.source[start - 1 : start].isspace() or self.source[start - 1 : start] == b"=":
                start -= 1
            start -= len(name)
            while self.source[start - 1 : start].isspace():
                start -= 1
            self.replace(start, span[1], b"")

    def insert(self, element: Element, offset: int, content: bytes) -> None:
        """Insert content into an element at a byte offset; a self-closing element gets an end tag."""
        if self.source.startswith(b"/>", element.content_start - 2):
            self._contents_of_empty.setdefault(element, []).append(content)
        else:
            self.replace(offset, offset, content)

    def delete(self, element: Element) -> None:
        """Delete an element and the whitespace before it."""
        start = element.start
        while self.source[start - 1 : start].isspace():
            start -= 1
        self.replace(start, element.stop, b"")

    def apply(self) -> bytes:
        """Return the edited source."""
        replacements = list(self._replacements)
        for element, contents in self._contents_of_empty.items():
            content = b"".join([b">", *contents, end_tag(self.source, element)])
            replacements.append((start_tag_end(self.source, element), element.content_start, content))
        parts, offset = [], 0
        for start, stop, new in sorted(replacements, key=lambda replacement: replacement[:2]):
            if start < offset:
                raise ConservatorError(
                    f"byte {start} of the file: nested words cannot be changed in one call; change them one by one"
                )
            parts += [self.source[offset:start], new]
            offset = max(offset, stop)
        return b"".join([*parts, self.source[offset:]])


def attribute_span(source: bytes, element: Element, name: str) -> tuple[int, int] | None:
    """Return the byte range of the value of an attribute, with its quotes; None if there is no such attribute."""
    tag_name = TAG_NAME.match(source, element.start)
    assert tag_name is not None
    for attribute in ATTRIBUTE.finditer(source, tag_name.end(), element.content_start):
        if attribute[1].lower() == name.lower().encode() and attribute[2] is not None:
            return attribute.span(2)
    return None


def start_tag_end(source: bytes, element: Element) -> int:
    """Return the offset of the ``>`` or ``/>`` of a start tag, including whitespace before it."""
    end = element.content_start - (2 if source.startswith(b"/>", element.content_start - 2) else 1)
    while source[end - 1 : end].isspace():
        end -= 1
    return end


def qualified_name(source: bytes, element: Element) -> tuple[bytes, bytes]:
    """Return the prefix of an element with its colon, and its local name, as written in the source."""
    match = QUALIFIED_NAME.match(source, element.start)
    assert match is not None
    return match[1] or b"", match[2]


def end_tag(source: bytes, element: Element) -> bytes:
    """Return the end tag of an element; a self-closing element gets the end tag of its name."""
    return b"</" + b"".join(qualified_name(source, element)) + b">"


def escape(text: str) -> bytes:
    """Escape text for the content of an element, or for an attribute in double quotes."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    return text.encode()


def quote(value: str) -> bytes:
    """Format a value of an attribute, with quotes."""
    return b'"' + escape(value) + b'"'


def format_attributes(attributes: dict[str, str]) -> bytes:
    """Format attributes for a start tag, with a space before each."""
    return b"".join(b" " + name.encode() + b"=" + quote(value) for name, value in attributes.items())
