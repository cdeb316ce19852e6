"""Notices: conditions of a restoration that its user should know, as data that every output shows."""

from typing import NamedTuple

OUT_OF_DOMAIN = "out_of_domain"
MOSTLY_LOST = "mostly_lost"
UNKNOWN_LANGUAGE = "unknown_language"
LANGUAGE_MODELS_UNUSED = "language_models_unused"


class Notice(NamedTuple):
    """A condition that affects a result.

    Attributes:
        kind: a stable identifier, such as ``unknown_language``.
        message: one sentence for the user: the condition, its effect and, where there is one, the remedy.
    """

    kind: str
    message: str
