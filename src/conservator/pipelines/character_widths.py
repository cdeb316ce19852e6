"""Marks that stand for one character of any kind: infer how many bytes each of them has.

The posterior of the width w of a lost character multiplies two estimates:

    p(w) proportional to  sum over characters v of w bytes of p_words(v)  *  p(w | widths of the neighbours) / p(w)

p_words is the word expert over characters (``CodedWords``); the second factor is counted in the visible text, and
matters where no word list knows the language. The most probable width of each character is then given to the experts,
which read bytes, and restricts them (``CharacterMaskChannel``).
"""

from dataclasses import dataclass

import numpy as np

from conservator.arrays import Floats, Ints
from conservator.channels.character_mask import ANY, MAX_WIDTH, kinds_of_characters
from conservator.documents import DamagedDocument
from conservator.experts.word_ngram.characters import HIDDEN_CHARACTER, CodedWords
from conservator.experts.word_ngram.expert import SPEC
from conservator.pipelines.references import ReferenceTexts


@dataclass(frozen=True)
class WidthConfig:
    """Constants of the inference of widths."""

    window_characters: int = 512  # characters: length of the windows that the word expert reads [untuned]
    margin_characters: int = 64  # characters: context on either side of the characters that are predicted [untuned]
    strength: float = 2.0  # counts: Dirichlet strength of the backoff from two neighbours to the frequencies [untuned]
    uniform_mix: float = 0.01  # probability: mass of the frequencies of widths in the word expert [untuned]


CONFIG = WidthConfig()


@dataclass(frozen=True)
class CharacterWidths:
    """The widths of n lost characters.

    Attributes:
        widths: (n,) most probable number of bytes of each.
        probability: (n,) posterior probability of this number.
    """

    widths: Ints
    probability: Floats

    def kinds(self, damaged: DamagedDocument) -> Ints:
        """Return the kinds (L,) of the bytes of the document, whose marks have these widths."""
        kinds = np.full(len(damaged.tokens), ANY)
        starts = damaged.positions[damaged.marks]
        within = np.arange(self.widths.sum()) - np.repeat(np.cumsum(self.widths) - self.widths, self.widths)
        kinds[np.repeat(starts, self.widths) + within] = kinds_of_characters(self.widths)
        return kinds


def infer_widths(damaged: DamagedDocument, references: ReferenceTexts, *, use_words: bool) -> CharacterWidths:
    """Infer the widths of the characters that the marks of a document stand for.

    Args:
        damaged: the document, whose marks have one position each; the rest is UTF-8.
        references: reference texts.
        use_words: whether to use word lists and references.
    """
    text = as_text(damaged)
    marks = np.array([index for index, character in enumerate(text) if character == HIDDEN_CHARACTER], dtype=np.int64)
    widths = np.array([len(character.encode()) for character in text])
    widths[marks] = 0
    by_neighbours = neighbour_probs(widths, marks)
    frequencies = np.bincount(widths[widths > 0], minlength=MAX_WIDTH + 1)[1:] + 1 / MAX_WIDTH
    frequencies = frequencies / frequencies.sum()
    probs = by_neighbours
    if use_words:
        words = CodedWords.of(text, references.word_counts, SPEC)
        by_words = width_probs(words, marks)
        mix = CONFIG.uniform_mix
        probs = ((1 - mix) * by_words + mix * frequencies) * by_neighbours / frequencies
        probs /= probs.sum(axis=1, keepdims=True)
    best = probs.argmax(axis=1)
    return CharacterWidths(best + 1, probs[np.arange(len(marks)), best])


def as_text(damaged: DamagedDocument) -> str:
    """Return the document as text, with HIDDEN_CHARACTER at each mark."""
    is_mark = np.zeros(len(damaged.tokens), dtype=bool)
    is_mark[damaged.positions[damaged.marks]] = True
    parts = np.split(damaged.tokens, np.flatnonzero(is_mark))
    hidden = HIDDEN_CHARACTER.encode()
    return b"".join(
        part.astype(np.uint8).tobytes() if not number else hidden + part[1:].astype(np.uint8).tobytes()
        for number, part in enumerate(parts)
    ).decode()


def width_probs(words: CodedWords, marks: Ints) -> Floats:
    """Compute the probabilities (n, 4) of the widths of hidden characters under the word expert."""
    codes = np.frombuffer(words.codes, dtype=np.uint8)
    probs = np.zeros((len(marks), MAX_WIDTH))
    widths, inner = words.alphabet.widths, CONFIG.window_characters - 2 * CONFIG.margin_characters
    for begin in range(0, len(codes), inner):
        selected = np.flatnonzero((marks >= begin) & (marks < begin + inner))
        if not len(selected):
            continue
        start = max(0, begin - CONFIG.margin_characters)
        window = codes[start : begin + inner + CONFIG.margin_characters]
        distributions = words.distributions(window, start, marks[selected] - start)
        for width in range(1, MAX_WIDTH + 1):
            probs[selected, width - 1] = distributions[:, widths == width].sum(axis=1)
    return probs


def neighbour_probs(widths: Ints, marks: Ints) -> Floats:
    """Compute the probabilities (n, 4) of widths given the widths of both neighbours, counted in the visible text.

    Args:
        widths: width of each character of the document; 0 of hidden ones.
        marks: (n,) indices of the hidden characters.
    """
    size = MAX_WIDTH + 1
    padded = np.concatenate([[0], widths, [0]])
    keys = padded[:-2] * size + padded[2:]
    counts = np.zeros((size * size, size))
    np.add.at(counts, (keys, widths), 1.0)
    counts = counts[:, 1:]
    frequencies = counts.sum(axis=0) + 1 / MAX_WIDTH
    frequencies /= frequencies.sum()
    selected = counts[keys[marks]]
    return (selected + CONFIG.strength * frequencies) / (selected.sum(axis=1, keepdims=True) + CONFIG.strength)
