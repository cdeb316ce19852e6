"""Rescoring of lost characters: language models score the characters that the lexicon proposes for each mark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from conservator.arrays import Bools, Floats, Ints
from conservator.decoders import Candidate
from conservator.decoders.rescoring import Slot
from conservator.experts import Meter
from conservator.numerics import runs
from conservator.pipelines.candidate_scores import CandidateRescorer
from conservator.pipelines.decoding import Decoding, add_language_models
from conservator.pipelines.rescoring import precision_by_name
from conservator.vocabularies import CHARACTERS


@dataclass(frozen=True)
class CharacterRescoringConfig:
    """Constants of the rescoring of lost characters."""

    # weight: log-probabilities of language models, where the lexicon has 1 [LOG: lost-characters]
    language_model_weight: float = 2.0
    inverse_temperature: float = 0.35  # exponent: of the posterior with language models [untuned]
    expert_inverse_temperature: float = 0.5  # exponent: of the posterior with masked experts alone [untuned]
    miss_prob: float = 0.01  # probability: the correct text is none of the candidates [untuned]
    confidence_threshold: float = 0.995  # probability: more confident marks are not rescored [untuned]
    max_characters: int = 12  # characters: candidates of one mark [untuned]
    prune_nats: float = 7.0  # nats: candidates this far below the best one are dropped [untuned]
    max_texts: int = 24  # texts: candidates of the marks of one word [untuned]
    max_marks: int = 3  # marks: that are chosen together [untuned]


CONFIG = CharacterRescoringConfig()


Tokens = tuple[int, ...]


class MarkPosterior(NamedTuple):
    """The posterior of the texts of a group of marks, and the number of one mark in them."""

    number: int
    texts: dict[Tokens, float]


class Text(NamedTuple):
    """A candidate text of a group of marks: its character tokens, and its log-score."""

    tokens: Tokens
    score: float


def rescore_characters(
    rescorer: CandidateRescorer, decoding: Decoding, lost: Bools, source: bytes, ranges: Ints, meter: Meter
) -> Decoding:
    """Choose the characters of uncertain marks again.

        score(t) = sum of log p(character) of the lexicon
                   + language_model_weight log q(t and the words after it | text before it)

    Args:
        rescorer: Language models or experts.
        decoding: Decoded characters at n positions, k of them marks.
        lost: (n,) True at marks.
        source: The decoded document in UTF-8.
        ranges: (k, 2) half-open byte range of the character of each mark in ``source``.
        meter: Counts the tokens that are read.
    """
    marks = np.flatnonzero(lost)
    is_uncertain = decoding.text.confidence[marks] < CONFIG.confidence_threshold
    groups = [group for group in group_marks(source, ranges) if is_uncertain[group].any()]
    log_probs = decoding.text.log_probs.double().numpy()
    slots, texts_of = list[Slot](), list[dict[bytes, Tokens]]()
    for group in groups:
        between = [source[ranges[left, 1] : ranges[right, 0]] for left, right in pairwise(group)]
        texts = {join(text.tokens, between): text for text in list_texts(log_probs[group])}
        texts_of.append({data: text.tokens for data, text in texts.items()})
        scores = {data: text.score for data, text in texts.items()}
        slots.append(Slot(int(ranges[group[0], 0]), int(ranges[group[-1], 1]), scores))
    rescored = rescorer.choose(source, slots, meter, CONFIG.language_model_weight)
    exponent = CONFIG.inverse_temperature if rescorer.has_language_models else CONFIG.expert_inverse_temperature
    tokens, confidence = decoding.text.tokens.copy(), decoding.text.confidence.copy()
    weights = np.zeros((len(tokens), len(rescorer.experts)))
    expert_weight = CONFIG.language_model_weight / (1 + CONFIG.language_model_weight)
    posteriors: dict[int, MarkPosterior] = {}
    for number, posterior in rescored.posteriors.items():
        group = groups[number]
        probabilities = calibrate(
            {texts_of[number][data]: prob for data, prob in posterior.candidates.items()}, exponent
        )
        best = next(iter(probabilities))
        for index, mark in enumerate(marks[group].tolist()):
            tokens[mark] = best[index]
            confidence[mark] = sum(value for text, value in probabilities.items() if text[index] == best[index])
            posteriors[mark] = MarkPosterior(index, probabilities)
        weights[marks[group]] = expert_weight / len(rescorer.experts)
    experts, field = add_language_models(decoding, rescorer.experts, weights)
    alternatives = [
        merge_alternatives(range(*run), posteriors, tokens, others)
        for run, others in zip(runs(lost), decoding.alternatives, strict=False)
    ]
    text = replace(decoding.text, tokens=tokens, confidence=confidence)
    precision = decoding.precision | precision_by_name(rescorer.experts)
    return replace(
        decoding, text=text, experts=experts, field=field, alternatives=tuple(alternatives), precision=precision
    )


def merge_alternatives(
    run: range, posteriors: Mapping[int, MarkPosterior], tokens: Ints, others: tuple[Candidate, ...]
) -> tuple[Candidate, ...]:
    """Return the best texts of a run of marks: those that were rescored together, otherwise ``others``.

    The text that was chosen comes first.
    """
    joint = [posteriors[position] for position in run if position in posteriors]
    if len(joint) < len(run) or any(mark.texts is not joint[0].texts for mark in joint):
        return others
    marginals: dict[Tokens, float] = {}
    for text, probability in joint[0].texts.items():
        part = tuple(text[mark.number] for mark in joint)
        marginals[part] = marginals.get(part, 0.0) + probability
    current = tuple(tokens[run.start : run.stop].tolist())
    ordered = sorted(marginals.items(), key=lambda item: (item[0] != current, -item[1]))
    return tuple(Candidate(join(part, [b""] * (len(part) - 1)), prob) for part, prob in ordered[: len(others)])


def group_marks(source: bytes, ranges: Ints) -> list[list[int]]:
    """Group the marks of each word; at most ``max_marks`` are in a group."""
    groups: list[list[int]] = []
    for mark in range(len(ranges)):
        between = source[ranges[mark - 1, 1] : ranges[mark, 0]] if mark else b" "
        if (
            groups
            and len(groups[-1]) < CONFIG.max_marks
            and len(between.split()) == len(between[:1])
            and between.strip() == between
        ):
            groups[-1].append(mark)
        else:
            groups.append([mark])
    return groups


def list_texts(log_probs: Floats) -> list[Text]:
    """Return the most likely texts of k marks with log-probabilities (k, V), the best first."""
    texts = [Text((), 0.0)]
    for row in log_probs:
        likely = np.argsort(-row, kind="stable")[: CONFIG.max_characters].tolist()
        extended = [Text((*text.tokens, token), text.score + float(row[token])) for text in texts for token in likely]
        best = max(text.score for text in extended)
        extended = [text for text in extended if text.score >= best - CONFIG.prune_nats]
        texts = nlargest(CONFIG.max_texts, extended, key=lambda text: text.score)
    return texts


def join(tokens: Sequence[int], between: Sequence[bytes]) -> bytes:
    """Return characters with the texts between them, in UTF-8."""
    characters = [CHARACTERS.decode(np.array([token])) for token in tokens]
    return b"".join([part for pair in zip(characters, [*between, b""], strict=True) for part in pair])


def calibrate(probabilities: Mapping[Tokens, float], exponent: float) -> dict[Tokens, float]:
    """Return calibrated probabilities; they sum to less than 1, because the correct text may be missing."""
    powers = {text: probability**exponent for text, probability in probabilities.items()}
    total = sum(powers.values()) / (1 - CONFIG.miss_prob)
    return {text: power / total for text, power in powers.items()}
