"""The characters of words of hOCR: the runs of text that carry them, and what the engine says of each."""

from collections.abc import Iterable, Sequence

from conservator.pages.elements import Element, Text
from conservator.pages.hocr_titles import read_box, read_properties
from conservator.pages.markup import Markup
from conservator.pages.model import Alternative, Glyph
from conservator.pages.numbers import read_confidence

CHARACTERS, SYMBOLS = {"ocrx_cinfo", "ocr_cinfo", "ocr_glyph"}, {"ocr_symbol"}


def is_kind(element: Element, kinds: set[str]) -> bool:
    """Whether an element is of one of the kinds."""
    return bool(kinds & set(element.attributes.get("class", "").split()))


def is_choice(element: Element) -> bool:
    """Whether an element holds the readings that were possible for a character, as Tesseract lists them."""
    within = any(is_kind(one, CHARACTERS) for one in element.elements())
    return is_kind(element, SYMBOLS) or (is_kind(element, CHARACTERS) and within)


def find_runs(element: Element) -> list[Text]:
    """The runs that carry the text of a word: not those of other readings, nor blanks."""
    return [run for child in element.children for run in find_runs_of(child)]


def find_runs_of(child: Element | Text) -> list[Text]:
    """The runs that carry text in a part of a word."""
    return [run for run in _loose_runs_of(child) if run.value.strip()]


def loose_runs(element: Element) -> Iterable[Text]:
    """The runs of text of a word or line, without those of other readings."""
    for child in element.children:
        yield from _loose_runs_of(child)


def _loose_runs_of(child: Element | Text) -> Iterable[Text]:
    """The runs of text in a part of a word or line."""
    if isinstance(child, Text):
        yield child
    elif child.name != "del" and not is_choice(child):
        yield from loose_runs(child)


def read_glyphs(markup: Markup, element: Element, text: str) -> tuple[Glyph, ...]:
    """The characters of a word, from elements of characters, lists of choices, or a list of confidences."""
    glyphs: list[Glyph] = []
    loose: list[dict[str, float]] = []
    waiting = list(reversed(element.elements()))
    while waiting:
        one = waiting.pop()
        if is_choice(one):
            choices = _read_choices(one)
            if glyphs and not glyphs[-1].alternatives:
                if glyphs[-1].text in choices:  # a few lists are those of another character
                    glyphs[-1] = _chosen(glyphs[-1], choices)
            else:
                loose.append(choices)
        elif is_kind(one, CHARACTERS) and one.text().strip():
            properties = read_properties(one)
            confidence = read_confidence(properties.get("x_conf") or properties.get("x_confs"), 100)
            glyphs.append(Glyph(one.text().strip(), confidence, read_box(markup, one, "x_bboxes")))
        elif one.name != "del":
            waiting.extend(reversed(one.elements()))
    if not glyphs and loose:
        glyphs = _assigned(text, loose)
    listed = read_properties(element).get("x_confs", "").split()
    if not glyphs and len(listed) == len(text):
        glyphs = [Glyph(one, read_confidence(value, 100)) for one, value in zip(text, listed, strict=True)]
    return tuple(glyphs) if "".join(glyph.text for glyph in glyphs) == text else ()


def _read_choices(element: Element) -> dict[str, float]:
    """The readings of a character and their confidences; of several moments of reading, the surest counts."""
    choices: dict[str, float] = {}
    for one in element.walk():
        reading = one.text().strip()
        if reading and is_kind(one, CHARACTERS) and not one.elements():
            confidence = read_confidence(read_properties(one).get("x_confs"), 100) or 0.0
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
