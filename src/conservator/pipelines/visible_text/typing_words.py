"""Words of running text: not in code, addresses or identifiers."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from conservator.channels.typing_errors import WORD
from conservator.pipelines.correction.protection import is_code, is_name, token_span

CODE = re.compile(  # text that is not prose: fenced and inline code, tags, commands, entities
    r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)|`[^`\n]+`|<[^<>\n]+>|\\[A-Za-z]+|&\w+;", re.MULTILINE | re.DOTALL
)
# Characters before and after a word of prose.
BEFORE = frozenset(" \t\n\r\"'([\u2018\u2019\u201c\u201e\u00ab\u2013\u2014-/*_\u00bf\u00a1")
AFTER = frozenset(" \t\n\r\"').,;:!?]\u2018\u2019\u201c\u201d\u00bb\u2026\u2013\u2014-/*_")
SENTENCE_START = re.compile(r"(?:^|[.!?:\n])[\s\"'(\u201c\u201e\u00ab\u2018*_#>-]*$")
APOSTROPHE = re.compile("['\u2019]")
CONTEXT = 12  # characters: before a word, in which a sentence may end


@dataclass(frozen=True)
class Word:
    """A word of a text.

    Attributes:
        start: First character.
        text: The word.
        starts_sentence: Whether it may start a sentence.
        is_known: Whether the word lists, the references or the document have it.
        is_prose: Whether it is a word of running text that may be corrected.
    """

    start: int
    text: str
    starts_sentence: bool
    is_known: bool
    is_prose: bool

    @property
    def stop(self) -> int:
        """End of the word."""
        return self.start + len(self.text)

    @property
    def is_name(self) -> bool:
        """Whether the word is capitalised within a sentence."""
        return self.text[0].isupper() and not self.starts_sentence


def find_words(text: str, is_known: Callable[[str], bool], *, has_elision: bool) -> list[Word]:
    """Return the words of a text.

    Args:
        text: The text.
        is_known: Whether a word is known.
        has_elision: Whether an apostrophe joins two words; an unknown word with an apostrophe is then divided.
    """
    words, index = list[Word](), 0
    code = [match.span() for match in CODE.finditer(text)]
    for match in WORD.finditer(text):
        while index < len(code) and code[index][1] <= match.start():
            index += 1
        is_code_span = index < len(code) and code[index][0] < match.end()
        is_prose = not is_code_span and is_running_text(text, *match.span())
        parts = [(0, match[0])]
        if has_elision and not is_known(match[0]) and APOSTROPHE.search(match[0]):
            parts = [(part.start(), part[0]) for part in re.finditer(r"[^'\u2019]+", match[0])]
        before = text[max(0, match.start() - CONTEXT) : match.start()]
        for offset, part in parts:
            starts = not offset and (match.start() == 0 or SENTENCE_START.search(before) is not None)
            words.append(Word(match.start() + offset, part, starts, is_known(part), is_prose))
    return words


def is_running_text(text: str, start: int, stop: int) -> bool:
    """Return whether a range is a word of running text, and no part of an address, an identifier or a code."""
    if (start and text[start - 1] not in BEFORE) or (stop < len(text) and text[stop] not in AFTER):
        return False
    if text[stop : stop + 1] == "-" and not text[stop + 1 : stop + 2].isalpha():
        return False
    left, right = token_span(text, start, stop)
    token = text[left:right]
    return not is_name(token) and not is_code(token)
