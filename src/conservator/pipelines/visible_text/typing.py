"""The channel ``typing``: typing and spelling errors.

An unknown word y is a correct word that the word lists do not have, or an error of a known word v. The score of v
(``typing_scores.py``) combines the error model p(y | v) (``TypingErrors``), the frequency p(v) of the word
(``WordFrequencies``) and a letter model of the word lists (``NearWords``). The score of y combines its letters, words
with the same stem, its parts if it is a compound, and English words. The shares of errors and of unknown correct words
are inferred from the document. Words that the lists or the references have, or that the document repeats, stay.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from math import exp, log

import numpy as np

from conservator.channel_names import TYPING
from conservator.channels.typing_errors import WORD, load_typing_errors, match_case
from conservator.experts.word_ngram import WordFrequencies
from conservator.experts.word_ngram.lists import load_word_list
from conservator.experts.word_ngram.neighbours import MIN_FIRST, MIN_REST, NearWords, load_near_words, rare_share
from conservator.pipelines.task import PipelineTask
from conservator.pipelines.visible_text.correction import Proposal, TextChannel, correct_visible_text
from conservator.pipelines.visible_text.typing_scores import CONFIG, Near, Suspect, infer_shares
from conservator.pipelines.visible_text.typing_words import Word, find_words
from conservator.results import Restoration

ELIDING = frozenset(("ca", "en", "fr", "it"))  # languages in which an apostrophe joins two words
SYLLABIC = frozenset(("vi",))  # languages whose words are syllables: most errors are other words
ENGLISH = "en"  # language whose words occur in texts of all languages


class TypingModel:
    """The words of one document."""

    def __init__(self, text: str, frequencies: WordFrequencies) -> None:
        """Store the text and its word frequencies."""
        self.text, self.frequencies = text, frequencies
        self.languages = sorted(frequencies.languages, key=lambda name: -frequencies.languages[name])
        self.english = load_word_list(ENGLISH).probs
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

    def suspects(self) -> list[Suspect]:
        """Return the unknown words that may be errors, with their candidates."""
        words = find_words(self.text, self.is_known, has_elision=self.has_elision)
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
            english = sum(self.english.get(form.encode(), 0.0) for form in {observed, word.text})
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

    @cached_property
    def document_words(self) -> NearWords:
        """The words that the document repeats or that references have, and no list has."""
        repeated = (form.lower() for form in self.forms if self.is_repeated(form) and not self.is_listed(form))
        references = (form.decode(errors="ignore").lower() for form in self.frequencies.references.ids)
        return NearWords([*repeated, *filter(str.isalpha, references)])

    def divided(self, word: str) -> Iterator[Near]:
        """Yield the two words that an error may have joined."""
        for middle in range(2, len(word) - 1):
            first, second = word[:middle], word[middle:]
            probs = self.prob(first, any_case=True), self.prob(second, any_case=True)
            if max(probs) >= CONFIG.min_part and min(probs) >= CONFIG.min_joined:
                yield Near(f"{first} {second}", log(CONFIG.joined_prob), log(probs[0]) + log(probs[1]), 0)

    def knows_language(self) -> bool:
        """Return whether the word lists have the language of the text."""
        if not self.languages or self.languages[0] in SYLLABIC:
            return False
        words = [word for word in self.lower_forms if len(word) >= CONFIG.min_letters]
        unlisted = sum(not self.is_listed(word) for word in words)
        return unlisted <= CONFIG.max_unlisted * (len(words) + CONFIG.unlisted_words)

    def propose(self) -> Iterator[Proposal]:
        """Yield the candidates of unknown words with their scores."""
        if not self.knows_language():
            return
        suspects = self.suspects()
        rare = sum(share * rare_share(name) for name, share in self.frequencies.languages.items())
        errors, unknown = infer_shares(suspects, sum(self.forms.values()), rare)
        offsets = np.concatenate([[0], np.cumsum([len(character.encode()) for character in self.text])])
        for suspect in suspects:
            if suspect.near:
                scores = {suspect.text.encode(): suspect.score(unknown[suspect.is_name])}
                scores |= {
                    near.text.encode(): near.score(errors) + CONFIG.bonus
                    for near in suspect.near
                    if near.text != suspect.text
                }
                yield Proposal(int(offsets[suspect.start]), int(offsets[suspect.stop]), scores)


def without_bonus(probability: float) -> float:
    """Return the probability of a correction without the bonus that its score has."""
    return probability / (probability + (1 - probability) * exp(CONFIG.bonus))


def restore_typing(task: PipelineTask) -> Restoration:
    """Correct the typing errors of a document."""
    references = task.references.word_counts
    frequencies = WordFrequencies.of(task.document.data, references)
    names = ("words", *(("references",) if references.total else ()))
    channel = TextChannel(TYPING, lambda text: TypingModel(text, frequencies).propose(), names, calibrate=without_bonus)
    return correct_visible_text(task, channel)
