"""Characters of hOCR words: their runs of text, OCR confidences and OCR alternatives."""

from collections.abc import Iterable, Sequence

from conservator.pages.formats.hocr_titles import read_box, read_properties
from conservator.pages.formats.numbers import read_confidence
from conservator.pages.markup import Markup
from conservator.pages.markup.elements import Element, TextRun
from conservator.pages.model import Glyph, TextAlternative

CHARACTER_CLASSES, SYMBOL_CLASSES = {"ocrx_cinfo", "ocr_cinfo", "ocr_glyph"}, {"ocr_symbol"}
# lists: how many of the next lists of choices are searched for a character [untuned]
CHOICE_LIST_WINDOW = 3


def has_class(element: Element, classes: set[str]) -> bool:
    """Return whether an element has one of the classes."""
    return bool(classes & set(element.attributes.get("class", "").split()))


def is_choice_list(element: Element) -> bool:
    """Return whether an element lists the alternatives of a character, as Tesseract writes them."""
    has_characters = any(has_class(child, CHARACTER_CLASSES) for child in element.elements())
    return has_class(element, SYMBOL_CLASSES) or (has_class(element, CHARACTER_CLASSES) and has_characters)


def word_runs(element: Element) -> list[tuple[Element | TextRun, TextRun]]:
    """Return the runs with the text of a word, without alternatives and whitespace, each with its child of the word."""
    return [(child, run) for child in element.children for run in _child_runs(child) if run.value.strip()]


def text_runs(element: Element) -> Iterable[TextRun]:
    """Yield the runs of text of a word or line, without alternatives."""
    for child in element.children:
        yield from _child_runs(child)


def _child_runs(child: Element | TextRun) -> Iterable[TextRun]:
    """Yield the runs of text in a child of a word or line, without alternatives."""
    if isinstance(child, TextRun):
        yield child
    elif child.name != "del" and not is_choice_list(child):
        yield from text_runs(child)


def read_glyphs(markup: Markup, element: Element, text: str) -> tuple[Glyph, ...]:
    """Read the characters of a word, from elements of characters, lists of choices, or a list of confidences."""
    glyphs: list[Glyph] = []
    unassigned: list[dict[str, float]] = []  # lists of choices without a character element
    stack = list(reversed(element.elements()))
    while stack:
        node = stack.pop()
        if is_choice_list(node):
            choices = _read_choices(node)
            if glyphs and not glyphs[-1].alternatives:
                if glyphs[-1].text in choices:  # Tesseract sometimes lists the choices of another character
                    glyphs[-1] = _with_alternatives(glyphs[-1], choices)
            else:
                unassigned.append(choices)
        elif has_class(node, CHARACTER_CLASSES) and node.text().strip():
            properties = read_properties(node)
            confidence = read_confidence(properties.get("x_conf") or properties.get("x_confs"), 100)
            glyphs.append(Glyph(node.text().strip(), confidence, read_box(markup, node, "x_bboxes")))
        elif node.name != "del":
            stack.extend(reversed(node.elements()))
    if not glyphs and unassigned:
        glyphs = _assign_choices(text, unassigned)
    confidences = read_properties(element).get("x_confs", "").split()
    if not glyphs and len(confidences) == len(text):
        glyphs = [
            Glyph(character, read_confidence(value, 100)) for character, value in zip(text, confidences, strict=True)
        ]
    return tuple(glyphs) if "".join(glyph.text for glyph in glyphs) == text else ()


def _read_choices(element: Element) -> dict[str, float]:
    """Return the choices of a character with their confidences: of several time steps, the highest confidence."""
    choices: dict[str, float] = {}
    for node in element.walk():
        text = node.text().strip()
        if text and has_class(node, CHARACTER_CLASSES) and not node.elements():
            confidence = read_confidence(read_properties(node).get("x_confs"), 100) or 0.0
            choices[text] = max(confidence, choices.get(text, 0.0))
    return choices


def _assign_choices(text: str, choice_lists: Sequence[dict[str, float]]) -> list[Glyph]:
    """Assign to each character the first of the next lists of choices that contains it.

    Lists can be left over, because Tesseract also lists the choices of the space before a word.
    """
    glyphs, start = [], 0
    for character in text:
        candidates = range(start, min(start + CHOICE_LIST_WINDOW, len(choice_lists)))
        index = next((candidate for candidate in candidates if character in choice_lists[candidate]), None)
        if index is None:
            glyphs.append(Glyph(character))
        else:
            glyphs.append(_with_alternatives(Glyph(character), choice_lists[index]))
            start = index + 1
    return glyphs


def _with_alternatives(glyph: Glyph, choices: dict[str, float]) -> Glyph:
    """Return a glyph with its choices as alternatives, and with a confidence if it has none."""
    alternatives = tuple(
        TextAlternative(text, confidence) for text, confidence in choices.items() if text != glyph.text
    )
    confidence = choices.get(glyph.text) if glyph.confidence is None else glyph.confidence
    return Glyph(glyph.text, confidence, glyph.box, alternatives)
