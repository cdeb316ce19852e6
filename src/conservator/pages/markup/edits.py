"""Edits of the source of an XML or HTML file at byte offsets: all other bytes stay the same."""

import re
from itertools import pairwise

from conservator.documents import splice
from conservator.errors import ConservatorError
from conservator.pages.markup.elements import ATTRIBUTE, Element

TAG_NAME = re.compile(rb"[^\s<>/]+")


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
        attribute = self._find_attribute(element, name)
        if attribute is not None:
            self.replace(*attribute.span(2), quote(value))
        else:
            end = self._start_tag_end(element)
            self.replace(end, end, b" " + name.encode() + b"=" + quote(value))

    def remove_attribute(self, element: Element, name: str) -> None:
        """Remove an attribute and the whitespace before it, if the element has it."""
        attribute = self._find_attribute(element, name)
        if attribute is not None:
            self.replace(self._strip(attribute.start()), attribute.end(), b"")

    def insert(self, element: Element, offset: int, content: bytes) -> None:
        """Insert content into an element at a byte offset; a self-closing element gets an end tag."""
        if self.source.startswith(b"/>", element.content_start - 2):
            self._contents_of_empty.setdefault(element, []).append(content)
        else:
            self.replace(offset, offset, content)

    def delete(self, element: Element) -> None:
        """Delete an element and the whitespace before it."""
        self.replace(self._strip(element.start), element.stop, b"")

    def apply(self) -> bytes:
        """Return the edited source."""
        replacements = list(self._replacements)
        for element, contents in self._contents_of_empty.items():
            content = b"".join([b">", *contents, end_tag(self.source, element)])
            replacements.append((self._start_tag_end(element), element.content_start, content))
        replacements.sort(key=lambda replacement: replacement[:2])
        for (_, stop, _), (start, _, _) in pairwise(replacements):
            if start < stop:
                raise ConservatorError(
                    f"byte {start} of the file: nested words cannot be changed in one call; change them one by one"
                )
        return splice(self.source, replacements)

    def _find_attribute(self, element: Element, name: str) -> re.Match[bytes] | None:
        """Return the match of an attribute that has a value; None if there is no such attribute."""
        name_end = element.start + 1 + len(tag_name(self.source, element))
        for attribute in ATTRIBUTE.finditer(self.source, name_end, element.content_start):
            if attribute[1].lower() == name.lower().encode() and attribute[2] is not None:
                return attribute
        return None

    def _start_tag_end(self, element: Element) -> int:
        """Return the offset of the ``>`` or ``/>`` of a start tag, including whitespace before it."""
        is_empty = self.source.startswith(b"/>", element.content_start - 2)
        return self._strip(element.content_start - (2 if is_empty else 1))

    def _strip(self, offset: int) -> int:
        """Return the start of the whitespace before an offset."""
        while self.source[offset - 1 : offset].isspace():
            offset -= 1
        return offset


def tag_name(source: bytes, element: Element) -> bytes:
    """Return the name of an element as written in the source, with its prefix."""
    match = TAG_NAME.match(source, element.start + 1)
    assert match is not None
    return match[0]


def end_tag(source: bytes, element: Element) -> bytes:
    """Return the end tag of an element; a self-closing element gets the end tag of its name."""
    return b"</" + tag_name(source, element) + b">"


def start_tag(name: bytes, attributes: dict[str, str]) -> bytes:
    """Format a start tag without its ``>``."""
    return b"<" + name + b"".join(b" " + key.encode() + b"=" + quote(value) for key, value in attributes.items())


def new_element(source: bytes, sibling: Element, name: str, attributes: dict[str, str], content: bytes = b"") -> bytes:
    """Format an element with the prefix of another element; without content, it is self-closing."""
    prefix, colon, _ = tag_name(source, sibling).rpartition(b":")
    tag = prefix + colon + name.encode()
    return start_tag(tag, attributes) + (b">" + content + b"</" + tag + b">" if content else b"/>")


def escape(text: str) -> bytes:
    """Escape text for the content of an element, or for an attribute in double quotes."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    return text.encode()


def quote(value: str) -> bytes:
    """Format a value of an attribute, with quotes."""
    return b'"' + escape(value) + b'"'
