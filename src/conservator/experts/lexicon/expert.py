"""The expert for lost characters: which word of the document's language a pattern stands for.

A document is in one language, or mostly. Its words tell which: with P_k(pattern) the frequency in language k of all
words that look like a pattern,

    p(k | document) proportional to  prod over words of  (1 - RARE) P_k(pattern) + RARE

The law of a lost character is a mixture over languages. In each, it is that of the words that the pattern around it may
stand for, and less and less surely that of the characters in the middle of as many neighbours as occur in known words,
of the two characters beside it, and of the language's characters. A pattern that is no word of the language may be one
of another: names travel.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.channels import Observation
from conservator.experts.expert import At, Context, ExpertSpec, check_context, copy_visible
from conservator.experts.lexicon.words import (
    CONTEXTS,
    MARK,
    WORD,
    Counts,
    Language,
    Law,
    begins_sentence,
    count_words,
    kinds,
    load_languages,
    lose,
    neighbours,
)
from conservator.vocabularies import CHARACTERS, CharacterVocabulary

NAME = "european"
RARE = 2e-7  # the frequency of a word that is in no list
READ = 600  # words of a document that tell its language, spread over it
SHARE = 1e-3  # a language that is less likely is left out
FIRM = 4.0  # how many characters must have been seen in a context, so that it counts as much as the next smaller one
WORDS = 0.5  # the same of a word
FOREIGN = 3.0  # a word of another language counts half if it has this frequency, in millionths
SHOWN = 3  # letters in ASCII that a word of another language must have
APOSTROPHE = "\u2019"
REFERENCE = 20.0  # what a word of the document or a reference counts, where one of the list counts 1
DOUBT = 0.005  # the share of the law that no context has a say in


@dataclass(frozen=True)
class Lexicon:
    """Words of languages; for each document, ``condition`` makes the expert that knows its language.

    Attributes:
        languages: name -> language; None takes those that come with the package.
        texts: texts like the documents, whose words count more.
        vocabulary: the characters, and which of them may be lost.
    """

    languages: Mapping[str, Language] | None = None
    texts: tuple[str, ...] = ()
    vocabulary: CharacterVocabulary = CHARACTERS

    @property
    def spec(self) -> ExpertSpec:
        """Its description."""
        return ExpertSpec(NAME, self.vocabulary)

    def condition(self, document: Observation) -> "Reader":
        """The expert for a document (1, L)."""
        languages = load_languages() if self.languages is None else dict(self.languages)
        text = written(document.readable[0].numpy(), document.hidden[0].numpy())
        share = tell_languages(text, languages)
        intact = [] if text.replace(MARK, "").isascii() else [text]
        if self.texts or intact:
            words, around = count_words([*self.texts, *intact])
            own = Language.of({one: REFERENCE * count for one, count in words.items()}, around)
            languages = {name: joined(one, own) if name in share else one for name, one in languages.items()}
        return Reader(languages, share, self.spec)


@dataclass(frozen=True)
class Reader:
    """The expert for one document.

    Attributes:
        languages: all languages.
        share: name -> the probability that the document is in this language.
        spec: its description.
    """

    languages: Mapping[str, Language]
    share: Mapping[str, float]
    spec: ExpertSpec = field(default_factory=lambda: Lexicon().spec)

    def predict(self, context: Context, at: At) -> Tensor:
        """Log p(character) at the positions ``at``: (n, V)."""
        check_context(self.spec, context)
        hidden = context.hidden | ~context.real
        rows = [written(row, flags) for row, flags in zip(context.tokens.numpy(), hidden.numpy(), strict=True)]
        found = torch.full((len(at[0]), CHARACTERS.size), DOUBT / CHARACTERS.size, dtype=torch.float64)
        words = [words_by_place(text) for text in rows]
        for number, (row, place) in enumerate(zip(at[0].tolist(), at[1].tolist(), strict=True)):
            law = self.law(rows[row], place, words[row].get(place))
            codes = [CHARACTERS.codes[one] for one in law if one in CHARACTERS.codes]
            values = [value for one, value in law.items() if one in CHARACTERS.codes]
            found[number, codes] += (1 - DOUBT) * torch.tensor(values, dtype=torch.float64)
        return copy_visible((found / found.sum(-1, keepdim=True)).log().float(), Context(context.tokens, hidden), at)

    def law(self, text: str, place: int, word: tuple[int, str] | None) -> Law:
        """The law of the lost character at a place of a text; ``word`` is the one around it, with its start."""
        total: Law = defaultdict(float)
        for name, share in self.share.items():
            for one, value in self.law_in(name, text, place, word).items():
                total[one] += share * value
        if word is None or any(self.candidates(name, text, word) for name in self.share):
            return total
        if sum(one.isascii() for one in word[1]) < SHOWN:
            return total
        foreign: Law = defaultdict(float)
        for name in self.languages:
            for one, count in self.candidates(name, text, word).items():
                foreign[one[place - word[0]]] += 1e6 * count / self.languages[name].total
        return joined_law(foreign, FOREIGN, total)

    def law_in(self, name: str, text: str, place: int, word: tuple[int, str] | None) -> Law:
        """The law in one language."""
        language = self.languages[name]
        key = neighbours(lose(text), place)
        law = joined_law(language.by_kind.get(kinds(key), {}), FIRM, language.frequencies)
        law = joined_law(language.around.get(key, {}), FIRM, law)
        if word is None:
            return law
        start, pattern = word
        edged, inside = f" {lose(pattern)} ", place - start + 1
        for size in CONTEXTS:
            if inside - size >= 0 and inside + size < len(edged):
                key = edged[inside - size : inside] + edged[inside + 1 : inside + size + 1]
                law = among_letters(language.contexts.get(key, {}), law)
        letters: Law = defaultdict(float)
        for one, count in self.candidates(name, text, word).items():
            letters[one[place - start]] += count
        return joined_law(letters, WORDS, law)

    def candidates(self, name: str, text: str, word: tuple[int, str]) -> dict[str, float]:
        """The words of a language that one of the text may be; a mark at either end of it may be a quote."""
        start, pattern = word
        if pattern == MARK:
            return {}
        first = begins_sentence(text, start)
        found = self.languages[name].like(pattern, first=first)
        if not found:
            for left, right in ((1, 0), (0, 1), (1, 1)):
                inner = pattern[left : len(pattern) - right]
                quoted = pattern[:left] + pattern[len(pattern) - right :]
                if MARK in inner and len(inner) > 1 and set(quoted) == {MARK}:
                    known = self.languages[name].like(inner, first=first)
                    found |= {MARK * left + one + MARK * right: count / 2 for one, count in known.items()}
        return found

    def frequency(self, name: str, text: str, word: tuple[int, str]) -> float:
        """How frequent the words are in a language that one of the text may be."""
        return sum(self.candidates(name, text, word).values()) / self.languages[name].total


def written(tokens: NDArray[np.integer[Any]], hidden: NDArray[np.bool_]) -> str:
    """Tokens (L,) of characters as text, with a mark where one is hidden."""
    return "".join(MARK if gone else CHARACTERS.texts[token] for token, gone in zip(tokens, hidden, strict=True))


def words_by_place(text: str) -> dict[int, tuple[int, str]]:
    """The word around each mark of a text, with its start."""
    found: dict[int, tuple[int, str]] = {}
    for match in WORD.finditer(text):
        if MARK in match[0]:
            found |= {match.start() + at: (match.start(), match[0]) for at, one in enumerate(match[0]) if one == MARK}
    return found


def tell_languages(text: str, languages: Mapping[str, Language]) -> dict[str, float]:
    """The probability that a text is in each language, without those that are unlikely."""
    words = [word for word in WORD.finditer(text) if word[0].strip(MARK)]
    words = words[:: max(1, len(words) // READ)]
    scores = {}
    for name, one in languages.items():
        counts = (sum(one.like(word[0], first=begins_sentence(text, word.start())).values()) for word in words)
        scores[name] = sum(math.log((1 - RARE) * count / one.total + RARE) for count in counts)
    best = max(scores.values())
    shares = {name: math.exp(score - best) for name, score in scores.items()}
    kept = {name: share for name, share in shares.items() if share >= SHARE}
    return {name: share / sum(kept.values()) for name, share in kept.items()}


def joined(one: Language, other: Language) -> Language:
    """A language with the words of another besides. It has very many, of which few change."""
    words, around = dict(one.words), dict(one.around)
    for pattern, known in other.words.items():
        words[pattern] = tuple(added(dict(words.get(pattern, ())), dict(known)).items())
    for key, counts in other.around.items():
        around[key] = added(around.get(key, {}), counts)
    return Language(words, around, one.total)


def added(one: Counts, other: Counts) -> Law:
    """The sums of counts."""
    return {**one, **{key: one.get(key, 0.0) + count for key, count in other.items()}}


def joined_law(counts: Counts, strength: float, law: Law) -> Law:
    """(counts + strength * law), normalised: what was seen, and where little was, the law."""
    total = sum(counts.values()) + strength
    found = defaultdict(float, {one: strength * value / total for one, value in law.items()})
    for one, count in counts.items():
        found[one] += count / total
    return found


def among_letters(counts: Counts, law: Law) -> Law:
    """The law, in which the share of what stands in words is divided anew by its ``counts`` in a larger context."""
    letters = {one: value for one, value in law.items() if one.isalpha() or one == APOSTROPHE}
    share = sum(letters.values())
    if not share or not counts:
        return law
    alone = joined_law(counts, FIRM, {one: value / share for one, value in letters.items()})
    return defaultdict(float, law) | {one: share * value for one, value in alone.items()}
