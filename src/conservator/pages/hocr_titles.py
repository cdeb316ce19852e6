"""The titles of hOCR: properties of an element, such as its box and its confidence."""

import re

from conservator.errors import ConservatorError
from conservator.pages.elements import Element
from conservator.pages.markup import Markup
from conservator.pages.model import Box
from conservator.pages.numbers import read_coordinate, write_coordinate

PIECE = re.compile(r'[^;"]+|"[^"]*"|"|;')  # of a title, in which a semicolon may stand between quotes


def read_properties(element: Element) -> dict[str, str]:
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


def write_title(title: str, box: Box | None, confidence: float | None) -> str:
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


def read_box(markup: Markup, element: Element, name: str = "bbox") -> Box | None:
    """The box of an element, if its title has one."""
    values = read_properties(element).get(name)
    if values is None:
        return None
    numbers = [read_coordinate(value, lambda: markup.where(element)) for value in values.split()]
    if len(numbers) != 4:
        raise ConservatorError(f"{markup.where(element)}: {name} has {len(numbers)} numbers; 4 are expected")
    return Box(*numbers)
