"""hOCR: HTML in which classes name pages, lines and words, and titles hold their properties."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from conservator.errors import ConservatorError
from conservator.pages.elements import Edits, Element, Text, end_tag, escape, qualified, quote
from conservator.pages.hocr_glyphs import CHARACTERS, find_runs, find_runs_of, is_kind, loose_runs, read_glyphs
from conservator.pages.hocr_titles import read_box, read_properties, write_title
from conservator.pages.markup import Markup
from conservator.pages.markup_file import MarkupFile, Passage, Place, blanks, find_tokens, set_run
from conservator.pages.model import Alternative, Box, Line, Page, Word
from conservator.pages.numbers import read_confidence
from conservator.pages.transcript import Transcript
from conservator.pages.word_alignment import spread

PAGES, WORDS = {"ocr_page"}, {"ocrx_word", "ocr_word"}
LINES = {"ocr_line", "ocrx_line", "ocr_caption", "ocr_header", "ocr_footer", "ocr_textfloat"}
BLOCKS = {"ocr_par", "ocr_carea", "ocrx_block", "ocr_caption", "ocr_header", "ocr_footer", "ocr_textfloat"}
ORIGINAL = "data-original"  # the attribute with the original of a change; a title has properties alone


@dataclass
class Hocr(MarkupFile):
    """A file in hOCR. A word that becomes two is two spans; several that become one are one span."""

    def set_word(
        self,
        edits: Edits,
        place: Place,
        before: str,
        text: str,
        box: Box | None,
        confidence: float | None,
        *,
        split: bool = False,
        glyphs: bytes = b"",
    ) -> None:
        """Change the text, ``bbox`` and ``x_wconf`` of a word."""
        element = place.element
        self._describe(edits, element, before if text != before else None, box, confidence)
        if text == before:
            return
        runs = find_runs(element)
        if not runs:
            edits.insert(element, element.inside, escape(text))
        elif len(runs) == 1:
            set_run(edits, runs[0], text)
        else:
            values = [run.value.strip() for run in runs]
            for run, old, piece in zip(runs, values, spread(values, text), strict=True):
                if piece != old:
                    set_run(edits, run, piece)

    def add_word(
        self,
        edits: Edits,
        place: Place,
        text: str,
        gap: tuple[Box | None, Box | None],
        name: str | None,
        confidence: float | None,
        *,
        last: bool,
        glyphs: bytes,
    ) -> None:
        """Add a span after a word."""
        element = place.element
        tag = self._tag(element, name, gap[1], confidence)
        edits.replace(element.stop, element.stop, b" " + tag + escape(text) + end_tag(self.markup.source, element))

    def remove_word(self, edits: Edits, first: Place, place: Place) -> None:
        """Take out a span; one within another word stays empty, or else that would become a word instead."""
        element = place.element
        if _is_within_word(element):
            edits.replace(element.inside, element.close, b"")
        else:
            edits.delete(element)

    def regroup(
        self,
        edits: Edits,
        places: Sequence[Place],
        before: str,
        parts: Sequence[str],
        boxes: Sequence[Box | None],
        confidence: float | None,
    ) -> None:
        """Make other words of words: tags between them go, others come, and what is in them stays where it is."""
        elements, source = [place.element for place in places], self.markup.source
        if not all(_joinable(source, one, other) for one, other in pairwise([elements[0], *elements])):
            super().regroup(edits, places, before, parts, boxes, confidence)
            return
        self._describe(edits, elements[0], before, boxes[0], confidence)
        for one, other in pairwise(elements):
            edits.replace(one.close, other.inside, b"")
        held = [(child, run) for element in elements for child in element.children for run in find_runs_of(child)]
        pieces = spread([run.value.strip() for _, run in held], "".join(parts))
        starts = list(accumulate(map(len, parts), initial=0))
        tags = {}
        for start, box in zip(starts[1:-1], boxes[1:], strict=True):
            tag = self._tag(elements[0], self.new_name(elements[0]), box, confidence)
            tags[start] = end_tag(source, elements[0]) + b" " + tag
        at = 0
        for (child, run), piece in zip(held, pieces, strict=True):
            cuts = [0, *(start - at for start in tags if at < start < at + len(piece)), len(piece)]
            shown = [escape(piece[start:stop]) for start, stop in pairwise(cuts)]
            rest = b"".join(tags[at + cut] + text for cut, text in zip(cuts[1:-1], shown[1:], strict=True))
            ahead = tags.get(at, b"") if piece else b""
            at += len(piece)
            lead, trail = blanks(run)
            if isinstance(child, Text):
                edits.replace(run.start, run.stop, lead + ahead + shown[0] + rest + trail)
            else:
                edits.replace(child.start, child.start, ahead)
                edits.replace(run.start, run.stop, lead + shown[0] + trail)
                edits.replace(child.stop, child.stop, rest)

    def _describe(
        self, edits: Edits, element: Element, before: str | None, box: Box | None, confidence: float | None
    ) -> None:
        """Change the title of a word, and put its original beside it, unless they are None."""
        title = write_title(element.attributes.get("title", ""), box, confidence)
        if title != element.attributes.get("title", ""):
            edits.attribute(element, "title", title)
        if before is not None and ORIGINAL not in element.attributes:
            edits.attribute(element, ORIGINAL, before)

    def _tag(self, element: Element, name: str | None, box: Box | None, confidence: float | None) -> bytes:
        """The start tag of a word like another."""
        attributes = {key: value for key, value in element.attributes.items() if " " not in key and key != ORIGINAL}
        attributes["title"] = write_title(attributes.get("title", ""), box, confidence)
        attributes |= {"id": name} if name is not None else {}
        shown = b"".join(b" " + key.encode() + b"=" + quote(value) for key, value in attributes.items())
        return b"<" + b"".join(qualified(self.markup.source, element)) + shown + b">"

    def glyph_text(self, glyph: Element) -> str:
        """The text of an element of a character."""
        return glyph.text().strip()

    def mark_passage(self, edits: Edits, passage: Passage) -> None:
        """Put the text of a line into an attribute."""
        if ORIGINAL not in passage.element.attributes:
            edits.attribute(passage.element, ORIGINAL, " ".join(passage.text.split()))


def read_hocr(data: bytes, markup: Markup) -> Transcript:
    """Read hOCR."""
    elements = list(markup.root.walk())
    kinds = {element: set(element.attributes.get("class", "").split()) for element in elements}
    lines, words = _innermost(elements, kinds, LINES), _innermost(elements, kinds, WORDS)
    home: dict[Element, tuple[Element, Element]] = {}  # the page and the block of each element
    found: dict[Element, dict[Element, list[Element]]] = {}  # the words of the lines of the pages
    owner: dict[Element, Element] = {}  # the line that an element stands in
    for element in elements:
        page, block = home.get(element.parent or element, (markup.root, markup.root))
        page = element if kinds[element] & PAGES else page
        block = element if page is element or (kinds[element] & BLOCKS and element not in lines) else block
        home[element] = page, block
        if element in lines:
            owner[element] = element
            found.setdefault(page, {}).setdefault(element, [])
        elif element.parent in owner:
            owner[element] = owner[element.parent]
        if kinds[element] & PAGES:
            found.setdefault(element, {})
        if element in words:
            line = owner.get(element) or element.parent or element
            found.setdefault(page, {}).setdefault(line, []).append(element)
    if not found:
        raise ConservatorError(
            "the HTML has no page, line or word of hOCR: no class is ocr_page, ocr_line or ocrx_word"
        )
    file = Hocr(markup)
    pages = tuple(_read_page(file, page, within, home) for page, within in found.items())
    systems = (one.attributes.get("content") for one in elements if one.attributes.get("name") == "ocr-system")
    return Transcript("hOCR", None, next(systems, None), "pixel", pages, data, file)


def _read_page(
    file: Hocr, page: Element, lines: dict[Element, list[Element]], home: dict[Element, tuple[Element, Element]]
) -> Page:
    """A page, from the elements of its lines and words."""
    made: list[Line] = []
    numbers: dict[Element, int] = {}
    for line, elements in lines.items():
        words = []
        for element in elements:
            word = _read_word(file, element)
            if word is not None:
                words.append(word)
                file.places.append(Place(element))
        if not elements:
            passage = Passage(line, tuple(loose_runs(line)))
            spans = find_tokens(passage.text)
            file.add_passage(passage, spans)
            words = [Word(passage.text[slice(*span)]) for span in spans]
        if words:
            number = numbers.setdefault(home[line][1], len(numbers))
            made.append(Line(tuple(words), read_box(file.markup, line), number))
    image = read_properties(page).get("image", "").strip().strip('"')
    return Page(tuple(made), read_box(file.markup, page), image or None)


def _read_word(file: Hocr, element: Element) -> Word | None:
    """A word; None if it has no text."""
    text = " ".join(_word_text(element).split())
    if not text:
        return None
    properties = read_properties(element)
    return Word(
        text,
        read_confidence(properties.get("x_wconf"), 100),
        read_box(file.markup, element),
        read_glyphs(file.markup, element, text),
        tuple(Alternative(one.text().strip(), None) for one in element.walk() if one.name == "del"),
        original=element.attributes.get(ORIGINAL),
    )


def _word_text(element: Element) -> str:
    """The text of a word. Blanks between elements of characters are none of it."""
    if any(is_kind(one, CHARACTERS) for one in element.walk()):
        return "".join(run.value.strip() for run in find_runs(element))
    return "".join(run.value for run in loose_runs(element))


def _joinable(source: bytes, one: Element, other: Element) -> bool:
    """Whether two words can become one element: both have an end tag of one name, and only blanks between them."""
    same = one.parent is other.parent and qualified(source, one) == qualified(source, other)
    return same and other.close < other.stop and (one is other or not source[one.stop : other.start].strip())


def _is_within_word(element: Element) -> bool:
    """Whether an element stands within a word."""
    above = element.parent
    while above is not None and not is_kind(above, WORDS):
        above = above.parent
    return above is not None


def _innermost(elements: Sequence[Element], kinds: dict[Element, set[str]], wanted: set[str]) -> dict[Element, None]:
    """The elements of the wanted kinds that hold no other of them."""
    around: set[Element] = set()
    for element in reversed(elements):
        if element.parent is not None and (element in around or kinds[element] & wanted):
            around.add(element.parent)
    return {element: None for element in elements if kinds[element] & wanted and element not in around}
