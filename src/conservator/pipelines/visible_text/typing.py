"""The channel ``typing``: typing and spelling errors.

An unknown word y is a correct word that the word lists do not have, or an error of a known word v:

    p(y) = omega p_letters(y) + epsilon sum_v p(y | v) p(v)

p_letters is the letter model of the word lists, p(y | v) the error model (``TypingErrors``), and p(v) the frequency of
the word (``WordFrequencies``). The shares omega of unknown correct words and epsilon of errors are inferred from the
document by expectation maximisation.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import exp, inf, log

import numpy as np

from conservator.channels.typing_errors import WORD, load_typing_errors, match_case
from conservator.experts.word_ngram import WordFrequencies
from conservator.experts.word_ngram.neighbours import NearWords, load_near_words
from conservator.pipelines.correction.protection import is_code, is_name, token_span
from conservator.pipelines.task import PipelineTask
from conservator.pipelines.visible_text.correction import Proposal, TextChannel, correct_visible_text
from conservator.results import Restoration

CODE = re.compile(  # text that is not prose: fenced and inline code, tags, commands, entities
    r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)|`[^`\n]+`|<[^<>\n]+>|\\[A-Za-z]+|&\w+;", re.MULTILINE | re.DOTALL
)
BEFORE = frozenset(" \t\n\r\"'([\u2018\u2019\u201c\u201e\u00ab\u2013\u2014-/*_\u00bf\u00a1")  # characters before a word of prose
AFTER = frozenset(" \t\n\r\"').,;:!?]\u2018\u2019\u201c\u201d\u00bb\u2026\u2013\u2014-/*_")  # characters after a word of prose
SENTENCE_START = re.compile(r"(?:^|[.!?:\n])[\s\"'(\u201c\u201e\u00ab\u2018*_#>-]*$")
ENGLISH = "en"  # language whose words occur in texts of all languages


@dataclass(frozen=True)
class TypingConfig:
    """Parameters of the correction of typing errors."""

    min_letters: int = 3  # letters: shorter unknown words are not corrected
    min_repeats: int = 3  # occurrences: a form that a document has as often counts as intended
    min_name_repeats: int = 2  # occurrences: the same of a capitalised form
    max_near: int = 25  # words: candidates of an unknown word whose error model is computed
    distance_nats: float = 6.0  # nats: of an edit, for the selection of these candidates
    prior_errors: float = 0.01  # ratio: prior mean of epsilon
    prior_unknown: float = 0.1  # ratio: prior mean of omega
    prior_words: float = 20.0  # words: weight of the prior means
    iterations: int = 8  # iterations of expectation maximisation
    other_share: float = 0.1  # probability: an unknown correct word does not follow the letter model
    other_nats: float = 3.0  # nats: surprisal of a letter of such a word
    scale: float = 1.0  # ratio: of the log-odds of an error to those of the model
    shift: float = 0.0  # nats: added to the log-odds of an error
    window: int = 10  # words: on either side of a word, whose words show whether the lists know the text
    max_unknown: float = 0.5  # ratio: of unknown words in the window; with more, a word is not corrected
    min_part: float = 1e-4  # probability: of the more frequent one of two words that an error joins
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


@dataclass
class Suspect:
    """An unknown word, or two words of which one is unknown, and their candidates.

    Attributes:
        start: First character.
        stop: End.
        text: The observed text.
        is_name: Whether it is capitalised within a sentence.
        log_prob: log p_letters of the observed text.
        candidates: Candidate -> log p(y | v) + log p(v).
    """

    start: int
    stop: int
    text: str
    is_name: bool
    log_prob: float = 0.0
    candidates: dict[str, float] = field(default_factory=dict)

    @property
    def log_error(self) -> float:
        """Log of the sum over v of p(y | v) p(v)."""
        return float(np.logaddexp.reduce(list(self.candidates.values()))) if self.candidates else -inf


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
        self.errors = load_typing_errors()
        self.known: dict[str, bool] = {}
        self.cached: dict[tuple[str, bool], dict[str, float]] = {}

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
        return any(
            self.frequencies.list_frequency(form) or self.frequencies.reference_count(form) for form in forms
        ) or any(form in self.english_probs for form in forms)

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
            if not self.is_known(match[0]) and ("'" in match[0] or "\u2019" in match[0]):
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
            suspect = Suspect(word.start, word.stop, word.text, word.is_name)
            if is_word:
                suspect.candidates = self.candidates(word)
                suspects.append(suspect)
        for suspect, log_prob in zip(suspects, self.letter_log_probs([s.text.lower() for s in suspects]), strict=True):
            suspect.log_prob = log_prob
        return suspects

    def letter_log_probs(self, words: list[str]) -> list[float]:
        """Return log p_letters of words."""
        parts = [
            log(self.frequencies.languages[name]) + load_near_words(name).spelling_log_probs(words)
            for name in self.languages
        ]
        listed = np.logaddexp.reduce(parts)
        others = np.array([-CONFIG.other_nats * (len(word) + 1) for word in words])
        return list(np.logaddexp(log(1 - CONFIG.other_share) + listed, log(CONFIG.other_share) + others))

    def candidates(self, word: Word) -> dict[str, float]:
        """Return candidate -> log p(y | v) + log p(v) of an unknown word."""
        key = (word.text, word.is_name)
        if key not in self.cached:
            self.cached[key] = self.find_candidates(word)
        return self.cached[key]

    def find_candidates(self, word: Word) -> dict[str, float]:
        """Return candidate -> log p(y | v) + log p(v) of an unknown word."""
        observed = word.text.lower()
        near: dict[str, int] = {}
        max_edits = 2 if len(observed) > 4 else 1
        for index in (*(load_near_words(name) for name in self.languages), self.document_words):
            near |= dict(index.find(observed, max_edits))
        rough = list[tuple[float, float, str]]()
        for text, distance in near.items():
            spelled = match_case(text, word.text)
            prob = self.prob(spelled, any_case=not word.is_name)
            if prob > 0:
                rough.append((log(prob) - CONFIG.distance_nats * distance, log(prob), text))
        selected = sorted(rough, reverse=True)[: CONFIG.max_near]
        scores = {match_case(text, word.text): prob + self.errors.log_prob(text, observed) for _, prob, text in selected}
        scores |= self.divided(word.text)
        return scores

    @property
    def document_words(self) -> NearWords:
        """The words that the document repeats or that references have, and no list has."""
        if not hasattr(self, "_document_words"):
            repeated = (form.lower() for form in self.forms if self.is_repeated(form) and not self.is_listed(form))
            references = (form.decode(errors="ignore").lower() for form in self.frequencies.references.ids)
            self._document_words = NearWords([*repeated, *filter(str.isalpha, references)])
        return self._document_words

    def divided(self, word: str) -> dict[str, float]:
        """Return the two words that an error may have joined, with their scores."""
        scores: dict[str, float] = {}
        for middle in range(2, len(word) - 1):
            first, second = word[:middle], word[middle:]
            probs = self.prob(first, any_case=True), self.prob(second, any_case=True)
            if max(probs) >= CONFIG.min_part and min(probs) >= CONFIG.min_joined:
                scores[f"{first} {second}"] = log(max(self.errors.joined, 0.01)) + log(probs[0]) + log(probs[1])
        return scores

    def propose(self) -> Iterator[Proposal]:
        """Yield the candidates of unknown words with their scores."""
        if not self.languages:
            return
        suspects = self.suspects()
        errors, unknown = self.infer_shares(suspects)
        offsets = np.concatenate([[0], np.cumsum([len(character.encode()) for character in self.text])])
        for suspect in suspects:
            if suspect.candidates:
                prior = log(errors) - log(unknown[suspect.is_name])
                scores = {suspect.text.encode(): 0.0}
                for text, score in suspect.candidates.items():
                    scores[text.encode()] = CONFIG.scale * (score - suspect.log_prob + prior) + CONFIG.shift
                yield Proposal(int(offsets[suspect.start]), int(offsets[suspect.stop]), scores)

    def infer_shares(self, suspects: Iterable[Suspect]) -> tuple[float, dict[bool, float]]:
        """Return the share epsilon of errors, and the share omega of unknown words by whether they are names."""
        suspects = list(suspects)
        total = max(1, sum(self.forms.values()))
        count = Counter(suspect.is_name for suspect in suspects)
        errors, unknown = CONFIG.prior_errors, dict.fromkeys((False, True), CONFIG.prior_unknown)
        odds = [min(500.0, suspect.log_error - suspect.log_prob) for suspect in suspects]
        for _ in range(CONFIG.iterations):
            expected = {False: 0.0, True: 0.0}
            for suspect, value in zip(suspects, odds, strict=True):
                ratio = exp(CONFIG.scale * (value + log(errors) - log(unknown[suspect.is_name])) + CONFIG.shift)
                expected[suspect.is_name] += ratio / (1 + ratio)
            weight = CONFIG.prior_words
            errors = (sum(expected.values()) + weight * CONFIG.prior_errors) / (total + weight)
            unknown = {
                name: (count[name] - expected[name] + weight * CONFIG.prior_unknown) / (total + weight)
                for name in (False, True)
            }
        return errors, unknown


def restore_typing(task: PipelineTask) -> Restoration:
    """Correct the typing errors of a document."""
    references = task.references.word_counts
    frequencies = WordFrequencies.of(task.document.data, references)
    names = ("words", *(("references",) if references.total else ()))
    channel = TextChannel("typing", lambda text: TypingModel(text, frequencies).propose(), names)
    return correct_visible_text(task, channel)
