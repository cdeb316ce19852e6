"""Notices: statements about a result for its user, as data that every output shows."""

from collections.abc import Sequence
from dataclasses import dataclass

from conservator.results.config import RESULTS

OUT_OF_DOMAIN = "out_of_domain"
MOSTLY_LOST = "mostly_lost"
UNKNOWN_CHARACTERS = "unknown_characters"
UNKNOWN_LANGUAGE = "unknown_language"
TIME_LIMIT = "time_limit"
UNRELATED_READING = "unrelated_reading"
DETECTED = "detected"
NOT_COVERED = (MOSTLY_LOST, UNKNOWN_CHARACTERS, UNKNOWN_LANGUAGE)  # reasons to leave text unchanged
STAGE_LABELS = {  # stage of a restoration -> its description for the user
    "detecting": "detecting the damage",
    "references": "indexing references",
    "choosing experts": "selecting experts",
    "lengths": "estimating gap lengths",
    "inferring": "inferring expert weights",
    "decoding": "decoding",
    "rescoring": "rescoring",
    "alternatives": "finding alternatives",
    "correcting": "correcting",
    "reading": "running OCR",
}


@dataclass(frozen=True)
class Notice:
    """A statement about a result.

    Attributes:
        kind: Stable identifier, such as ``unknown_language``.
        message: One sentence for the user: the condition, its effect and, if there is one, the remedy.
    """

    kind: str
    message: str


Notices = tuple[Notice, ...]  # one notice, or none if its condition is false


def mostly_lost_notice(count: int) -> Notices:
    """Return the notice that ``count`` marks are unfilled because most text around them is lost; none for 0."""
    reason = "most of the text around them is lost, so the visible text does not determine them"
    return _unfilled_notice(MOSTLY_LOST, count, reason)


def unknown_characters_notice(count: int) -> Notices:
    """Return the notice that ``count`` marks are unfilled because every character is improbable there; none for 0."""
    reason = (
        "no character is probable enough there; reference texts in the language of the document or a language model "
        "help"
    )
    return _unfilled_notice(UNKNOWN_CHARACTERS, count, reason)


def _unfilled_notice(kind: str, count: int, reason: str) -> Notices:
    if not count:
        return ()
    return (Notice(kind, f"{count} {'mark was' if count == 1 else 'marks were'} left unfilled: {reason}"),)


def domain_notice(cross_entropy: float | None, standard_error: float | None, lost_share: float) -> Notices:
    """Return the notice that no expert predicts a text well; none if one does, or if the sample was too small.

    Args:
        cross_entropy: Mean negative log-probability of hidden visible bytes, in nats per byte; None if not measured.
        standard_error: Standard error of it; None if unknown.
        lost_share: Number of lost bytes, divided by the number of bytes that were read.
    """
    if cross_entropy is None or standard_error is None:
        return ()
    limit = RESULTS.max_cross_entropy + RESULTS.cross_entropy_per_lost_share * min(lost_share, 1.0)
    if cross_entropy - RESULTS.domain_standard_errors * standard_error <= limit:
        return ()
    message = (
        "this text differs from the training texts of every expert, so fewer bytes are restored correctly; "
        "reference texts of the same kind and language help"
    )
    return (Notice(OUT_OF_DOMAIN, message),)


def detected_notice(channels: Sequence[str]) -> Notice:
    """Return the notice that states which channels were detected."""
    names = ",".join(channels)
    return Notice(DETECTED, f"detected damage: {names} (--channel {names} selects it without detection)")


def unrelated_reading_notice(name: str) -> Notices:
    """Return the notice that a reading is not used."""
    return (Notice(UNRELATED_READING, f"{name} was not used: it is not a reading of the same text"),)


def coverage_notice(uncovered: float) -> Notices:
    """Return the notice that a share of a text is unchanged because no model covers it; none if the share is small."""
    if uncovered < RESULTS.min_uncovered_share:
        return ()
    part = "this text" if uncovered == 1 else f"{100 * uncovered:.0f} % of this text"
    left = "it was" if uncovered == 1 else "that part was"
    message = (
        f"the models do not cover the language or kind of {part}, so {left} left unchanged; reference texts of the "
        "same language and kind make corrections possible"
    )
    return (Notice(UNKNOWN_LANGUAGE, message),)


def time_limit_notice(stage: str | None, unfilled: int, unit: str) -> Notices:
    """Return the notice that the time limit left units ``unfilled`` in a stage; none if ``stage`` is None."""
    if stage is None:
        return ()
    models = "character models" if unit == "correction" else "networks and memory"
    effects = {
        "decoding": f"{unfilled} {unit}{'' if unfilled == 1 else 's'} left unfilled"
        if unfilled
        else f"the remaining {unit}s were decoded in one step, with lower accuracy",
        "rescoring": f"the text is the result of the {models}",
        "alternatives": "there are no alternatives",
        "correcting": "lines that were not reached are unchanged",
    }
    effect = effects.get(stage, "damage that was not reached is unchanged")
    return (Notice(TIME_LIMIT, f"time limit reached while {STAGE_LABELS[stage]}: {effect}"),)
