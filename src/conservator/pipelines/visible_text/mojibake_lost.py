"""Choose the characters of mojibake with lost bytes, from the frequencies of words and of character n-grams.

With p(w) the frequency of a word and q the character n-gram model, a candidate w of a word has

    score(w) = log((1 - u) p(w) + u q(w)) + sum over characters c with lost bytes of log prior(c)

q counts the decoded text and the words of its languages.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import exp, log, prod
from typing import NamedTuple
from unicodedata import category

from conservator.experts.word_ngram.counts import HIDDEN_BYTE, WordCounts
from conservator.experts.word_ngram.frequencies import WordFrequencies
from conservator.experts.word_ngram.lists import list_names
from conservator.pipelines.visible_text.commonness import commonness
from conservator.pipelines.visible_text.mojibake_layers import FIRST_PLACEHOLDER

PLACEHOLDER = f"[{chr(FIRST_PLACEHOLDER)}-\U0010ffff]"
PLACEHOLDERS = re.compile(PLACEHOLDER)
WORD = re.compile(rf"(?:\w|{PLACEHOLDER})+")
GROUP = re.compile(rf"{PLACEHOLDER}(?:.?{PLACEHOLDER}){{0,2}}")  # placeholders that are beside each other
NOT_LETTERS = re.compile(r"^\W+|\W+$")


@dataclass(frozen=True)
class LostConfig:
    """Constants of the choice."""

    order: int = 5  # characters: of the longest n-gram [LOG: mojibake]
    model_error: float = 0.02  # probability: that the frequencies do not apply [LOG: mojibake]
    back_off: float = 2.0  # counts: weight of the shorter n-grams [untuned]
    listed_share: float = 0.9  # probability: 1 - u of the score [untuned]
    list_words: float = 5000.0  # words: weight of the word lists among the n-grams [untuned]
    capital_weight: float = 0.03  # counts: of an n-gram with a capital letter for one with a small letter [untuned]
    base_count: float = 1e-3  # probability: of the most frequent character outside ASCII without counts [untuned]
    max_members: int = 12  # characters: that are compared at one position [safety limit]
    max_candidates: int = 256  # texts: that are compared for one word [safety limit]
    max_listed_words: int = 20_000  # words: whose characters are counted [safety limit]
    min_listed_words: int = 2000  # words: of each list [safety limit]
    max_text: int = 200_000  # characters: of the text that are counted [safety limit]


CONFIG = LostConfig()
MIN_LOG_PROB = -12.0  # nats: candidates with a lower log-probability are left out [numerical]


class Pattern(NamedTuple):
    """A word with placeholders.

    Attributes:
        before: Characters before it.
        word: The word.
        after: Character after it.
    """

    before: str
    word: str
    after: str


@dataclass(frozen=True)
class CharacterModel:
    """Character n-grams of up to ``CONFIG.order`` characters.

    With n the counts and b the weight of shorter contexts, p(c | context) = (n(context c) + b p(c | shorter context)) /
    (n(context) + b).

    Attributes:
        counts: n-gram -> its count.
    """

    counts: Mapping[str, float]

    @cached_property
    def contexts(self) -> Counter[str]:
        """Context -> the sum of the counts of its n-grams."""
        sums: Counter[str] = Counter()
        for gram, count in self.counts.items():
            sums[gram[:-1]] += count  # type: ignore[assignment]
        return sums

    @cached_property
    def _known(self) -> dict[tuple[str, str], float]:
        """Results of ``probability``."""
        return {}

    def probability(self, context: str, character: str) -> float:
        """Return p(c | context)."""
        key = (context, character)
        value = self._known.get(key)
        if value is None:
            count = self.counts.get(context + character, 0.0)
            base = CONFIG.base_count * commonness(character)
            shorter = self.probability(context[1:], character) if context else base
            value = (count + CONFIG.back_off * shorter) / (self.contexts[context] + CONFIG.back_off)
            self._known[key] = value
        return value

    def log_prob(self, text: str, start: int) -> float:
        """Return the log-probability of the characters of a text from an index on."""
        width = CONFIG.order - 1
        return sum(
            log(self.probability(text[max(0, index - width) : index], text[index])) for index in range(start, len(text))
        )


@dataclass(frozen=True)
class LostCharacters:
    """The choice of characters with lost bytes in a text.

    Attributes:
        text: The text with placeholders.
        sets: placeholder -> its characters with their prior probabilities.
        references: Counts of reference texts.
    """

    text: str
    sets: Mapping[str, Mapping[str, float]]
    references: WordCounts

    @cached_property
    def words(self) -> WordFrequencies:
        """The frequencies of words; those of all word lists if no language is identified."""
        hidden = bytes([HIDDEN_BYTE])
        data = hidden.join(part.encode(errors="replace") for part in PLACEHOLDERS.split(self.text))
        words = WordFrequencies.of(data, self.references)
        names = () if words.languages else list_names()
        return replace(words, languages=dict.fromkeys(names, 1 / len(names))) if names else words

    @cached_property
    def counts(self) -> Counter[str]:
        """Counts of character n-grams: of the text, and of the words of its languages."""
        text = self.text[: CONFIG.max_text]
        counts = count_ngrams((part, 1.0) for part in PLACEHOLDERS.split(text))
        counts.update(count_ngrams((part.title(), CONFIG.capital_weight) for part in PLACEHOLDERS.split(text)))
        limit = max(CONFIG.min_listed_words, CONFIG.max_listed_words // max(1, len(self.words.lists)))
        for word_list, probability in self.words.lists:
            frequent = sorted(word_list.probs.items(), key=lambda item: -item[1])[:limit]
            weight = CONFIG.list_words * probability
            counts.update(count_ngrams((f" {word.decode()} ", weight * frequency) for word, frequency in frequent))
        return counts

    def spans(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the words with placeholders of a range of the text; parts of a word with too many candidates."""
        for match in WORD.finditer(self.text, start, stop):
            placeholders = [character for character in match[0] if character in self.sets]
            if not placeholders:
                continue
            if prod(min(CONFIG.max_members, len(self.sets[character])) for character in placeholders) <= (
                CONFIG.max_candidates
            ):
                yield match.span()
            else:
                yield from (group.span() for group in GROUP.finditer(self.text, *match.span()))

    def choose(self, spans: Sequence[tuple[int, int]]) -> list[dict[str, float]]:
        """Return candidate -> its score for each of the spans; the score is a log-probability."""
        patterns = [self.pattern(start, stop) for start, stop in spans]
        model = CharacterModel(self.counts)
        scores = {pattern: self.score(pattern, model) for pattern in dict.fromkeys(patterns)}
        return [scores[pattern] for pattern in patterns]

    def pattern(self, start: int, stop: int) -> Pattern:
        """Return a word with the characters around it, from the last space on, so that many words have one pattern."""
        before = self.text[max(0, start - CONFIG.order) : start]
        return Pattern(before[max(0, before.rfind(" ")) :] or "\n", self.text[start:stop], self.text[stop : stop + 1])

    def score(self, pattern: Pattern, model: CharacterModel) -> dict[str, float]:
        """Return candidate -> its log-probability among the candidates of a word, for the most probable ones."""
        before, word, after = pattern
        positions = [index for index, character in enumerate(word) if character in self.sets]
        members = [self.members(word[index]) for index in positions]
        keep = 2
        while members and prod(map(len, members)) > CONFIG.max_candidates and keep:
            members, keep = [choices[:keep] for choices in members], keep - 1
        if not all(members):
            return {}
        scores: dict[str, float] = {}
        for combination in product(*members):
            characters = list(word)
            prior = 0.0
            for index, character in zip(positions, combination, strict=True):
                prior += log(self.sets[word[index]][character])
                characters[index] = character
            text = "".join(characters)
            spelled = model.log_prob(before + text + after, len(before))
            frequency = self.words.prob(NOT_LETTERS.sub("", text).encode())
            share = CONFIG.listed_share
            scores[text] = prior + log(share * frequency + (1 - share) * exp(spelled) + 1e-300)
        best = max(scores.values())
        total = best + log(sum(exp(score - best) for score in scores.values()))
        probs = {text: exp(score - total) for text, score in scores.items() if score - total > MIN_LOG_PROB}
        error = CONFIG.model_error
        return {text: log((1 - error) * prob + error / len(probs)) for text, prob in probs.items()}

    def members(self, placeholder: str) -> list[str]:
        """Return the characters of a placeholder, the most probable ones first."""
        scored = [
            (-probability * commonness(character) - 1e-3 * self.counts[character], character)
            for character, probability in self.sets[placeholder].items()
            if category(character) != "Cc"
        ]
        return [character for _, character in sorted(scored)[: CONFIG.max_members]]


def count_ngrams(texts: Iterable[tuple[str, float]]) -> Counter[str]:
    """Count the n-grams of texts with weights."""
    counts: Counter[str] = Counter()
    for text, weight in texts:
        for size in range(1, CONFIG.order + 1):
            grams = (text[index : index + size] for index in range(len(text) - size + 1))
            if weight == 1.0:
                counts.update(grams)
            else:
                for gram in grams:
                    counts[gram] += weight  # type: ignore[assignment]
    return counts
