"""The word expert over characters: it reads a document whose lost bytes are characters of known width.

The characters of the document get codes (``Alphabet``), so that a lost character is one symbol of a word, whatever its
width in bytes. The distribution of a lost byte follows from that of its character:

    p(byte v at offset o) = sum over characters of the width, with the known bytes and with v at o, of p(character)
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.arrays import Floats, Ints
from conservator.channels.character_mask import FURTHER
from conservator.experts.expert import At, Context, ExpertSpec, check_context, copy_visible
from conservator.experts.word_ngram.alphabet import Alphabet, list_characters
from conservator.experts.word_ngram.counts import (
    HIDDEN_BYTE,
    Dictionary,
    WordCounts,
    tokenize,
)
from conservator.experts.word_ngram.expert import CONFIG, ContextScorer, DamagedWord, WordExpert
from conservator.experts.word_ngram.lists import identify_languages, is_word
from conservator.vocabularies import BYTES

HIDDEN_CHARACTER = "\ufdd0"  # stands for a hidden character in a text; Unicode assigns it to no character
# characters: that a word list adds to the alphabet; the others are rare letters of other languages [untuned]
MAX_LISTED = 60


@dataclass(frozen=True)
class CodedWords:
    """A word expert whose symbols are codes of an alphabet.

    Attributes:
        alphabet: the alphabet.
        expert: the word expert of the document in codes.
        codes: the document in codes, HIDDEN_BYTE at hidden characters.
    """

    alphabet: Alphabet
    expert: WordExpert
    codes: bytes

    @classmethod
    def of(cls, text: str, counts: WordCounts, spec: ExpertSpec, *, lists: bool = True) -> "CodedWords":
        """Make the word expert of a text with HIDDEN_CHARACTER at hidden characters."""
        data = text.encode()
        languages = identify_languages(data.replace(HIDDEN_CHARACTER.encode(), bytes([HIDDEN_BYTE]))) if lists else {}
        listed = "".join(list_characters(name)[:MAX_LISTED] for name in languages)
        visible = Counter(text.replace(HIDDEN_CHARACTER, ""))
        visible.update("".join(word.decode(errors="replace") for word in counts.ids if not word.isascii()))
        alphabet = Alphabet.of([*listed, *(character for character, _ in visible.most_common())])
        codes = bytes([HIDDEN_BYTE]).join(map(alphabet.encode, text.split(HIDDEN_CHARACTER)))
        coded_counts = alphabet.encode_counts(counts)
        new_ids: dict[bytes, int] = {}
        tokens = tokenize(codes, coded_counts.ids, new_ids)
        coded_lists = tuple((alphabet.encode_list(name), probability) for name, probability in languages.items())
        expert = WordExpert(
            coded_counts,
            np.frombuffer(codes, dtype=np.uint8),
            tokens,
            tokens.tables(),
            new_ids,
            Dictionary(new_ids),
            coded_lists,
            spec,
        )
        return cls(alphabet, expert, codes)

    def known_shares(self, positions: Ints, radius: int) -> Floats:
        """Compute the share (n,) of the letters near ``positions`` (n,) that words of the lists or references have."""
        codes = np.frombuffer(self.codes, dtype=np.uint8)
        known = np.zeros(BYTES.size, dtype=bool)
        for words in (*(word_list.probs for word_list, _ in self.expert.lists), self.expert.reference_counts.ids):
            known[np.unique(np.frombuffer(b"".join(words), dtype=np.uint8))] = True
        is_letter = np.array([is_word(bytes([code])) for code in range(BYTES.size)])
        is_letter[HIDDEN_BYTE] = False
        letters, known_letters = (
            np.concatenate([[0], np.cumsum(flags[codes])]) for flags in (is_letter, is_letter & known)
        )
        starts, stops = np.maximum(positions - radius, 0), np.minimum(positions + radius + 1, len(codes))
        shares: Floats = (known_letters[stops] - known_letters[starts]) / np.maximum(
            1, letters[stops] - letters[starts]
        )
        return shares

    def distributions(self, codes: NDArray[np.uint8], start: int, positions: Ints) -> Floats:
        """Compute the distributions (n, 256) of hidden characters.

        Args:
            codes: (l,) a window of the document, HIDDEN_BYTE at hidden characters.
            start: first character of the window.
            positions: (n,) hidden characters of the window.
        """
        scorer = ContextScorer(self.expert, codes, self.expert.hidden_tables(codes == HIDDEN_BYTE, start), start)
        probs = np.empty((len(positions), BYTES.size))
        words = np.searchsorted(scorer.begins, positions, side="right") - 1
        for word in np.unique(words).tolist():
            selected = np.flatnonzero(words == word)
            probs[selected] = DamagedWord(scorer, word).distributions(positions[selected])
        return probs


@dataclass(frozen=True)
class CharacterWordExpert:
    """The word expert of a document (L bytes, n characters) whose lost bytes are characters of known width.

    Attributes:
        words: the word expert of its characters.
        character_of: (L,) index of the character of each byte.
        starts: (n,) first byte of each character.
        spec: specification of the expert.
    """

    words: CodedWords
    character_of: Ints
    starts: Ints
    spec: ExpertSpec

    @classmethod
    def of(
        cls, data: NDArray[np.uint8], kinds: Ints, counts: WordCounts, spec: ExpertSpec, *, lists: bool
    ) -> "CharacterWordExpert":
        """Make the expert of a document.

        Args:
            data: (L,) bytes, HIDDEN_BYTE at hidden bytes.
            kinds: (L,) kinds of the hidden bytes, as in ``CharacterMaskChannel``.
            counts: word counts of the references.
            spec: specification of the expert.
            lists: whether to use the word lists of the languages of the document.
        """
        is_first = np.where(data == HIDDEN_BYTE, kinds != FURTHER, (data & 0xC0) != 0x80)
        text = data[is_first | (data != HIDDEN_BYTE)].tobytes().replace(bytes([HIDDEN_BYTE]), HIDDEN_CHARACTER.encode())
        words = CodedWords.of(text.decode(), counts, spec, lists=lists)
        return cls(words, np.cumsum(is_first) - 1, np.flatnonzero(is_first), spec)

    @cached_property
    def starts_and_end(self) -> Ints:
        """(n + 1,) first byte of each character, and the end of the document."""
        return np.append(self.starts, len(self.character_of))

    def predict(self, context: Context, at: At) -> Tensor:
        """Compute log p(v) at the positions ``at``: (n, V)."""
        check_context(self.spec, context)
        hidden = (context.hidden | ~context.real).numpy()
        window_starts = np.zeros(len(hidden), dtype=np.int64) if context.start is None else context.start.numpy()
        probs = np.empty((len(at[0]), BYTES.size))
        row_of, positions = at[0].numpy(), at[1].numpy()
        for row in np.unique(row_of).tolist():
            selected = np.flatnonzero(row_of == row)
            data, start = context.tokens[row].numpy(), int(window_starts[row])
            probs[selected] = self.predict_window(data, hidden[row], start, positions[selected])
        probs = (1 - CONFIG.uniform_mix) * probs + CONFIG.uniform_mix / BYTES.size
        return copy_visible(torch.from_numpy(np.log(probs)).float(), context, at)

    def predict_window(self, data: Ints, hidden: NDArray[np.bool_], start: int, positions: Ints) -> Floats:
        """Compute the distributions (n, V) of bytes of a window (l,) of the document that begins at byte ``start``."""
        stop = min(start + len(data), len(self.character_of))
        data, hidden = data[: stop - start], hidden[: stop - start]
        first = int(self.character_of[start])
        character = self.character_of[start:stop] - first
        codes = np.frombuffer(self.words.codes, dtype=np.uint8)[first : first + int(character[-1]) + 1].copy()
        is_hidden = np.bincount(character, hidden) > 0
        for index in np.flatnonzero((codes == HIDDEN_BYTE) & ~is_hidden).tolist():  # filled in since
            text = bytes(data[character == index].tolist()).decode(errors="replace")
            codes[index] = self.words.alphabet.encode(text)[0]
        codes[is_hidden] = HIDDEN_BYTE
        requested = np.unique(character[positions])
        distributions = self.words.distributions(codes, first, requested)
        probs = np.empty((len(positions), BYTES.size))
        for row, position in enumerate(positions.tolist()):
            begin, end = self.starts_and_end[first + character[position] :][:2] - start
            inside = range(max(0, begin), min(end, len(data)))
            known = {byte - begin: int(data[byte]) for byte in inside if not hidden[byte]}
            distribution = distributions[np.searchsorted(requested, character[position])]
            probs[row] = self.byte_distribution(distribution, end - begin, position - begin, known)
        return probs

    def byte_distribution(self, distribution: Floats, width: int, offset: int, known: Mapping[int, int]) -> Floats:
        """Compute the distribution (V,) of a byte of a character with the distribution (256,) of its code."""
        characters = self.words.alphabet.characters
        probs = np.zeros(BYTES.size)
        for code in np.flatnonzero((self.words.alphabet.widths == width) & (distribution > 0)).tolist():
            character = characters[code]
            if all(character[other] == byte for other, byte in known.items()):
                probs[character[offset]] += distribution[code]
        total = probs.sum()
        return probs / total if total > 0 else np.full(BYTES.size, 1 / BYTES.size)
