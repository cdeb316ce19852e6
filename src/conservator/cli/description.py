"""Descriptions of a result for the terminal."""

import re
from typing import TYPE_CHECKING

from conservator.channel_names import AUTO, READINGS
from conservator.options import DEFAULTS, RestoreOptions, are_marks_characters

if TYPE_CHECKING:
    from conservator.document import Document
    from conservator.results import Edit, Gap, Restoration

LISTED_REFERENCES = 3  # references: listed in the summary [untuned]
LISTED_GAPS = 10  # unfilled gaps: listed in the summary [untuned]
LISTED_CHANGES = 10  # corrections: listed in the summary [untuned]
CONTEXT_CHARACTERS = 24  # characters: shown on each side of a correction, at most [untuned]
MIN_LISTED_PROBABILITY = 0.01  # probability: smaller ones are displayed as "under 1 %" [definition]
NEWLINE = b"\n"
QUESTION_MARKS = re.compile(r"(?<![^\s(\"'])[^\W\d_]+\?+[^\W\d_]+(?![^\s.,;:!?)\"'])")  # words, but not addresses
MAX_LISTED_PROBABILITY = 0.995  # probability: larger ones are displayed as "over 99 %" [definition]


def describe_undamaged(restoration: "Restoration", name: str, options: RestoreOptions) -> str:
    """Describe a document without anything to restore or correct."""
    action = "correct" if restoration.is_correction else "restore"
    if restoration.channels[:1] == (READINGS,):
        return f"nothing to {action}: no additional reading of {name} has a more probable text"
    read_as = f" (read as {restoration.encoding})" if restoration.encoding != "utf-8" else ""
    if options.channel == AUTO:
        return f"nothing to {action}: no damage was detected in {name}{read_as}"
    if options.channel != DEFAULTS.channel:
        unit = "byte" if str(options.channel).startswith("replacement") else "character"
        return f"nothing to {action}: no {unit} of {name}{read_as} has a more probable alternative"
    missing = ["mark U+FFFD" if options.mark == DEFAULTS.mark else f"mark {options.mark!r}"]
    missing += [f"gap {marker!r}" for marker in options.gap_markers]
    if options.lost == "invalid":
        missing.append("invalid UTF-8 byte")
    return (
        f"nothing to {action}: {name}{read_as} contains no {' and no '.join(missing)}; use --mark if another text "
        "stands for lost characters, or --channel ocr for OCR errors"
    )


def describe_detection(document: "Document", channels: tuple[str, ...]) -> list[str]:
    """Describe damage that the default options do not restore: errors in visible text, and question marks in words."""
    lines = []
    names = ",".join(channels)
    if names != DEFAULTS.channel:
        lines.append(f"the text has errors of the kind {names}: --channel {names} corrects them")
    inside = len(QUESTION_MARKS.findall(document.data.decode(errors="replace")))
    if inside:
        words = counted(inside, "word")
        lines.append(f"{words} with a question mark inside: --mark '?' restores lost characters there")
    return lines


def summary(restoration: "Restoration") -> list[str]:
    """Describe a restoration: lost, restored and unfilled positions, expected accuracy, sources and cost."""
    counts = restoration.summary
    if restoration.is_correction:
        return describe_corrections(restoration)
    lines = [describe_loss(restoration)]
    if counts.expected_accuracy is not None:
        lines.append(
            f"{counts.restored} restored, {counts.confident} of them with a confidence of at least 90 %; expected "
            f"accuracy {100 * counts.expected_accuracy:.1f} %"
        )
    if counts.unfilled and restoration.out_of_time != "decoding":
        lines.append(f"{counts.unfilled} left unfilled{'' if restoration.not_covered else ': confidence too low'}")
    lines += describe_unfilled_gaps(restoration)
    if counts.provenance:
        lines.append(f"{counts.provenance} copied by the memory: {', '.join(describe_sources(restoration.sources))}")
    return [
        *lines,
        *describe_notices(restoration),
        f"expert weights at lost positions: {format_weights(restoration)}",
        f"{counted(restoration.cost.evaluations, 'network evaluation')}, {restoration.cost.seconds:.1f} s",
    ]


def describe_notices(restoration: "Restoration") -> list[str]:
    """Return the notices of a result as warnings; the detected damage is no warning."""
    from conservator.results.notices import DETECTED

    return [
        notice.message if notice.kind == DETECTED else f"warning: {notice.message}" for notice in restoration.notices
    ]


def format_weights(restoration: "Restoration") -> str:
    """Format the mean weight of each expert."""
    weights = zip(restoration.experts, restoration.summary.weights, strict=True)
    return ", ".join(f"{name} {100 * weight:.0f} %" for name, weight in weights)


