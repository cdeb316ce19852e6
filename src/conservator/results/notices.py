"""Notices: conditions of a restoration that its user should know, as data that every output shows."""

from typing import NamedTuple

OUT_OF_DOMAIN = "out_of_domain"
MOSTLY_LOST = "mostly_lost"
LOST_CHARACTERS = "lost_characters"
UNKNOWN_LANGUAGE = "unknown_language"
LANGUAGE_MODELS_UNUSED = "language_models_unused"
NOT_COVERED = (MOSTLY_LOST, LOST_CHARACTERS, UNKNOWN_LANGUAGE)  # reasons why text was left as it was


class Notice(NamedTuple):
    """A condition that affects a result.

    Attributes:
        kind: a stable identifier, such as ``unknown_language``.
        message: one sentence for the user: the condition, its effect and, where there is one, the remedy.
    """

    kind: str
    message: str


def mostly_lost(marks: int) -> tuple[Notice, ...]:
    """The notice that so many marks were left open because most of the text around them is lost; none for 0."""
    reason = "most of the text around them is lost, so the visible text does not determine what stood there"
    return _left_open(MOSTLY_LOST, marks, reason)


def lost_characters(marks: int) -> tuple[Notice, ...]:
    """The notice that so many marks were left open because they stand for characters of several bytes; none for 0."""
    reason = (
        "they probably stand for characters outside ASCII, which have several bytes, and the experts restore one byte "
        "for each mark"
    )
    return _left_open(LOST_CHARACTERS, marks, reason)


def _left_open(kind: str, marks: int, reason: str) -> tuple[Notice, ...]:
    if not marks:
        return ()
    return (Notice(kind, f"{marks} {'mark was' if marks == 1 else 'marks were'} left open: {reason}"),)
