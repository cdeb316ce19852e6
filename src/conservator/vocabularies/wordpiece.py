"""Tokens that are words and parts of words, from tokenizers that lose text: WordPiece, as BERT has it."""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conservator.errors import ConservatorError
from conservator.vocabularies.tokens import LONGEST, Tokens
from conservator.vocabularies.vocabulary import Encoded

INNER = "##"  # what stands before a token that continues a word
SPACE = b" "


@dataclass(frozen=True)
class Word:
    """What a token of a word says.

    Attributes:
        text: its letters; "" for a token that stands for no text.
        begins: whether it begins a word; else it continues one.
        joins: whether another token may continue its word; a sign such as a comma is a word by itself.
        cases: all ways to write its letters that are cut into it.
    """

    text: str = ""
    begins: bool = True
    joins: bool = False
    cases: tuple[str, ...] = ()


Cut = Callable[[str], tuple[list[int], list[tuple[int, int]]]]


class Words(Tokens):
    """The vocabulary of a tokenizer by words. White space between words is lost, and so may be case and accents.

    So a token has several spellings. One that begins a word stands for it with or without one space before it; one that
    continues a word for its letters alone. Where letters are made small, each is also spelt with a capital first letter
    and in capitals. Other white space, and accents that the tokenizer drops, are no spelling: they are only read. The
    piece of a token is its letters, without a space.
    """

    def __init__(self, words: Sequence[Word], cut: Cut) -> None:
        """Take what each token says, and the function that cuts a text into tokens with their characters."""
        super().__init__([word.text.encode() for word in words], lambda text: cut(text)[0])
        self.words = tuple(words)
        self._spans = cut
        self._known = {(word.text, word.begins) for word in words if word.text}

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the words."""
        spelt = json.dumps([[word.text, word.begins, word.cases] for word in self.words])
        return f"words {hashlib.sha256(spelt.encode()).hexdigest()}"

    @cached_property
    def spellings(self) -> list[tuple[bytes, int]]:
        """The bytes that each token may stand for, sorted, at most LONGEST of them."""
        rows = {
            (before + case.encode(), number)
            for number, word in enumerate(self.words)
            for case in word.cases
            for before in ((b"", SPACE) if word.begins else (b"",))
        }
        return sorted(row for row in rows if len(row[0]) <= LONGEST)

    def encode(self, data: bytes) -> Encoded:
        """Cut a text. Bytes between the spans are white space or control signs; a strange word is one unknown token."""
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise ConservatorError(f"only UTF-8 can be cut into tokens: {error}") from error
        tokens, spans = self._spans(text)
        places = np.array([0, *accumulate(len(sign.encode()) for sign in text)], dtype=np.int64)
        found = np.array(spans, dtype=np.int64).reshape(-1, 2)
        return Encoded(np.array(tokens, dtype=np.int64), places[found])

    def decode(self, tokens: NDArray[Any]) -> bytes:
        """The words of tokens (L,), with one space between."""
        words = [self.words[token] for token in tokens.tolist()]
        spelt = [(" " if place and word.begins else "") + word.text for place, word in enumerate(words)]
        return "".join(spelt).encode()

    def follows(self, first: int, second: int) -> bool:
        """Whether the second token may stand after the first: a word is cut from the left, by the longest token."""
        one, other = self.words[first], self.words[second]
        if other.begins or not one.text:
            return True
        longer = ((one.text + other.text[:more], one.begins) for more in range(1, len(other.text) + 1))
        return one.joins and not any(word in self._known for word in longer)


def make_words(described: dict[str, Any], size: int) -> Tokens:
    """The tokens of a WordPiece tokenizer; where each is one character, every character of a text is one.

    Args:
        described: what ``tokenizer.json`` holds.
        size: V, the number of tokens that the network has; those that the tokenizer lacks stand for no text.
    """
    from tokenizers import Tokenizer

    model = described["model"]
    if model.get("continuing_subword_prefix") != INNER:
        raise ConservatorError(f"parts of words begin with {model.get('continuing_subword_prefix')!r}; accepted: '##'")
    for part, accepted in (("normalizer", "BertNormalizer"), ("pre_tokenizer", "BertPreTokenizer")):
        kind = (described.get(part) or {}).get("type")
        if kind != accepted:
            raise ConservatorError(f"the {part} of its words is {kind}; accepted: {accepted}")
    plain = {**described, "truncation": None, "padding": None, "post_processor": None, "added_tokens": []}
    tokenizer = Tokenizer.from_str(json.dumps(plain))
    added = {token["id"] for token in described.get("added_tokens", [])}
    texts = {number: text for text, number in model["vocab"].items() if number not in added}
    if texts and max(texts) >= size:
        raise ConservatorError(f"it has a token {max(texts)}, the network only {size}")
    if all(len(text) == 1 for text in texts.values()):
        return make_characters(texts, size)
    words = [Word()] * size
    for number, text in texts.items():
        words[number] = describe_word(tokenizer, text)

    def cut(text: str) -> tuple[list[int], list[tuple[int, int]]]:
        found = tokenizer.encode(text, add_special_tokens=False)
        return found.ids, found.offsets

    return Words(words, cut)


def describe_word(tokenizer: Any, text: str) -> Word:
    """What a token says, by how the tokenizer cuts it; what no text is cut into, ``[unused1]`` say, stands for none."""

    def cut(text: str) -> list[str]:
        return [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(text))]

    begins, letters = not text.startswith(INNER), text.removeprefix(INNER)
    before, after = ("", "a") if begins else ("a", "")
    joins = cut(before + letters + after) == [before + letters + after]
    if not letters or not (joins or (begins and cut(letters) == [letters])):
        return Word()
    cases = dict.fromkeys(
        [letters, letters[0].upper() + letters[1:], letters.upper()] if begins else [letters, letters.upper()]
    )
    return Word(letters, begins, joins, tuple(case for case in cases if cut(before + case) == [before + letters]))


def make_characters(texts: dict[int, str], size: int) -> Tokens:
    """The vocabulary of tokens that are one character each, as of amino acids: no text is lost, if all have a token."""
    numbers = {text: number for number, text in texts.items()}

    def cut(text: str) -> list[int]:
        check_characters(text, numbers)
        return [numbers[sign] for sign in text]

    return Tokens([texts.get(number, "").encode() for number in range(size)], cut)


def check_characters(text: str, known: Iterable[str]) -> None:
    """Raise unless every character has a token."""
    missing = sorted(set(text) - set(known))
    if missing:
        raise ConservatorError(
            f"the text has characters without a token: {', '.join(map(repr, missing[:9]))}; known: "
            f"{''.join(sorted(known))}"
        )