def describe_corrections(restoration: "Restoration") -> list[str]:
    """Describe a correction: its size, the changes with the lowest confidence, the model weights and the cost."""
    counts, edits, sizes = restoration.summary, restoration.corrections, restoration.record.correction
    characters, changed, rate = (sizes.characters, sizes.changed, sizes.rate) if sizes else (0, 0, None)
    percentage = 100 * changed / max(1, characters)
    least_confident = sorted(edits, key=lambda edit: edit.probability)[:LISTED_CHANGES]
    remaining = len(edits) - LISTED_CHANGES
    return [
        f"{changed} of {counted(characters, 'character')} changed ({percentage:.1f} %), in "
        f"{counted(len(edits), 'correction')}",
        f"{counts.confident} of them with a confidence of at least 90 %; expected accuracy "
        f"{100 * (counts.expected_accuracy or 0):.1f} %",
        *(
            describe_correction(restoration.observed, edit)
            for edit in sorted(least_confident, key=lambda edit: edit.span)
        ),
        *([f"and {counted(remaining, 'more correction')} with higher confidence"] if remaining > 0 else []),
        *describe_unfilled_gaps(restoration),
        *describe_notices(restoration),
        f"model weights: {format_weights(restoration)}",
        *([] if rate is None else [f"estimated error rate: {rate:.2g} times the rate of the channel"]),
        f"{restoration.cost.seconds:.1f} s",
    ]


def describe_correction(observed: bytes, edit: "Edit") -> str:
    """Describe a correction within the words that it is part of."""
    start, stop = edit.span
    line_start, line_end = observed.rfind(b"\n", 0, start) + 1, observed.find(b"\n", stop)
    before = observed[line_start:start].decode(errors="replace").rpartition(" ")[2][-CONTEXT_CHARACTERS:]
    after = (
        observed[stop : line_end if line_end >= 0 else None]
        .decode(errors="replace")
        .partition(" ")[0][:CONTEXT_CHARACTERS]
    )
    old, new = (
        text.replace(" ", "\u2423") for text in (observed[start:stop].decode(errors="replace"), edit.text)
    )  # shows spaces
    percentage = "over 99" if edit.probability > MAX_LISTED_PROBABILITY else f"{100 * edit.probability:.0f}"
    log_odds = "" if edit.log_odds is None else f", log-odds {edit.log_odds:.1f}"
    return (
        f"  line {observed.count(NEWLINE, 0, start) + 1}: {before}{old}{after} -> {before}{new}{after}  (confidence "
        f"{percentage} %{log_odds})"
    )


def describe_loss(restoration: "Restoration") -> str:
    """Describe the damage: lost bytes, or marks that stand for characters."""
    counts = restoration.summary
    if restoration.notation != "plain":
        return f"{counted(counts.lost, 'character')} lost, in {counted(counts.spans, 'lacuna', 'lacunae')}"
    if restoration.unit == "character":
        encoding = "" if restoration.lost_by is None else f" ({restoration.lost_by} text, read as UTF-8)"
        kind = " outside ASCII" if are_marks_characters(restoration.lost_unit) else ""
        return f"{counted(counts.lost, 'mark')}, each for one lost character{kind}{encoding} (--lost changes this)"
    return f"{counts.lost} of {counted(counts.bytes, 'byte')} lost, in {counted(counts.spans, 'span')}"


def describe_unfilled_gaps(restoration: "Restoration") -> list[str]:
    """List the gaps that were left unfilled, each with its best candidates and their probabilities."""
    gaps = [gap for gap in restoration.gaps if restoration.unfilled[gap.at[0]]]
    lines = [describe_gap(restoration, gap) for gap in gaps[:LISTED_GAPS]]
    if len(gaps) > LISTED_GAPS:
        lines.append(f"and {counted(len(gaps) - LISTED_GAPS, 'other gap')} left unfilled")
    return lines


def describe_gap(restoration: "Restoration", gap: "Gap") -> str:
    """Describe a gap that was left unfilled."""
    candidates = ", ".join(
        f'"{text}" {f"{100 * probability:.0f}" if probability >= MIN_LISTED_PROBABILITY else "under 1"} %'
        for text, probability in restoration.proposals(gap)
    )
    return f"gap at byte {gap.span[0]} left unfilled; candidates: {candidates}"


def describe_sources(sources: dict[str | None, int]) -> list[str]:
    """Count the bytes that the memory copied from the document and from the most used references."""
    references = [(name, count) for name, count in sources.items() if name is not None]
    parts = [f"{sources[None]} from the document"] if None in sources else []
    parts += [f"{count} from {name}" for name, count in references[:LISTED_REFERENCES]]
    if len(references) > LISTED_REFERENCES:
        rest = sum(count for _, count in references[LISTED_REFERENCES:])
        parts.append(f"{rest} from {counted(len(references) - LISTED_REFERENCES, 'other reference')}")
    return parts


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Format a number with a noun."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
