"""Marks that stand for one character of any kind: infer how many bytes each of them has.

The posterior of the width w of a lost character multiplies two estimates:

    p(w) proportional to  sum over characters v of w bytes of p_words(v)  *  p(w | widths of the neighbours) / p(w)

p_words is the word expert over characters (``CodedWords``); the second factor is counted in the visible text, and
matters where no word list knows the language. The most probable width of each character is then given to the experts,
which read bytes, and restricts them (``CharacterMaskChannel``).
"""

from dataclasses import dataclass, replace
from math import lgamma, log, pi

import numpy as np

from conservator.arrays import Bools, Floats, Ints
from conservator.channels import CharacterMaskChannel
from conservator.channels.character_mask import ANY, MAX_WIDTH, kinds_of_characters
from conservator.decoders import DecodedText
from conservator.documents import DamagedDocument
from conservator.errors import Advice, ConservatorError
from conservator.experts.word_ngram.alphabet import FIRST_CODE, OTHER
from conservator.experts.word_ngram.characters import HIDDEN_CHARACTER, CodedWords
from conservator.experts.word_ngram.expert import NO_COUNTS, SPEC
from conservator.options import ANY_CHARACTER
from conservator.pipelines.references import ReferenceTexts
from conservator.vocabularies import BYTES


@dataclass(frozen=True)
class WidthConfig:
    """Constants of the inference of widths."""

    window_characters: int = 512  # characters: length of the windows that the word expert reads [untuned]
    margin_characters: int = 64  # characters: context on either side of the characters that are predicted [untuned]
    strength: float = 2.0  # counts: Dirichlet strength of the backoff from two neighbours to the frequencies [untuned]
    rate_strength: float = 5.0  # characters: strength of the prior of loss rates, whose mean is their share [untuned]
    iterations: int = 20  # iterations: of the inference of the loss rate [numerical]
    exclusive_rate: float = 1e-3  # probability: a character is lost although its class is not, and conversely [untuned]
    independent_prob: float = 0.01  # ratio: prior of independent rates relative to the other hypotheses [untuned]
    known_radius: int = 16  # characters: on either side, whose letters are compared with those of words [untuned]
    # ratio: words decide the width of a lost character if they have this share of the letters near it [untuned]
    min_known_share: float = 0.5
    # probability: weight of the widths of the neighbours if the words of the language are known [untuned]
    neighbour_mix: float = 0.02
    unseen_weight: float = 1e-3  # ratio: weight of a byte that no character of the document or its words has [untuned]


CONFIG = WidthConfig()


@dataclass(frozen=True)
class CharacterWidths:
    """The widths of n lost characters.

    Attributes:
        widths: (n,) most probable number of bytes of each.
        probability: (n,) posterior probability of this number.
        weights: (256,) weight of each byte of a lost character.
        rates_known: Whether the weights include loss rates, because undamaged text may have the mark.
    """

    widths: Ints
    probability: Floats
    weights: Floats
    rates_known: bool

    def channel(self, damaged: DamagedDocument) -> CharacterMaskChannel:
        """Return the channel of the document, whose marks have these widths."""
        kinds = np.full(len(damaged.tokens), ANY)
        starts = damaged.positions[damaged.marks]
        within = np.arange(self.widths.sum()) - np.repeat(np.cumsum(self.widths) - self.widths, self.widths)
        kinds[np.repeat(starts, self.widths) + within] = kinds_of_characters(self.widths)
        return CharacterMaskChannel(kinds, self.weights, rates_known=self.rates_known)

    def scale_confidence(self, damaged: DamagedDocument, positions: Ints, decoded: DecodedText) -> DecodedText:
        """Return the decoded text in which each byte of a lost character has the confidence of the character.

        Args:
            damaged: the document, whose marks have these widths.
            positions: (k,) positions that were read.
            decoded: their text.
        """
        starts = np.searchsorted(positions, damaged.positions[damaged.marks])
        inside = np.repeat(starts, self.widths) + np.arange(self.widths.sum())
        inside -= np.repeat(np.cumsum(self.widths) - self.widths, self.widths)
        confidence = decoded.confidence.copy()
        first = np.cumsum(self.widths) - self.widths
        joint = np.multiply.reduceat(confidence[inside], first) * self.probability
        confidence[inside] = np.repeat(joint, self.widths)
        return replace(decoded, confidence=confidence)


def unit_of_marks(damaged: DamagedDocument, lost: str, *, is_uncertain: bool) -> str:
    """Return what the marks of a document are, as a value of the option ``lost``: any, bytes or invalid.

    Marks are characters by default. They are bytes if parts of characters remain beside them, or if any visible byte
    may be wrong.

    Args:
        damaged: the document.
        lost: the option.
        is_uncertain: whether any visible byte may be wrong.
    """
    if lost == "invalid" or damaged.is_gap.all() or is_uncertain:
        return "invalid" if lost == "invalid" else "bytes"
    try:
        as_text(damaged)
    except UnicodeDecodeError as error:
        if lost == ANY_CHARACTER:
            raise ConservatorError(
                "the document must be UTF-8 between its marks if each mark stands for a character",
                Advice("lost", "bytes", "lets each mark stand for a byte"),
            ) from error
        return "bytes"
    return ANY_CHARACTER if lost in ("auto", ANY_CHARACTER) else "bytes"


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
    mark = damaged.mark if len(damaged.mark) == 1 and damaged.mark.isascii() else ""
    by_neighbours = neighbour_probs(widths, marks)
    words = CodedWords.of(text, references.word_counts if use_words else NO_COUNTS, SPEC, lists=use_words)
    distributions = predict_characters(words, marks)
    rates = infer_loss_rates(distributions, words.alphabet.widths, widths, mark)
    distributions *= rates
    by_words = np.stack(
        [distributions[:, words.alphabet.widths == width].sum(axis=1) for width in range(1, MAX_WIDTH + 1)], axis=1
    )
    by_words /= by_words.sum(axis=1, keepdims=True)
    is_known = words.known_shares(marks, CONFIG.known_radius) >= CONFIG.min_known_share
    mix = np.where(is_known, CONFIG.neighbour_mix, 1.0)[:, None]
    probs = (1 - mix) * by_words + mix * by_neighbours
    best = probs.argmax(axis=1)
    weights = np.full(BYTES.size, CONFIG.unseen_weight)
    weights[:FIRST_CODE] = 1.0
    weights[np.unique(np.frombuffer((text + words.alphabet.text).encode(), dtype=np.uint8))] = 1.0
    if mark:
        weights *= np.where(np.arange(BYTES.size) < FIRST_CODE, rates[ord("a")], rates[OTHER])
        weights[ord(mark)] = 1.0
    return CharacterWidths(best + 1, probs[np.arange(len(marks)), best], weights, bool(mark))


