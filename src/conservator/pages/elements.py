"""Markup as a tree of elements that know their bytes, so that a file can be changed without being written anew."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from conservator.errors import ConservatorError

# A tag: its name, then attributes, whose values may hold ``>`` between quotes. No part is matched in two ways.
TAG = re.compile(rb"""<[^\s<>/!?][^\s<>/]*+(?:[^"'<>]++|"[^"]*+"|'[^']*+')*+>""")
ATTRIBUTE = re.compile(rb"""([^\s=/>"']++)(?:\s*+=\s*+("[^"]*+"|'[^']*+'|[^\s>"']++))?""")


@dataclass(frozen=True)
class Limits:
    """How large a file may be: beyond what a scanned book needs, far below what would exhaust a machine.

    Attributes:
        size: bytes of the file.
        elements: elements, or rows of a table.
        depth: elements within each other.
        attribute: characters of one attribute.
    """

    size: int = 2**26
    elements: int = 2_000_000
    depth: int = 100
    attribute: int = 2**17


class UnreadableError(ConservatorError):
    """Markup is not XML, or has elements within each other without end: it may be HTML."""


class Text:
    """A run of text: its characters, and the bytes ``start`` to ``stop`` of the source that stand for them."""

    __slots__ = ("start", "stop", "value")

    def __init__(self, value: str, start: int, stop: int) -> None:
        """Take the characters and their place."""
        self.value, self.start, self.stop = value, start, stop


class Element:
    """An element and its places in the source.

    Attributes:
        name: its name without a prefix.
        space: its namespace, or an empty string.
        attributes: those without a prefix, with references replaced.
        children: elements and runs of text, in order.
        parent: the element around it.
        start: where its start tag begins.
        inside: where its content begins.
        close: where its content ends.
        stop: where its end tag ends. An element without content has ``inside == close == stop``.
    """

    __slots__ = ("attributes", "children", "close", "inside", "name", "parent", "space", "start", "stop")

    def __init__(
        self, name: str, space: str, attributes: dict[str, str], parent: "Element | None", start: int, inside: int
    ) -> None:
        """Begin an element, which ends where its tag does until an end tag is found."""
        self.name, self.space, self.attributes, self.parent = name, space, attributes, parent
        self.children: list[Element | Text] = []
        self.start, self.inside, self.close, self.stop = start, inside, inside, inside

    def elements(self, name: str | None = None) -> list["Element"]:
        """The elements right within it, all or those of a name."""
        return [one for one in self.children if isinstance(one, Element) and name in (None, one.name)]

    def walk(self) -> Iterator["Element"]:
        """It and all elements within it, in the order of the file."""
        waiting = [self]
        while waiting:
            one = waiting.pop()
            yield one
            waiting.extend(reversed(one.elements()))

    def texts(self) -> Iterator[Text]:
        """All runs of text within it, in the order of the file."""
        waiting: list[Element | Text] = [self]
        while waiting:
            one = waiting.pop()
            if isinstance(one, Text):
                yield one
            else:
                waiting.extend(reversed(one.children))

    def text(self) -> str:
        """All characters within it."""
        return "".join(one.value for one in self.texts())


class Builder:
    """Makes a tree of what a parser finds, within limits."""

    def __init__(self, limits: Limits) -> None:
        """Start with no element."""
        self.limits = limits
        self.root: Element | None = None
        self.open: list[Element] = []
        self._count = 0
        self._pieces: list[str] = []
        self._first = 0

    def begin(self, name: str, space: str, attributes: dict[str, str], start: int, inside: int) -> None:
        """An element begins."""
        self.cut(start)
        self._count += 1
        if self._count > self.limits.elements:
            raise ConservatorError(f"the file has more than {self.limits.elements:,} elements")
        if len(self.open) >= self.limits.depth:
            raise UnreadableError(f"byte {start}: more than {self.limits.depth} elements within each other")
        long = max(map(len, attributes.values()), default=0)
        if long > self.limits.attribute:
            raise ConservatorError(
                f"byte {start}: an attribute of {long:,} characters; at most {self.limits.attribute:,} are accepted"
            )
        element = Element(name, space, attributes, self.open[-1] if self.open else None, start, inside)
        if self.open:
            self.open[-1].children.append(element)
        elif self.root is None:
            self.root = element
        else:
            raise ConservatorError(f"byte {start}: a second root element, <{name}>")
        self.open.append(element)

    def end(self, close: int, stop: int) -> None:
        """The innermost open element ends."""
        self.cut(close)
        element = self.open.pop()
        element.close, element.stop = close, stop

    def text(self, value: str, start: int) -> None:
        """Characters; what follows says where they end."""
        if not self._pieces:
            self._first = start
        self._pieces.append(value)

    def cut(self, at: int) -> None:
        """The run of text so far, if there is any, ends here."""
        if self._pieces and self.open:
            self.open[-1].children.append(Text("".join(self._pieces), self._first, at))
        self._pieces = []


class Edits:
    """Changes of a source: each replaces some of its bytes, and no two may overlap."""

    def __init__(self, source: bytes) -> None:
        """Begin without a change."""
        self.source = source
        self._changes: list[tuple[int, int, bytes]] = []
        self._filled: dict[Element, list[bytes]] = {}

    def replace(self, start: int, stop: int, new: bytes) -> None:
        """Put ``new`` in the place of some bytes; several insertions at one place stay in order."""
        self._changes.append((start, stop, new))

    def attribute(self, element: Element, name: str, value: str) -> None:
        """Set an attribute; one that is new becomes the last."""
        place = attribute_place(self.source, element, name)
        if place is not None:
            self.replace(*place, quote(value))
        else:
            end = tag_end(self.source, element)
            self.replace(end, end, b" " + name.encode() + b"=" + quote(value))

    def drop(self, element: Element, name: str) -> None:
        """Take an attribute away, if it is there."""
        place = attribute_place(self.source, element, name)
        if place is not None:
            start = place[0]
            while self.source[start - 1 : start].isspace() or self.source[start - 1 : start] == b"=":
                start -= 1
            start -= len(name)
            while self.source[start - 1 : start].isspace():
                start -= 1
            self.replace(start, place[1], b"")

    def insert(self, element: Element, at: int, content: bytes) -> None:
        """Put content into an element, ``at`` a place within it; an empty element gets an end tag."""
        if self.source.startswith(b"/>", element.inside - 2):
            self._filled.setdefault(element, []).append(content)
        else:
            self.replace(at, at, content)

    def delete(self, element: Element) -> None:
        """Take an element out, with the blanks before it."""
        start = element.start
        while self.source[start - 1 : start].isspace():
            start -= 1
        self.replace(start, element.stop, b"")

    def apply(self) -> bytes:
        """The source with all changes."""
        changes = list(self._changes)
        for element, contents in self._filled.items():
            content = b"".join([b">", *contents, end_tag(self.source, element)])
            changes.append((tag_end(self.source, element), element.inside, content))
        made, at = [], 0
        for start, stop, new in sorted(changes, key=lambda one: one[:2]):
            if start < at:
                problem = "words that stand within each other cannot be changed together; change one after the other"
                raise ConservatorError(f"byte {start} of the file: {problem}")
            made += [self.source[at:start], new]
            at = max(at, stop)
        return b"".join([*made, self.source[at:]])


def attribute_place(source: bytes, element: Element, name: str) -> tuple[int, int] | None:
    """Where the value of an attribute stands, with its quotes."""
    after = re.compile(rb"<[^\s<>/]+").match(source, element.start)
    assert after is not None
    for found in ATTRIBUTE.finditer(source, after.end(), element.inside):
        if found[1].lower() == name.lower().encode() and found[2] is not None:
            return found.span(2)
    return None


def tag_end(source: bytes, element: Element) -> int:
    """Where the ``>`` or ``/>`` of a start tag stands, blanks before it included."""
    end = element.inside - (2 if source.startswith(b"/>", element.inside - 2) else 1)
    while source[end - 1 : end].isspace():
        end -= 1
    return end


def qualified(source: bytes, element: Element) -> tuple[bytes, bytes]:
    """The prefix of an element with its colon, and its name, as the source has them."""
    found = re.compile(rb"<([^\s<>/:]+:)?([^\s<>/]+)").match(source, element.start)
    assert found is not None
    return found[1] or b"", found[2]


def end_tag(source: bytes, element: Element) -> bytes:
    """The end tag that an element has, or would have."""
    return b"</" + b"".join(qualified(source, element)) + b">"


def escape(text: str) -> bytes:
    """Text as content of an element, or of an attribute in double quotes."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    return text.encode()


def quote(value: str) -> bytes:
    """Text as the value of an attribute, with its quotes."""
    return b'"' + escape(value) + b'"'
