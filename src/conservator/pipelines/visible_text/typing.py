"""The channel ``typing``: typing and spelling errors.

An unknown word y is a correct word that the word lists do not have, or an error of a known word v. The scores are
log-linear, with weights w that are fitted to texts with errors:

    score(v) = w_1 log p(y | v) + w_2 log p(v) + w_3 log p_letters(v) + w_4 log epsilon
    score(y) = w_5 log p_letters(y) + w_6 log omega + w_7 log(p_other + sum_v p(v) rate(v, y) + p_English(y)) + w_8

p(y | v) is the error model (``TypingErrors``), p(v) the frequency of a word (``WordFrequencies``), p_letters the letter
model of the word lists, and rate(v, y) the share of the words with the ending of v that also have the ending of y
(``NearWords``). The share epsilon of errors and the share omega of unknown correct words are inferred from the document
by expectation maximisation.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np

from conservator.channels.typing_errors import WORD, load_typing_errors, match_case
from conservator.experts.word_ngram import WordFrequencies
from conservator.experts.word_ngram.neighbours import MIN_FIRST, MIN_REST, NearWords, load_near_words, rare_share
from conservator.pipelines.correction.protection import is_code, is_name, token_span
from conservator.pipelines.task import PipelineTask
from conservator.pipelines.visible_text.correction import Proposal, TextChannel, correct_visible_text
from conservator.results import Restoration

CODE = re.compile(  # text that is not prose: fenced and inline code, tags, commands, entities
    r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)|`[^`\n]+`|<[^<>\n]+>|\\[A-Za-z]+|&\w+;", re.MULTILINE | re.DOTALL
)
# Characters before and after a word of prose.
BEFORE = frozenset(" \t\n\r\"'([\u2018\u2019\u201c\u201e\u00ab\u2013\u2014-/*_\u00bf\u00a1")
AFTER = frozenset(" \t\n\r\"').,;:!?]\u2018\u2019\u201c\u201d\u00bb\u2026\u2013\u2014-/*_")
SENTENCE_START = re.compile(r"(?:^|[.!?:\n])[\s\"'(\u201c\u201e\u00ab\u2018*_#>-]*$")
APOSTROPHE = re.compile("['\u2019]")
ELIDING = frozenset(("ca", "en", "fr", "it"))  # languages in which an apostrophe joins two words
ENGLISH = "en"  # language whose words occur in texts of all languages


@dataclass(frozen=True)
class TypingConfig:
    """Parameters of the correction of typing errors."""

    min_letters: int = 3  # letters: shorter unknown words are not corrected
    min_repeats: int = 3  # occurrences: a form that a document has as often counts as intended
    min_name_repeats: int = 2  # occurrences: the same of a capitalised form
    max_near: int = 25  # words: candidates of an unknown word whose error model is computed
    distance_nats: float = 6.0  # nats: of an edit, for the selection of these candidates
    prior_errors: float = 0.05  # ratio: prior mean of epsilon
    prior_error_words: float = 4.0  # words: weight of this prior mean
    unknown_ratio: float = 6.0  # ratio: prior mean of omega to the share of the rarest words of the lists
    unknown_name_share: float = 0.05  # ratio: prior mean of the share of unknown names
    prior_unknown_words: float = 30.0  # words: weight of these prior means
    iterations: int = 8  # iterations of expectation maximisation
    other_share: float = 0.1  # probability: an unknown correct word does not follow the letter model
    other_nats: float = 3.0  # nats: surprisal of a letter of such a word
    other_prob: float = 3.1e-07  # probability p_other
    compound_share: float = 18  # ratio: of compounds and prefixed words, relative to derived words
    english_share: float = 0.8  # ratio: of English words, relative to derived words
    error_weight: float = 0.754  # w_1
    prob_weight: float = 0.843  # w_2
    near_letter_weight: float = 0.192  # w_3
    errors_weight: float = 0.833  # w_4
    letter_weight: float = 0.421  # w_5
    unknown_weight: float = 0.761  # w_6
    derived_weight: float = 0.387  # w_7
    constant: float = -2.032  # w_8
    name_constant: float = 0.449  # the same for a capitalised word within a sentence, added to the constant
    two_constant: float = 0.406  # nats: of a candidate with two edits
    compound_constant: float = -0.098  # nats: of a compound or prefixed word that no list has
    space_constant: float = 2.0  # nats: of two words that an error joins
    window: int = 10  # words: on either side of a word, whose words show whether the lists know the text
    max_unknown: float = 0.5  # ratio: of unknown words in the window; with more, a word is not corrected
    joined_prob: float = 0.01  # probability: an error joins two words; lists of misspelt words have few of them
    min_part: float = 2e-3  # probability: of the more frequent one of two words that an error joins
    min_joined: float = 1e-6  # probability: of the other one, and of a word that an error splits


CONFIG = TypingConfig()


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


@dataclass(frozen=True)
class Near:
    """A candidate of an unknown word y.

    Attributes:
        text: The candidate v.
        log_error: log p(y | v).
        log_prob: log p(v).
        edits: Number of edits; 0 if a blank is missing.
        is_compound: Whether the lists have only its parts.
        letters: log p_letters(v).
    """

    text: str
    log_error: float
    log_prob: float
    edits: int
    is_compound: bool = False
    letters: float = 0.0

    def score(self, errors: float) -> float:
        """Return the score of the candidate, given the share epsilon of errors."""
        kind = (CONFIG.space_constant, 0.0, CONFIG.two_constant)[self.edits]
        return (
            CONFIG.error_weight * self.log_error
            + CONFIG.prob_weight * self.log_prob
            + CONFIG.near_letter_weight * self.letters
            + CONFIG.errors_weight * log(errors)
            + kind
            + CONFIG.compound_constant * self.is_compound
        )


@dataclass(frozen=True)
class Suspect:
    """An unknown word y that may be an error.

    Attributes:
        start: First character.
        stop: End.
        text: The observed text.
        is_name: Whether it is capitalised within a sentence.
        near: Candidates.
        derived: Sum over v of p(v) rate(v, y).
        compound: p(y) as a first part and a word.
        english: p_English(y).
        letters: log p_letters(y).
    """

    start: int
    stop: int
    text: str
    is_name: bool
    near: Sequence[Near]
    derived: float
    compound: float
    english: float
    letters: float = 0.0

    def score(self, unknown: float) -> float:
        """Return the score of the observed text, given the share omega of unknown correct words of its kind."""
        others = CONFIG.other_prob + self.derived
        others += CONFIG.compound_share * self.compound + CONFIG.english_share * self.english
        return (
            CONFIG.letter_weight * self.letters
            + CONFIG.unknown_weight * log(unknown)
            + CONFIG.derived_weight * log(others)
            + CONFIG.constant
            + CONFIG.name_constant * self.is_name
        )

    def error_prob(self, errors: float, unknown: float) -> float:
        """Return the probability that the observed text is an error."""
        if not self.near:
            return 0.0
        log_sum = np.logaddexp.reduce([near.score(errors) for near in self.near])
        return float(1 / (1 + np.exp(min(500.0, self.score(unknown) - log_sum))))


class TypingModel:
    """The words of one document."""

    def __init__(self, text: str, frequencies: WordFrequencies) -> None:
        """Store the text and its word frequencies."""
        self.text, self.frequencies = text, frequencies
        self.languages = sorted(frequencies.languages, key=lambda name: -frequencies.languages[name])
        self.english = load_near_words(ENGLISH)
        self.forms = Counter(match[0] for match in WORD.finditer(text))
        self.lower_forms = Counter[str]()
        for form, count in self.forms.items():
            self.lower_forms[form.lower()] += count
        self.has_elision = not ELIDING.isdisjoint(self.languages[:1])
        self.errors = load_typing_errors()
        self.known: dict[str, bool] = {}
        self.cached: dict[tuple[str, bool], tuple[Sequence[Near], float, float, float]] = {}

    def prob(self, word: str, *, any_case: bool) -> float:
        """Return p(v) of a word as it is written, or in lower case and capitalised."""
        if not any_case:
            return self.frequencies.prob(word.encode(), excluded=1)
        lower = word.lower()
        capitalised = lower[:1].upper() + lower[1:]
        return self.frequencies.prob(lower.encode()) + self.frequencies.prob(capitalised.encode())

    def is_known(self, word: str) -> bool:
        """Return whether the lists or the references have a word, or the document has it several times."""
        if word not in self.known:
            self.known[word] = self.is_listed(word) or self.is_repeated(word)
        return self.known[word]

    def is_repeated(self, word: str) -> bool:
        """Return whether the document has a word several times."""
        is_repeated_name = word[0].isupper() and self.forms[word] >= CONFIG.min_name_repeats
        return is_repeated_name or self.lower_forms[word.lower()] >= CONFIG.min_repeats

    def is_listed(self, word: str) -> bool:
        """Return whether the lists or the references have a word, in any case."""
        word = word.replace("\u2019", "'")
        forms = [form.encode() for form in {word, word.lower(), word[:1].upper() + word[1:].lower()}]
        return any(self.frequencies.list_frequency(form) or self.frequencies.reference_count(form) for form in forms)

    @property
    def english_probs(self) -> Mapping[bytes, float]:
        """English words."""
        from conservator.experts.word_ngram.lists import load_word_list

        return load_word_list(ENGLISH).probs

    def words(self) -> list[Word]:
        """Return the words of the text; those with an apostrophe that are unknown are divided there."""
        text, words = self.text, list[Word]()
        code = [match.span() for match in CODE.finditer(text)]
        index = 0
        for match in WORD.finditer(text):
            while index < len(code) and code[index][1] <= match.start():
                index += 1
            is_code_span = index < len(code) and code[index][0] < match.end()
            is_prose = not is_code_span and self.is_prose(*match.span())
            parts = [(0, match[0])]
            if self.has_elision and not self.is_known(match[0]) and APOSTROPHE.search(match[0]):
                parts = [(part.start(), part[0]) for part in re.finditer(r"[^'\u2019]+", match[0])]
            for offset, part in parts:
                start = match.start() + offset
                before = text[max(0, match.start() - 12) : match.start()]
                starts = not offset and (match.start() == 0 or SENTENCE_START.search(before) is not None)
                words.append(Word(start, part, starts, self.is_known(part), is_prose))
        return words

    def is_prose(self, start: int, stop: int) -> bool:
        """Return whether a range is a word of running text, and no part of an address, an identifier or a code."""
        text = self.text
        if (start and text[start - 1] not in BEFORE) or (stop < len(text) and text[stop] not in AFTER):
            return False
        if text[stop : stop + 1] == "-" and not text[stop + 1 : stop + 2].isalpha():
            return False
        left, right = token_span(text, start, stop)
        token = text[left:right]
        return not is_name(token) and not is_code(token)

    def suspects(self) -> list[Suspect]:
        """Return the unknown words that may be errors, with their candidates."""
        words = self.words()
        unknown = np.concatenate([[0], np.cumsum([not word.is_known for word in words])])
        suspects = list[Suspect]()
        for index, word in enumerate(words):
            if word.is_known or not word.is_prose or (suspects and suspects[-1].stop > word.start):
                continue
            first, last = max(0, index - CONFIG.window), min(len(words), index + CONFIG.window + 1)
            others = last - first - 1
            if others and (unknown[last] - unknown[first] - 1) / others > CONFIG.max_unknown:
                continue
            is_word = len(word.text) >= CONFIG.min_letters and (word.text.islower() or word.text.istitle())
            if is_word:
                suspects.append(self.examine(word))
        observed = self.letter_log_probs([suspect.text.lower() for suspect in suspects])
        near = self.letter_log_probs([near.text.lower() for suspect in suspects for near in suspect.near])
        values = iter(near)
        return [
            replace(suspect, letters=log_prob, near=[replace(near, letters=next(values)) for near in suspect.near])
            for suspect, log_prob in zip(suspects, observed, strict=True)
        ]

    def letter_log_probs(self, words: list[str]) -> list[float]:
        """Return log p_letters of words."""
        parts = [
            log(self.frequencies.languages[name]) + load_near_words(name).spelling_log_probs(words)
            for name in self.languages
        ]
        listed = np.logaddexp.reduce(parts)
        others = np.array([-CONFIG.other_nats * (len(word) + 1) for word in words])
        return list(np.logaddexp(log(1 - CONFIG.other_share) + listed, log(CONFIG.other_share) + others))

    def examine(self, word: Word) -> Suspect:
        """Find the candidates of an unknown word."""
        key = (word.text, word.is_name)
        if key not in self.cached:
            observed, near = word.text.lower(), dict[str, int]()
            max_edits = 2 if len(observed) > 4 else 1
            indices = [*(load_near_words(name) for name in self.languages), self.document_words]
            for index in indices:
                near |= dict(index.find(observed, max_edits))
            rough, derived = list[tuple[float, float, str]](), 0.0
            for text, distance in near.items():
                prob = self.prob(match_case(text, word.text), any_case=not word.is_name)
                if prob > 0:
                    rough.append((log(prob) - CONFIG.distance_nats * distance, log(prob), text))
                    derived += prob * max(index.derivation_rate(text, observed) for index in indices)
            selected = sorted(rough, reverse=True)[: CONFIG.max_near]
            candidates = [
                Near(match_case(text, word.text), self.errors.log_prob(text, observed), log_prob, near[text])
                for _, log_prob, text in selected
            ]
            candidates += self.compounds(word.text, {near.text for near in candidates})
            candidates += self.divided(word.text)
            english = sum(self.english_probs.get(form.encode(), 0.0) for form in {observed, word.text})
            self.cached[key] = (candidates, derived, self.compound_prob(observed), english)
        return Suspect(word.start, word.stop, word.text, word.is_name, *self.cached[key])

    def compound_prob(self, word: str) -> float:
        """Return the probability of a word as a first part and a word of the lists."""
        indices = [(load_near_words(name), share) for name, share in self.frequencies.languages.items()]
        return sum(
            share * index.first_parts.get(word[:stop], 0.0) * self.prob(word[stop:], any_case=True)
            for stop in range(MIN_FIRST, len(word) - MIN_REST + 1)
            for index, share in indices
        )

    def compounds(self, word: str, known: Collection[str]) -> Iterator[Near]:
        """Yield the compounds and prefixed words near a word, without those that are known."""
        observed, index = word.lower(), load_near_words(self.languages[0])
        texts = set[str]()
        for stop in range(1, len(observed) - MIN_REST + 1):
            first, rest = observed[:stop], observed[stop:]
            if first in index.first_parts and len(rest) > MIN_REST and rest not in index.all:
                texts.update(first + near for near, _ in index.find(rest, 1) if len(near) >= MIN_REST)
            elif rest in index.all and first not in index.first_parts:
                texts.update(near + rest for near, _ in index.near_first_parts.find(first, 1))
        for text in sorted(texts):
            spelled, prob = match_case(text, word), self.compound_prob(text)
            if spelled not in known and prob > 0:
                yield Near(spelled, self.errors.log_prob(text, observed), log(prob), 1, is_compound=True)

    @property
    def document_words(self) -> NearWords:
        """The words that the document repeats or that references have, and no list has."""
        if not hasattr(self, "_document_words"):
            repeated = (form.lower() for form in self.forms if self.is_repeated(form) and not self.is_listed(form))
            references = (form.decode(errors="ignore").lower() for form in self.frequencies.references.ids)
            self._document_words = NearWords([*repeated, *filter(str.isalpha, references)])
        return self._document_words

    def divided(self, word: str) -> Iterator[Near]:
        """Yield the two words that an error may have joined."""
        for middle in range(2, len(word) - 1):
            first, second = word[:middle], word[middle:]
            probs = self.prob(first, any_case=True), self.prob(second, any_case=True)
            if max(probs) >= CONFIG.min_part and min(probs) >= CONFIG.min_joined:
                yield Near(f"{first} {second}", log(CONFIG.joined_prob), log(probs[0]) + log(probs[1]), 0)

    def propose(self) -> Iterator[Proposal]:
        """Yield the candidates of unknown words with their scores."""
        if not self.languages:
            return
        suspects = self.suspects()
        errors, unknown = self.infer_shares(suspects)
        offsets = np.concatenate([[0], np.cumsum([len(character.encode()) for character in self.text])])
        for suspect in suspects:
            if suspect.near:
                scores = {suspect.text.encode(): suspect.score(unknown[suspect.is_name])}
                scores |= {near.text.encode(): near.score(errors) for near in suspect.near}
                yield Proposal(int(offsets[suspect.start]), int(offsets[suspect.stop]), scores)

    def infer_shares(self, suspects: Sequence[Suspect]) -> tuple[float, dict[bool, float]]:
        """Return the share epsilon of errors, and the share omega of unknown words by whether they are names."""
        total = sum(self.forms.values())
        count = Counter(suspect.is_name for suspect in suspects)
        rare = sum(share * rare_share(name) for name, share in self.frequencies.languages.items())
        prior = {False: CONFIG.unknown_ratio * rare, True: CONFIG.unknown_name_share}
        errors, unknown = CONFIG.prior_errors, prior
        for _ in range(CONFIG.iterations):
            expected = {False: 0.0, True: 0.0}
            for suspect in suspects:
                expected[suspect.is_name] += suspect.error_prob(errors, unknown[suspect.is_name])
            weight = CONFIG.prior_error_words
            errors = (sum(expected.values()) + weight * CONFIG.prior_errors) / (total + weight)
            weight = CONFIG.prior_unknown_words
            unknown = {
                name: (count[name] - expected[name] + weight * prior[name]) / (total + weight) for name in (False, True)
            }
        return errors, unknown


def restore_typing(task: PipelineTask) -> Restoration:
    """Correct the typing errors of a document."""
    references = task.references.word_counts
    frequencies = WordFrequencies.of(task.document.data, references)
    names = ("words", *(("references",) if references.total else ()))
    channel = TextChannel("typing", lambda text: TypingModel(text, frequencies).propose(), names)
    return correct_visible_text(task, channel)