def infer_loss_rates(distributions: Floats, code_widths: Ints, widths: Ints, mark: str) -> Floats:
    """Infer the loss rates of characters in and outside ASCII: (256,), a rate for each code.

    Three hypotheses are compared by their probability: all characters are lost equally often; all characters outside
    ASCII are lost and no others, as in a wrong encoding; the two rates are any numbers (EM). With the predictions
    p_l(v) of the lost characters, and a rate r(v) that depends on the class of v,

        p(document | r) = prod over lost l of  sum_v r(v) p_l(v)  *  prod over visible characters v of  1 - r(v)

    In the first hypothesis, losses are a Markov chain (``log_pattern_prob``), so that a run of lost characters counts
    little more than a single one. If undamaged text may contain the mark, its loss rate is 1: every such character
    looks like a mark.

    Args:
        distributions: (n, 256) predictions of the lost characters.
        code_widths: (256,) number of bytes of the character of each code.
        widths: width of each character of the document; 0 of lost ones.
        mark: the mark if undamaged text may contain it; "" otherwise.
    """
    mark_probs = distributions[:, ord(mark)] if mark else np.zeros(len(distributions))
    is_ascii = code_widths == 1
    ascii_probs = distributions[:, is_ascii].sum(axis=1) - mark_probs
    class_probs = np.stack([distributions[:, ~is_ascii].sum(axis=1), ascii_probs], axis=1)
    visible = np.array([(widths > 1).sum(), (widths == 1).sum()])
    overall = len(distributions) / max(1, len(widths))
    fitted = np.full(2, overall)
    for _ in range(CONFIG.iterations):
        joint = class_probs * fitted
        lost = (joint / (joint.sum(axis=1) + mark_probs)[:, None]).sum(axis=0)
        fitted = (lost + CONFIG.rate_strength * overall) / (lost + visible + CONFIG.rate_strength)
        fitted[1] = min(fitted)  # no known damage prefers characters in ASCII
    hypotheses = {
        (overall, overall): 1.0,
        (1 - CONFIG.exclusive_rate, CONFIG.exclusive_rate): 1.0,
        tuple(fitted.tolist()): CONFIG.independent_prob,
    }

    def log_posterior(rates: tuple[float, ...]) -> float:
        if rates[0] == rates[1] and not mark:
            return log_pattern_prob(widths == 0)
        likelihood = np.log(class_probs @ rates + mark_probs + np.finfo(np.float64).tiny).sum()
        return float(np.log(hypotheses[rates]) + likelihood + visible @ np.log1p(-np.minimum(rates, 1 - 1e-12)))

    best = np.array(max(hypotheses, key=log_posterior))
    rates: Floats = best[is_ascii.astype(np.int64)]
    if mark:
        rates[ord(mark)] = 1.0
    return rates


def log_pattern_prob(is_lost: Bools) -> float:
    """Return the log-probability of the pattern (n,) of lost characters, if losses are a first-order Markov chain.

    The two transition probabilities have a Beta(1/2, 1/2) prior and are integrated out.
    """
    before, after = is_lost[:-1], is_lost[1:]
    total = 0.0
    for state in (False, True):
        lost, visible = (int((flags & (before == state)).sum()) for flags in (after, ~after))
        total += lgamma(lost + 0.5) + lgamma(visible + 0.5) - lgamma(lost + visible + 1) - log(pi)
    return total


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


def predict_characters(words: CodedWords, marks: Ints) -> Floats:
    """Compute the distributions (n, 256) of the codes of hidden characters under the word expert."""
    codes = np.frombuffer(words.codes, dtype=np.uint8)
    distributions = np.empty((len(marks), BYTES.size))
    inner = CONFIG.window_characters - 2 * CONFIG.margin_characters
    for begin in range(0, len(codes), inner):
        selected = np.flatnonzero((marks >= begin) & (marks < begin + inner))
        if len(selected):
            start = max(0, begin - CONFIG.margin_characters)
            window = codes[start : begin + inner + CONFIG.margin_characters]
            distributions[selected] = words.distributions(window, start, marks[selected] - start)
    distributions[:, words.alphabet.widths == 0] = 0.0  # codes without a character
    distributions /= distributions.sum(axis=1, keepdims=True)
    return distributions


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
    totals = selected.sum(axis=1, keepdims=True) + CONFIG.strength
    probs: Floats = (selected + CONFIG.strength * frequencies) / totals
    return probs
