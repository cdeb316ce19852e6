"""Alignment of changed text with the parts of the old text: glyphs and runs of a word, words of a line."""

import re
from collections.abc import Sequence
from itertools import accumulate, groupby

from rapidfuzz.distance import Levenshtein

from conservator.documents import splice

WORD = re.compile(r"\S+")
# character pairs: largest product of the lengths of two texts that are aligned [safety limit]
MAX_ALIGNED_PAIRS = 1_000_000


def distribute_text(parts: Sequence[str], text: str) -> list[str]:
    """Split ``text`` into ``len(parts)`` strings that concatenate to ``text``, aligned with ``parts``.

    Unchanged characters stay in their part, replaced characters go to the part of the old character, and inserted
    characters go to the part before them. If the texts are too long to align, the first part gets the whole text.
    """
    old = "".join(parts)
    if len(old) * len(text) > MAX_ALIGNED_PAIRS or not old:
        return [text, *[""] * (len(parts) - 1)]
    part_of_char = [index for index, part in enumerate(parts) for _ in part]
    new_parts = [""] * len(parts)
    for _, group in groupby(Levenshtein.opcodes(old, text), lambda opcode: opcode.tag == "equal"):
        opcodes = list(group)  # adjacent edits are one replacement: both characters of m -> rn stay in the part of m
        old_start, old_stop = opcodes[0].src_start, opcodes[-1].src_end
        for index, character in enumerate(text[opcodes[0].dest_start : opcodes[-1].dest_end]):
            old_position = max(0, min(old_start + index, old_stop - 1))
            new_parts[part_of_char[old_position]] += character
    return new_parts


def replace_words(text: str, words: Sequence[str], changes: Sequence[tuple[int, int, str]]) -> str | None:
    """Apply changes of words to a text that repeats the words; None if the text has other words.

    Args:
        text: the words, with any whitespace between them.
        words: the words before the changes.
        changes: ``(start, stop, new)`` with word indices, in order.
    """
    tokens = list(WORD.finditer(text))
    if [token[0] for token in tokens] != [part for word in words for part in word.split()]:
        return None
    first_tokens = list(accumulate((len(word.split()) for word in words), initial=0))
    spans = [(tokens[first_tokens[start]].start(), tokens[first_tokens[stop] - 1].end()) for start, stop, _ in changes]
    return splice(text, [(*span, new) for span, (_, _, new) in zip(spans, changes, strict=True)])
