"""The letter case of the words of a text, and the rates of wrong capital and small letters.

The clean form f of a word belongs to the state s = 0 (no capital letter) or s = 1. With y the observed word, r the
probability that a capital letter was made small and u that a small letter was made a capital one,

    score = sum over words of  log p(s_i | s_(i-1), text in small letters) + log p(f_i | s_i) + log p(y_i | f_i)
    log p(y | f) = n_UL log r + n_UU log (1 - r) + n_LU log u + n_LL log (1 - u)

where n_UL is the number of letters that are capital in f and small in y. p(f | s) are word frequencies.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from conservator.arrays import Floats, Ints
from conservator.experts.letter_case import CaseModel, CaseWord, is_start, lower, upper
from conservator.experts.word_ngram import WordFrequencies
from conservator.experts.word_ngram.lists import load_word_list
from conservator.lattice import Lattice

TITLE_PROB = 1e-6  # probability: added to that of a word with an initial capital letter [untuned]
CAPITALS_PROB = 5e-8  # probability: added to that of a word of capital letters [untuned]
DELIBERATE_PROB = 2e-2  # probability: of a form with capital letters that no list has [untuned]


@dataclass(frozen=True)
class Rates:
    """Error rates: of capital letters (r) and of small letters (u)."""

    lowered: float
    raised: float

    @property
    def logs(self) -> Floats:
        """(4,) logarithms of r, 1 - r, u, 1 - u."""
        values = np.clip([self.lowered, self.raised], 1e-9, 1 - 1e-9)
        return np.array([np.log(values[0]), np.log1p(-values[0]), np.log(values[1]), np.log1p(-values[1])])


@dataclass(frozen=True)
class CaseLattice:
    """The possible forms of the n words of a text.

    Attributes:
        words: The words.
        forms: (F,) possible clean forms.
        owners: (F,) the word of each form, ascending.
        states: (F,) whether a form has a capital letter.
        log_priors: (F,) log p(f | s).
        counts: (F, 4) n_UL, n_UU, n_LU, n_LL.
        log_odds: (n, 2) log-odds of a capital letter, for a word before without and with one.
    """

    words: Sequence[CaseWord]
    forms: Sequence[str]
    owners: Ints
    states: Ints
    log_priors: Floats
    counts: Floats
    log_odds: Floats

    def log_forms(self, rates: Rates) -> Floats:
        """Return log p(f | s) + log p(y | f) of each form (F,)."""
        log_forms: Floats = self.log_priors + self.counts @ rates.logs
        return log_forms

    def state_scores(self, log_forms: Floats) -> Floats:
        """Return the log-sum of the forms of each word and state (n, 2)."""
        scores = np.full((len(self.words), 2), -np.inf)
        np.logaddexp.at(scores, (self.owners, self.states), log_forms)
        return scores

    def with_rates(self, rates: Rates) -> Lattice:
        """Return the lattice of the states: the word i has the nodes 1 + 2 i and 2 + 2 i."""
        size = len(self.words)
        scores = self.state_scores(self.log_forms(rates))
        transitions = np.stack([-np.logaddexp(0, self.log_odds), -np.logaddexp(0, -self.log_odds)], axis=2)
        arcs = transitions + scores[:, None, :]  # (n, state before, state)
        numbers = np.arange(size)[:, None, None]
        sources = np.broadcast_to(2 * numbers - 1 + np.array([0, 1])[:, None], arcs.shape).copy()
        targets = np.broadcast_to(2 * numbers + 1 + np.array([0, 1]), arcs.shape)
        sources[0] = 0
        arcs[0, 1] = -np.inf
        final = np.array([2 * size - 1, 2 * size])
        return Lattice(2 * size + 1, sources.ravel(), targets.ravel(), arcs.ravel(), final)

    def posteriors(self, rates: Rates) -> tuple[Floats, float]:
        """Return the posterior probability of each form (F,), and the log-likelihood of the text."""
        lattice, log_forms = self.with_rates(rates), self.log_forms(rates)
        states = np.exp(lattice.log_posteriors).reshape(-1, 2, 2).sum(axis=1)
        scores = self.state_scores(log_forms)
        shares = np.exp(log_forms - scores[self.owners, self.states])
        return np.nan_to_num(shares) * states[self.owners, self.states], lattice.log_total

    def infer_rates(self, start: Rates, rounds: int, prior: tuple[float, float]) -> tuple[Rates, float]:
        """Return the rates by expectation maximisation, with prior counts of errors and correct letters."""
        rates, total = start, -np.inf
        for _ in range(rounds):
            posteriors, total = self.posteriors(rates)
            lowered, unchanged, raised, small = posteriors @ self.counts
            wrong, correct = prior
            rates = Rates(
                float((lowered + wrong) / (lowered + unchanged + wrong + correct)),
                float((raised + wrong) / (raised + small + wrong + correct)),
            )
        return rates, total

    def lowered_starts(self, rates: Rates) -> float:
        """Return the share of the capital letters at the start of sentences that were made small."""
        posteriors, _ = self.posteriors(rates)
        is_first = np.array([is_start(word.gap) for word in self.words], dtype=bool)[self.owners]
        lowered, unchanged = (posteriors * is_first) @ self.counts[:, :2]
        return float((lowered + 0.5) / (lowered + unchanged + 1))

    @cached_property
    def starts(self) -> Ints:
        """(n + 1,) the first form of each word."""
        return np.searchsorted(self.owners, np.arange(len(self.words) + 1))


def build_lattice(
    text: str, words: Sequence[CaseWord], model: CaseModel, frequencies: WordFrequencies, *, deliberate: bool
) -> CaseLattice:
    """Return the possible forms of the words of a text.

    Args:
        text: The text.
        words: Its words.
        model: Model of the language.
        frequencies: Word frequencies.
        deliberate: Whether forms with capital letters that no list has may be correct.
    """
    special = special_forms(model.language)
    forms, owners, states, priors, counts = list[str](), list[int](), list[int](), list[float](), list[list[int]]()
    cache: dict[str, list[tuple[str, int, float, list[int]]]] = {}
    for number, word in enumerate(words):
        observed = text[word.start : word.stop]
        if observed not in cache:
            weights = form_weights(lower(observed, model.language), model.language, special, frequencies)
            if deliberate:
                least = DELIBERATE_PROB * sum(weights.values())
                weights[observed] = max(weights.get(observed, 0.0), least)
            total = sum(weights.values())
            small = lower(observed, model.language)
            cache[observed] = [(small, 0, 0.0, compare(small, observed))] + [
                (form, 1, float(np.log(weight / total)), compare(form, observed))
                for form, weight in weights.items()
                if form != small
            ]
        for form, state, prior, compared in cache[observed]:
            forms.append(form)
            owners.append(number)
            states.append(state)
            priors.append(prior)
            counts.append(compared)
    return CaseLattice(
        words,
        forms,
        np.array(owners, dtype=np.int64),
        np.array(states, dtype=np.int64),
        np.array(priors),
        np.array(counts, dtype=np.float64),
        model.log_odds(text),
    )


def form_weights(
    small: str, language: str, special: Mapping[str, Sequence[str]], frequencies: WordFrequencies
) -> dict[str, float]:
    """Return the forms of a word with capital letters, and their probabilities."""
    title = upper(small[0], language) + small[1:]
    capitals = "".join(upper(character, language) for character in small)
    weights = {title: TITLE_PROB + frequencies.prob(title.encode())}
    if capitals != title:
        weights[capitals] = CAPITALS_PROB + frequencies.prob(capitals.encode())
    for form in special.get(small, ()):
        weights[form] = max(weights.get(form, 0.0), frequencies.prob(form.encode()))
    return weights


def compare(form: str, observed: str) -> list[int]:
    """Return the numbers of capital letters made small and kept, and of small letters made capital and kept."""
    counts = [0, 0, 0, 0]
    for clean, seen in zip(form, observed, strict=True):
        if clean.isupper():
            counts[int(seen.isupper())] += 1
        elif clean.islower():
            counts[2 if seen.isupper() else 3] += 1
    return counts


@cache
def special_forms(language: str) -> Mapping[str, Sequence[str]]:
    """Return word in small letters -> listed forms with a capital letter after the first letter."""
    forms: dict[str, list[str]] = {}
    for word in load_word_list(language).probs:
        text = word.decode()
        if len(text) > 1 and text[1:] != text[1:].lower():
            forms.setdefault(lower(text, language), []).append(text)
    return forms
