"""Restore mojibake: text that was decoded with a wrong encoding.

The wrong decodings of each line are undone (``mojibake_layers``), and where bytes were lost, the frequencies of words
and characters choose among the possible characters (``mojibake_lost``). Invalid bytes are read as Windows-1252.
"""

import re
from collections.abc import Iterator
from math import exp, log

from conservator.channels import MOJIBAKE
from conservator.documents.encoding import INVALID_UTF8
from conservator.errors import Advice, ConservatorError
from conservator.pipelines.corrected_text import byte_offsets
from conservator.pipelines.task import PipelineTask
from conservator.pipelines.visible_text.correction import Proposal, TextChannel, correct_visible_text
from conservator.pipelines.visible_text.mojibake_layers import Placeholders, Tracked, changed_ranges, undo
from conservator.pipelines.visible_text.mojibake_lost import WORD, LostCharacters
from conservator.results import Restoration

# nats: log-odds of undoing a wrong decoding; candidates that far apart are not rescored [untuned]
EXACT_NATS = 14.0
MIN_PROBABILITY = 0.4  # probability: with a lower one, a sequence with lost bytes is left as it is [untuned]
LINE = re.compile("[^\n]*\n?")
TRUNCATED = re.compile("[\udce0-\udcf4][\udc80-\udcbf]+")  # the first bytes of a character of UTF-8


def restore_mojibake(task: PipelineTask) -> Restoration:
    """Restore text that was decoded with a wrong encoding."""

    def propose(text: str) -> Iterator[Proposal]:
        return propose_decoded(text, task)

    return correct_visible_text(
        task, TextChannel(MOJIBAKE, propose, ("ftfy", "words"), errors="surrogateescape", consumes_marks=True)
    )


def propose_decoded(text: str, task: PipelineTask) -> Iterator[Proposal]:
    """Yield the decoded text of each span that is mojibake.

    Args:
        text: The document; invalid bytes are surrogates, as with the error handler ``surrogateescape``.
        task: The task, for its references.
    """
    placeholders = Placeholders()
    line = undo_lines(text, placeholders)
    if line.text == text:
        return
    offsets = byte_offsets(text, "surrogateescape")
    lost = LostCharacters(line.text, placeholders.sets, task.references.word_counts)
    for start, stop in changed_ranges(text, line):
        yield from propose_range(text, line, (start, stop), lost, offsets)


def undo_lines(text: str, placeholders: Placeholders) -> Tracked:
    """Undo the wrong decodings of each line of a text."""
    whole = Tracked(text, list(range(len(text) + 1)))
    parts = []
    for match in LINE.finditer(text):
        if match[0].isascii():
            continue
        line = whole.part(*match.span())
        read = read_stray_bytes(line)
        undone = undo(read, placeholders)
        if undone is not line:
            parts.append((*match.span(), undone))
    return whole.replaced(parts) if parts else whole


def read_stray_bytes(line: Tracked) -> Tracked:
    """Read invalid bytes as Windows-1252."""
    parts = []
    for match in INVALID_UTF8.finditer(line.text):
        data = match[0].encode(errors="surrogateescape")
        try:
            text = data.decode("windows-1252")
        except UnicodeDecodeError as error:
            raise unreadable(data[error.start]) from error
        if TRUNCATED.search(match[0]):
            raise unreadable(data[0])
        start, stop = match.span()
        parts.append((start, stop, Tracked(text, line.origin[start : stop + 1])))
    return line.replaced(parts) if parts else line


def unreadable(byte: int) -> ConservatorError:
    """Return the error for an invalid byte that is not a character of Windows-1252."""
    return ConservatorError(
        f"the document is not UTF-8: its invalid byte {byte:#04x} is not a character of Windows-1252, either",
        Advice("lost", "invalid", "counts the invalid bytes as lost"),
    )


def propose_range(
    text: str, line: Tracked, span: tuple[int, int], lost: LostCharacters, offsets: list[int]
) -> Iterator[Proposal]:
    """Yield the proposals for a range of characters that are decoded; words with lost bytes have their own."""
    start, stop = span

    def proposal(first: int, last: int, decoded: dict[str, float]) -> Proposal:
        begin, end = line.origin[first], line.origin[last]
        observed = text[begin:end].encode(errors="surrogateescape")
        return Proposal(
            offsets[begin],
            offsets[end],
            {observed: 0.0} | {candidate.encode(): score for candidate, score in decoded.items()},
        )

    done = start
    for match in WORD.finditer(line.text, start, stop):
        if not any(character in lost.sets for character in match[0]):
            continue
        if done < match.start():
            yield proposal(done, match.start(), {line.text[done : match.start()]: EXACT_NATS})
        done = match.end()
        scores = lost.score(*match.span())
        if scores:
            best = max(scores.values())
            total = best + log(sum(exp(score - best) for score in scores.values()))
            if best - total >= log(MIN_PROBABILITY):
                yield proposal(*match.span(), {word: EXACT_NATS + score - total for word, score in scores.items()})
    if done < stop:
        yield proposal(done, stop, {line.text[done:stop]: EXACT_NATS})
