"""Element tree with byte offsets into the source of a file, and its size limits."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from conservator.errors import ConservatorError

# A tag: name, then attributes; quoted values may contain ``>``. Possessive quantifiers exclude backtracking.
TAG = re.compile(rb"""<[^\s<>/!?][^\s<>/]*+(?:[^"'<>]++|"[^"]*+"|'[^']*+')*+>""")
ATTRIBUTE = re.compile(rb"""([^\s=/>"']++)(?:\s*+=\s*+("[^"]*+"|'[^']*+'|[^\s>"']++))?""")


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


@dataclass(slots=True, eq=False)
class TextRun:
    """A run of text: its characters, and its bytes ``start`` to ``stop`` in the source."""

    value: str
    start: int
    stop: int


@dataclass(slots=True, eq=False)
class Element:
    """An element and its byte offsets in the source.

    Attributes:
        name: name without prefix.
        namespace: namespace, or an empty string.
        attributes: values by name, with character references replaced. Names with a namespace contain a space.
        parent: enclosing element.
        start: offset of the start tag.
        content_start: offset after the start tag.
        content_stop: offset of the end tag; set when it is read.
        stop: offset after the end tag. A self-closing element has ``content_start == content_stop == stop``.
        children: elements and runs of text, in order.
    """

    name: str
    namespace: str
    attributes: dict[str, str]
    parent: "Element | None" = field(repr=False)
    start: int
    content_start: int
    content_stop: int = 0
    stop: int = 0
    children: list["Element | TextRun"] = field(default_factory=list, repr=False)

    def elements(self, name: str | None = None) -> list["Element"]:
        """Return the child elements, all or those with a name."""
        return [child for child in self.children if isinstance(child, Element) and name in (None, child.name)]

    def ancestors(self) -> Iterator["Element"]:
        """Yield the enclosing elements, innermost first."""
        element = self.parent
        while element is not None:
            yield element
            element = element.parent

    def nodes(self) -> Iterator["Element | TextRun"]:
        """Yield this element and all elements and runs of text in it, in document order."""
        stack: list[Element | TextRun] = [self]
        while stack:
            node = stack.pop()
            yield node
            if isinstance(node, Element):
                stack.extend(reversed(node.children))

    def walk(self) -> Iterator["Element"]:
        """Yield this element and all its descendants in document order."""
        return (node for node in self.nodes() if isinstance(node, Element))

    def text(self) -> str:
        """Return the text of this element and its descendants."""
        return "".join(node.value for node in self.nodes() if isinstance(node, TextRun))


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
