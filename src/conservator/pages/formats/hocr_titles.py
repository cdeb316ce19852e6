"""Titles of hOCR elements, which hold properties such as the box and the confidence."""

import re

from conservator.errors import ConservatorError
from conservator.pages.formats.numbers import read_coordinate, write_coordinate
from conservator.pages.markup import Markup
from conservator.pages.markup.elements import Element
from conservator.pages.model import Box

TITLE_TOKEN = re.compile(r'[^;"]+|"[^"]*"|"|;')  # a semicolon in quotes does not end a property


def read_properties(element: Element) -> dict[str, str]:
    """Return the properties in the title of an element."""
    properties: dict[str, str] = {}
    for text in _split_title(element.attributes.get("title", "")):
        name, _, value = text.strip().partition(" ")
        if name:
            properties.setdefault(name, value)
    return properties


def _split_title(title: str) -> list[str]:
    """Split a title at semicolons outside quotes."""
    parts = [""]
    for token in TITLE_TOKEN.finditer(title):
        if token[0] == ";":
            parts.append("")
        else:
            parts[-1] += token[0]
    return parts


def write_title(title: str, box: Box | None, confidence: float | None) -> str:
    """Return a title with a new box and confidence; None keeps the old value."""
    new_values = {}
    if box is not None:
        new_values["bbox"] = " ".join(map(write_coordinate, box))
    if confidence is not None:
        new_values["x_wconf"] = str(round(100 * confidence))
    parts = _split_title(title) if title.strip() else []
    for index, part in enumerate(parts):
        name = part.split(maxsplit=1)[:1]
        if name and name[0] in new_values:
            indent = part[: len(part) - len(part.lstrip())]
            parts[index] = f"{indent}{name[0]} {new_values.pop(name[0])}"
    parts += [(" " if parts or index else "") + f"{name} {new_values[name]}" for index, name in enumerate(new_values)]
    return ";".join(parts)


def read_box(markup: Markup, element: Element, name: str = "bbox") -> Box | None:
    """Return the box in the title of an element; None if there is none."""
    values = read_properties(element).get(name)
    if values is None:
        return None
    numbers = [read_coordinate(value, lambda: markup.location(element)) for value in values.split()]
    if len(numbers) != 4:
        raise ConservatorError(f"{markup.location(element)}: {name} must have 4 numbers, got {len(numbers)}")
    return Box(*numbers)
