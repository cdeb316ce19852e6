"""EpiDoc XML: ``<gap>`` elements are lacunae, and the text of the edition is read without markup.

The restored text replaces its ``<gap>`` as ``<supplied reason="lost" evidence="conjecture" resp="#conservator"
cert="low">``; all other bytes stay.
"""

import html
import re
from collections.abc import Iterator

from conservator.documents import UTF8
from conservator.errors import ConservatorError
from conservator.notation.lacuna import Lacuna, check_markers
from conservator.notation.reading_text import Part, ReadingText
from conservator.pages import FileLimits
from conservator.pages.markup.edits import new_element
from conservator.pages.markup.elements import Element, TextRun
from conservator.pages.markup.parsing import read_xml
from conservator.pages.reading import root_name

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
TEI_ROOTS = ("tei", "teicorpus", "tei.2")
RESTORED_REASONS = ("lost", "illegible", "")  # reasons of gaps that are restored
# Elements that are not part of the text: other readings, notes, and the uncorrected or regularised text of a choice.
NOT_READ = {"teiHeader", "note", "rdg", "sic", "reg", "am", "desc", "figDesc", "certainty", "surplus", "bibl", "head"}
BLOCKS = {"div", "ab", "p", "l", "lg", "cb", "pb", "textpart"}
PIECE = re.compile(rb"&[^;\s]+;|\s+|[^&\s]+|&")


def is_epidoc(source: bytes) -> bool:
    """Return whether a document is TEI with gaps, by its root element."""
    return b"gap" in source and root_name(source).lower() in TEI_ROOTS


def read_epidoc(source: bytes) -> ReadingText:
    """Read an EpiDoc file, given in UTF-8.

    Raises:
        ConservatorError: the file is not well-formed XML, or its root is not TEI.
    """
    mark = source[: len(BYTE_ORDER_MARK)] if source.startswith(BYTE_ORDER_MARK) else b""
    try:
        root = read_xml(BYTE_ORDER_MARK + source[len(mark) :], FileLimits()).root
    except ConservatorError as error:
        raise ConservatorError(f"the document cannot be read as EpiDoc: {error}") from error
    if root.name.lower() not in TEI_ROOTS:
        raise ConservatorError(f"the document is not EpiDoc: its root is <{root.name}>, expected <TEI>")
    check_markers(source.decode(UTF8))
    reader = _Reader(source, len(mark))
    for element in _editions(root):
        reader.read(element)
    return ReadingText.of(source, reader.parts())


def _editions(root: Element) -> list[Element]:
    """Return the elements with the text: the divisions of the type ``edition``, else the body, else the root."""
    editions = [element for element in root.walk() if element.attributes.get("type") == "edition"]
    nested = {id(inner) for element in editions for inner in element.walk() if inner is not element}
    return (
        [element for element in editions if id(element) not in nested]
        or [element for element in root.walk() if element.name == "body"]
        or [root]
    )


class _Reader:
    """Collects the parts of a document that models read; everything between them is markup."""

    def __init__(self, source: bytes, shift: int) -> None:
        """Start without parts; element offsets plus ``shift`` are offsets of the source."""
        self.source, self.shift = source, shift
        self.visible_parts: list[Part] = []
        self.is_joined = False  # whether the word continues after a line break, so that white space is not read

    def read(self, element: Element) -> None:
        """Read an element and its descendants."""
        self.end_line(element.content_start)
        self.read_children(element)
        self.end_line(element.content_stop)

    def read_children(self, element: Element) -> None:
        """Read the content of an element."""
        for child in element.children:
            if isinstance(child, TextRun):
                self.read_text(child)
            elif child.name == "gap":
                self.read_gap(child)
            elif child.name == "lb" and child.attributes.get("break") == "no":
                self.join_line()
            elif child.name in BLOCKS:
                self.read(child)
            elif child.name == "lb":
                self.end_line(child.start, " ")
            elif child.name not in NOT_READ:
                self.read_children(child)

    def read_text(self, run: TextRun) -> None:
        """Read a run of text; white space is one blank."""
        start, stop = run.start + self.shift, run.stop + self.shift
        raw = self.source[start:stop]
        if b"<" in raw:  # a CDATA section
            self.visible_parts.append(Part(start, stop, run.value.encode()))
            return
        for match in PIECE.finditer(raw):
            text = html.unescape(match[0].decode()).encode() if match[0][:1] == b"&" else match[0]
            if match[0].isspace():
                if self.is_joined or self.ends_blank():
                    continue
                text = b" "
            else:
                self.is_joined = False
            self.visible_parts.append(Part(start + match.start(), start + match.end(), text))

    def read_gap(self, gap: Element) -> None:
        """Read a gap: a lacuna, or, if it is not to be restored, the end of a line."""
        lacuna = _lacuna(gap)
        if lacuna is None:
            self.end_line(gap.start)
            return
        attributes = {
            "reason": gap.attributes.get("reason") or "lost",
            "evidence": "conjecture",
            "resp": "#conservator",
            "cert": "low",
        }
        written = new_element(self.source[self.shift :], gap, "supplied", attributes, b"|")
        opening, _, closing = written.rpartition(b"|")
        self.is_joined = False
        self.visible_parts.append(
            Part(
                gap.start + self.shift,
                gap.stop + self.shift,
                lacuna.marker.encode(),
                lacuna,
                (opening, closing),
            )
        )

    def end_line(self, offset: int, end: str = "\n") -> None:
        """Insert the end of a line at an offset, where the source has markup."""
        if self.visible_parts and not self.ends_blank():
            at = offset + self.shift
            self.visible_parts.append(Part(at, at, end.encode()))
        self.is_joined = False

    def join_line(self) -> None:
        """Join a word that a line break divides: white space around the break is not read."""
        if self.visible_parts and self.visible_parts[-1].text == b" ":
            self.visible_parts.pop()
        self.is_joined = True

    def ends_blank(self) -> bool:
        """Return whether the text so far is empty or ends with white space."""
        return not self.visible_parts or self.visible_parts[-1].text.isspace()

    def parts(self) -> Iterator[Part]:
        """Yield the parts of the document, with markup between those that are read."""
        done = 0
        for part in self.visible_parts:
            if part.start > done:
                yield Part(done, part.start, b"")
            yield part
            done = part.stop
        yield Part(done, len(self.source), b"")


def _lacuna(gap: Element) -> Lacuna | None:
    """Return the lacuna of a gap; None if it is not to be restored, as lost lines and omitted text."""
    attributes = gap.attributes
    if attributes.get("reason", "") not in RESTORED_REASONS or attributes.get("unit", "character") not in (
        "character",
        "chars",
        "letter",
    ):
        return None
    quantity, bounds = attributes.get("quantity", ""), [attributes.get(name, "") for name in ("atLeast", "atMost")]
    if quantity.isdecimal() and int(quantity) > 0:
        return Lacuna(int(quantity), is_exact=attributes.get("precision") != "low")
    known = [int(bound) for bound in bounds if bound.isdecimal() and int(bound) > 0]
    if len(known) == len(bounds):
        return Lacuna(max(1, round(sum(known) / len(known))))
    return Lacuna()
