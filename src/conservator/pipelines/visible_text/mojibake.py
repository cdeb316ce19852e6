"""Restore mojibake: text that was decoded with a wrong encoding.

The wrong decodings of each line are undone (``mojibake_layers``), and where bytes were lost, the frequencies of words
and characters choose among the possible characters (``mojibake_lost``). Invalid bytes are read as Windows-1252.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from math import exp, log

from conservator.channel_names import MOJIBAKE
from conservator.documents.damaged import MARK, STRAY_ENCODING
from conservator.documents.encoding import INVALID_UTF8
from conservator.errors import Advice, ConservatorError
from conservator.pipelines.corrected_text import byte_offsets
from conservator.pipelines.task import PipelineTask
from conservator.pipelines.visible_text.correction import Proposal, TextChannel, correct_visible_text
from conservator.pipelines.visible_text.mojibake_layers import (
    Placeholders,
    Tracked,
    changed_ranges,
    decode_line,
    select_encoding,
    undo,
)
from conservator.pipelines.visible_text.mojibake_lost import LostCharacters
from conservator.results import Restoration

# nats: log-odds of undoing a wrong decoding; candidates that far apart are not rescored [untuned]
EXACT_NATS = 14.0
MIN_PROBABILITY = 0.5  # probability: a character with a lower one is uncertain [untuned]
LINE = re.compile("[^\n]*\n?")
TRUNCATED = re.compile("[\udce0-\udcf4][\udc80-\udcbf]+")  # the first bytes of a character of UTF-8


def restore_mojibake(task: PipelineTask) -> Restoration:
    """Restore text that was decoded with a wrong encoding."""

    def propose(text: str) -> Iterator[Proposal]:
        return propose_decoded(text, task)

    return correct_visible_text(
        task, TextChannel(MOJIBAKE, propose, ("ftfy", "words"), errors="surrogateescape", changes_marks=True)
    )


def propose_decoded(text: str, task: PipelineTask) -> Iterator[Proposal]:
    """Yield the decoded text of each span that is mojibake.

    Args:
        text: The document; invalid bytes are surrogates, as with the error handler ``surrogateescape``.
        task: The task, for its references.
    """
    placeholders = Placeholders(frozenset(text))
    line = undo_lines(text, placeholders, reads_stray_bytes=task.options.lost != "invalid")
    if line.text == text:
        return
    offsets = byte_offsets(text, "surrogateescape")
    lost = LostCharacters(line.text, placeholders.sets, task.references.word_counts)
    ranges = list(changed_ranges(text, line))
    spans = [span for start, stop in ranges for span in lost.spans(start, stop)] if placeholders.sets else []
    is_rescored = task.options.effort == "best" or not task.models.select
    chosen = dict[tuple[int, int], Mapping[str, float]]()
    for (start, stop), candidates in zip(spans, lost.choose(spans) if spans else [], strict=True):
        has_mark = MARK in text[line.origin[start] : line.origin[stop]]
        chosen[start, stop] = candidates if is_rescored else settle(candidates, has_mark=has_mark)
    for start, stop, decoded in split_ranges(line.text, ranges, chosen):
        begin, end = line.origin[start], line.origin[stop]
        observed = text[begin:end].encode(errors="surrogateescape")
        scores = {word.encode(): EXACT_NATS + score for word, score in decoded.items()}
        yield Proposal(offsets[begin], offsets[end], {observed: 0.0, **scores})


def settle(candidates: Mapping[str, float], *, has_mark: bool) -> dict[str, float]:
    """Return the candidates of a span; the best one has marks for its uncertain characters.

    Args:
        candidates: Candidate -> its log-probability; they have the same length.
        has_mark: Whether the span has marks. Otherwise a span with an uncertain character has no candidates.
    """
    if not candidates:
        return {}
    best = max(candidates, key=lambda text: candidates[text])
    probs = {text: exp(score) for text, score in candidates.items()}
    certain = [
        sum(prob for text, prob in probs.items() if text[index] == character) >= MIN_PROBABILITY
        for index, character in enumerate(best)
    ]
    if all(certain):
        return dict(candidates)
    if not has_mark:
        return {}
    marked = "".join(character if is_certain else MARK for character, is_certain in zip(best, certain, strict=True))
    agrees = {
        text: all(text[index] == best[index] for index, is_certain in enumerate(certain) if is_certain)
        for text in candidates
    }
    total = sum(prob for text, prob in probs.items() if agrees[text])
    return {marked: log(total), **{text: score for text, score in candidates.items() if not agrees[text]}}


def split_ranges(
    text: str, ranges: Iterable[tuple[int, int]], chosen: Mapping[tuple[int, int], Mapping[str, float]]
) -> Iterator[tuple[int, int, Mapping[str, float]]]:
    """Yield the spans of decoded text with their candidates; those without candidates are left out.

    Args:
        text: The decoded text.
        ranges: Ranges that are decoded, in order.
        chosen: Span with lost bytes -> its candidates with their log-probabilities, in order.
    """
    spans = iter([*chosen, (len(text) + 1, len(text) + 1)])
    span = next(spans)
    for start, stop in ranges:
        done = start
        while span[1] <= stop:
            if done < span[0]:
                yield done, span[0], {text[done : span[0]]: 0.0}
            if chosen[span]:
                yield *span, chosen[span]
            done, span = span[1], next(spans)
        if done < stop:
            yield done, stop, {text[done:stop]: 0.0}


def undo_lines(text: str, placeholders: Placeholders, *, reads_stray_bytes: bool = True) -> Tracked:
    """Undo the wrong decodings of each line of a text, and read its invalid bytes."""
    whole = Tracked(text, list(range(len(text) + 1)))
    spans = [match.span() for match in LINE.finditer(text) if not match[0].isascii()]
    lines = [whole.part(*span) for span in spans]
    read = [read_stray_bytes(line) if reads_stray_bytes else line for line in lines]
    undone = [undo(line, placeholders) for line in read]
    left = [index for index, line in enumerate(undone) if line is read[index]]
    encoding = select_encoding([read[index] for index in left], placeholders) if left else None
    if encoding is not None:
        for index in left:
            undone[index] = undo(decode_line(read[index], encoding, placeholders), placeholders)
    parts = [(*span, line) for span, line, observed in zip(spans, undone, lines, strict=True) if line is not observed]
    return whole.replaced(parts) if parts else whole


def read_stray_bytes(line: Tracked) -> Tracked:
    """Read invalid bytes as Windows-1252. Bytes beside a mark are not read, because they are parts of characters."""
    parts = []
    for match in INVALID_UTF8.finditer(line.text):
        start, stop = match.span()
        if MARK in (line.text[start - 1 : start], line.text[stop : stop + 1]):
            continue
        data = match[0].encode(errors="surrogateescape")
        try:
            text = data.decode(STRAY_ENCODING)
        except UnicodeDecodeError as error:
            raise unreadable(data[error.start], "is not a character of windows-1252, either") from error
        if TRUNCATED.search(match[0]):
            raise unreadable(data[0], "is the first byte of an incomplete character")
        parts.append((start, stop, Tracked(text, line.origin[start : stop + 1])))
    return line.replaced(parts) if parts else line


def unreadable(byte: int, reason: str) -> ConservatorError:
    """Return the error for an invalid byte that is not read as Windows-1252."""
    return ConservatorError(
        f"the document is not UTF-8: its invalid byte {byte:#04x} {reason}",
        Advice("lost", "invalid", "counts the invalid bytes as lost"),
    )
