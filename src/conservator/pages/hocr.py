"""hOCR: HTML in which classes name pages, lines and words, and titles hold their properties."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from conservator.errors import ConservatorError
from conservator.pages.elements import Edits, Element, Text, end_tag, escape, qualified, quote
from conservator.pages.markup import Markup
from conservator.pages.model import Alternative, Box, Glyph, Line, Page, Word
from conservator.pages.rewriting import MarkupFile, Passage, Place, blanks, find_tokens, set_run
from conservator.pages.spelling import spread
from conservator.pages.transcript import Transcript
from conservator.pages.values import read_confidence, read_coordinate, write_coordinate

PAGES, WORDS = {"ocr_page"}, {"ocrx_word", "ocr_word"}
LINES = {"ocr_line", "ocrx_line", "ocr_caption", "ocr_header", "ocr_footer", "ocr_textfloat"}
BLOCKS = {"ocr_par", "ocr_carea", "ocrx_block", "ocr_caption", "ocr_header", "ocr_footer", "ocr_textfloat"}
CHARACTERS, SYMBOLS = {"ocrx_cinfo", "ocr_cinfo", "ocr_glyph"}, {"ocr_symbol"}
ORIGINAL = "data-original"  # the attribute with the original of a change; a title has properties alone
PIECE = re.compile(r'[^;"]+|"[^"]*"|"|;')  # of a title, in which a semicolon may stand between quotes


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
        runs = _runs(element)
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
        """Take out a span."""
        edits.delete(place.element)

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
        held = [(child, run) for element in elements for child in element.children for run in _runs_of(child)]
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
        title = _titled(element.attributes.get("title", ""), box, confidence)
        if title != element.attributes.get("title", ""):
            edits.attribute(element, "title", title)
        if before is not None and ORIGINAL not in element.attributes:
            edits.attribute(element, ORIGINAL, before)

    def _tag(self, element: Element, name: str | None, box: Box | None, confidence: float | None) -> bytes:
        """The start tag of a word like another."""
        attributes = {key: value for key, value in element.attributes.items() if " " not in key and key != ORIGINAL}
        attributes["title"] = _titled(attributes.get("title", ""), box, confidence)
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
            passage = Passage(line, line, tuple(_loose_runs(line)))
            spans = find_tokens(passage.text)
            file.add_passage(passage, spans)
            words = [Word(passage.text[slice(*span)]) for span in spans]
        if words:
            number = numbers.setdefault(home[line][1], len(numbers))
            made.append(Line(tuple(words), _box(file.markup, line), number))
    image = _properties(page).get("image", "").strip().strip('"')
    return Page(tuple(made), _box(file.markup, page), image or None)


def _read_word(file: Hocr, element: Element) -> Word | None:
    """A word; None if it has no text."""
    text = " ".join(_word_text(element).split())
    if not text:
        return None
    properties = _properties(element)
    return Word(
        text,
        read_confidence(properties.get("x_wconf"), 100),
        _box(file.markup, element),
        _read_glyphs(file.markup, element, text),
        tuple(Alternative(one.text().strip(), None) for one in element.walk() if one.name == "del"),
        original=element.attributes.get(ORIGINAL),
    )


def _word_text(element: Element) -> str:
    """The text of a word. Blanks between elements of characters are none of it."""
    if any(_is(one, CHARACTERS) for one in element.walk()):
        return "".join(run.value.strip() for run in _runs(element))
    return "".join(run.value for run in _loose_runs(element))


def _runs(element: Element) -> list[Text]:
    """The runs that carry the text of a word: not those of other readings, nor blanks."""
    return [run for child in element.children for run in _runs_of(child)]


def _runs_of(child: Element | Text) -> list[Text]:
    """The runs that carry text in a part of a word."""
    return [run for run in _loose_runs_of(child) if run.value.strip()]


def _loose_runs(element: Element) -> Iterable[Text]:
    """The runs of text of a word or line, without those of other readings."""
    for child in element.children:
        yield from _loose_runs_of(child)


def _loose_runs_of(child: Element | Text) -> Iterable[Text]:
    """The runs of text in a part of a word or line."""
    if isinstance(child, Text):
        yield child
    elif child.name != "del" and not _is_choice(child):
        yield from _loose_runs(child)


def _joinable(source: bytes, one: Element, other: Element) -> bool:
    """Whether two words can become one element: both have an end tag of one name, and only blanks between them."""
    same = one.parent is other.parent and qualified(source, one) == qualified(source, other)
    return same and other.close < other.stop and (one is other or not source[one.stop : other.start].strip())


def _is(element: Element, kinds: set[str]) -> bool:
    """Whether an element is of one of the kinds."""
    return bool(kinds & set(element.attributes.get("class", "").split()))


def _is_choice(element: Element) -> bool:
    """Whether an element holds the readings that were possible for a character, as Tesseract lists them."""
    within = any(_is(one, CHARACTERS) for one in element.elements())
    return _is(element, SYMBOLS) or (_is(element, CHARACTERS) and within)


def _read_glyphs(markup: Markup, element: Element, text: str) -> tuple[Glyph, ...]:
    """The characters of a word, from elements of characters, lists of choices, or a list of confidences."""
    glyphs: list[Glyph] = []
    loose: list[dict[str, float]] = []
    waiting = list(reversed(element.elements()))
    while waiting:
        one = waiting.pop()
        if _is_choice(one):
            choices = _read_choices(one)
            if glyphs and not glyphs[-1].alternatives:
                glyphs[-1] = _chosen(glyphs[-1], choices)
            else:
                loose.append(choices)
        elif _is(one, CHARACTERS) and one.text().strip():
            properties = _properties(one)
            confidence = read_confidence(properties.get("x_conf") or properties.get("x_confs"), 100)
            glyphs.append(Glyph(one.text().strip(), confidence, _box(markup, one, "x_bboxes")))
        elif one.name != "del":
            waiting.extend(reversed(one.elements()))
    if not glyphs and loose:
        glyphs = _assigned(text, loose)
    listed = _properties(element).get("x_confs", "").split()
    if not glyphs and len(listed) == len(text):
        glyphs = [Glyph(one, read_confidence(value, 100)) for one, value in zip(text, listed, strict=True)]
    return tuple(glyphs) if "".join(glyph.text for glyph in glyphs) == text else ()


def _read_choices(element: Element) -> dict[str, float]:
    """The readings of a character and their confidences; of several moments of reading, the surest counts."""
    choices: dict[str, float] = {}
    for one in element.walk():
        reading = one.text().strip()
        if reading and _is(one, CHARACTERS) and not one.elements():
            confidence = read_confidence(_properties(one).get("x_confs"), 100) or 0.0
            choices[reading] = max(confidence, choices.get(reading, 0.0))
    return choices


def _assigned(text: str, lists: Sequence[dict[str, float]]) -> list[Glyph]:
    """A glyph for each character, with the first list of choices after that of the character before that has it.

    Tesseract also lists the choices of the space before a word.
    """
    glyphs, at = [], 0
    for character in text:
        place = next((one for one in range(at, min(at + 3, len(lists))) if character in lists[one]), None)
        glyphs.append(_chosen(Glyph(character), lists[place]) if place is not None else Glyph(character))
        at = place + 1 if place is not None else at
    return glyphs


def _chosen(glyph: Glyph, choices: dict[str, float]) -> Glyph:
    """A glyph with other readings."""
    others = tuple(Alternative(*one) for one in choices.items() if one[0] != glyph.text)
    confidence = choices.get(glyph.text) if glyph.confidence is None else glyph.confidence
    return Glyph(glyph.text, confidence, glyph.box, others)


def _innermost(elements: Sequence[Element], kinds: dict[Element, set[str]], wanted: set[str]) -> dict[Element, None]:
    """The elements of the wanted kinds that hold no other of them."""
    around: set[Element] = set()
    for element in reversed(elements):
        if element.parent is not None and (element in around or kinds[element] & wanted):
            around.add(element.parent)
    return {element: None for element in elements if kinds[element] & wanted and element not in around}


def _properties(element: Element) -> dict[str, str]:
    """The properties in the title of an element."""
    found: dict[str, str] = {}
    for piece in _pieces(element.attributes.get("title", "")):
        name, _, value = piece.strip().partition(" ")
        if name:
            found.setdefault(name, value)
    return found


def _pieces(title: str) -> list[str]:
    """The properties of a title as they are written."""
    made = [""]
    for found in PIECE.finditer(title):
        if found[0] == ";":
            made.append("")
        else:
            made[-1] += found[0]
    return made


def _titled(title: str, box: Box | None, confidence: float | None) -> str:
    """A title with another box and confidence, unless they are None."""
    wanted = {}
    if box is not None:
        wanted["bbox"] = " ".join(map(write_coordinate, box))
    if confidence is not None:
        wanted["x_wconf"] = str(round(100 * confidence))
    pieces = _pieces(title) if title.strip() else []
    for index, piece in enumerate(pieces):
        name = piece.split(maxsplit=1)[:1]
        if name and name[0] in wanted:
            blank = piece[: len(piece) - len(piece.lstrip())]
            pieces[index] = f"{blank}{name[0]} {wanted.pop(name[0])}"
    pieces += [(" " if pieces or number else "") + f"{key} {wanted[key]}" for number, key in enumerate(wanted)]
    return ";".join(pieces)


def _box(markup: Markup, element: Element, name: str = "bbox") -> Box | None:
    """The box of an element, if its title has one."""
    values = _properties(element).get(name)
    if values is None:
        return None
    numbers = [read_coordinate(value, lambda: markup.where(element)) for value in values.split()]
    if len(numbers) != 4:
        raise ConservatorError(f"{markup.where(element)}: {name} has {len(numbers)} numbers; 4 are expected")
    return Box(*numbers)
