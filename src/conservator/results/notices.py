"""Notices: statements about a result for its user, as data that every output shows."""

from typing import NamedTuple

OUT_OF_DOMAIN = "out_of_domain"
MOSTLY_LOST = "mostly_lost"
LOST_CHARACTERS = "lost_characters"
UNKNOWN_LANGUAGE = "unknown_language"
LANGUAGE_MODELS_UNUSED = "language_models_unused"
NOT_COVERED = (MOSTLY_LOST, LOST_CHARACTERS, UNKNOWN_LANGUAGE)  # reasons to leave text unchanged


class Notice(NamedTuple):
    """A statement about a result.

    Attributes:
        kind: Stable identifier, such as ``unknown_language``.
        message: One sentence for the user: the condition, its effect and, if there is one, the remedy.
    """

    kind: str
    message: str


def mostly_lost_notice(count: int) -> tuple[Notice, ...]:
    """Return the notice that ``count`` marks are unfilled because most text around them is lost; none for 0."""
    reason = "most of the text around them is lost, so the visible text does not determine them"
    return _unfilled_notice(MOSTLY_LOST, count, reason)


def lost_characters_notice(count: int) -> tuple[Notice, ...]:
    """Return the notice that ``count`` marks are unfilled because they stand for long characters; none for 0."""
    reason = (
        "they probably stand for non-ASCII characters, which have several bytes, and the experts restore one byte per "
        "mark"
    )
    return _unfilled_notice(LOST_CHARACTERS, count, reason)


def _unfilled_notice(kind: str, count: int, reason: str) -> tuple[Notice, ...]:
    if not count:
        return ()
    return (Notice(kind, f"{count} {'mark was' if count == 1 else 'marks were'} left unfilled: {reason}"),)
