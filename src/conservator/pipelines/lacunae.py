"""Restoration of lacunae: candidates by character n-gram models, which language models and given experts rescore.

A lacuna is restored as a whole or not at all. Lacunae are searched from the first to the last, and again with the most
probable texts of the others, if these are probable enough, as context.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from conservator.arrays import Floats
from conservator.decoders import Candidate
from conservator.decoders.lacunae import Directions, LacunaSearch
from conservator.decoders.rescoring import Slot
from conservator.documents import Pin, encode_fixed, splice
from conservator.experts import OutOfTimeError
from conservator.notation import Lacuna, lacuna_of
from conservator.options import ANY_CHARACTER
from conservator.pipelines.candidate_scores import CandidateRescorer, candidate_rescorer
from conservator.pipelines.corrected_text import build_correction
from conservator.pipelines.lacuna_models import lacuna_models
from conservator.pipelines.rescoring import RESCORING, precision_by_name
from conservator.pipelines.task import PipelineTask
from conservator.pipelines.visible_text.correction import expert_weights
from conservator.results import Edit, Gap, Restoration
from conservator.results.notices import time_limit_notice


@dataclass(frozen=True)
class LacunaConfig:
    """Parameters of the restoration of lacunae."""

    max_characters: int = 24  # characters: longer lacunae are left unfilled [untuned]
    passes: int = 2  # passes: over the lacunae of a document [untuned]
    min_context_prob: float = 0.5  # probability: less probable texts of other lacunae are no context [untuned]
    max_letters: int = 160  # characters: alphabet of the candidates [untuned]
    rescored: int = 64  # candidates: of a lacuna that are rescored [untuned]
    rescored_nats: float = 12.0  # nats: candidates this far below the best one are not rescored [untuned]


CONFIG = LacunaConfig()
SEARCH = LacunaSearch()
UNREADABLE = "\ufffd\ufffc"  # characters of a text that end the context of a lacuna


@dataclass(frozen=True)
class MarkedLacuna:
    """A lacuna of a text.

    Attributes:
        index: Index of its marker, in characters of the text.
        start: The same in bytes of the text.
        stop: End of its marker, in bytes.
        lengths: Number of characters -> its log-probability.
    """

    index: int
    start: int
    stop: int
    lengths: Mapping[int, float]


def restore_lacunae(task: PipelineTask) -> Restoration:
    """Restore the lacunae of a reading text; everything else stays."""
    options, data = task.options, task.document.data
    fixed = [*task.pins, *encode_fixed(task.fixed, len(data))]
    edits = [Edit((start, stop), text, 1.0, is_fixed=True) for start, stop, text in fixed]
    text = data.decode()
    lacunae = find_marked(text, fixed, options.max_gap)
    rescorer, out_of_time = candidate_rescorer(task), None
    scores: list[dict[str, float]] = [{} for _ in lacunae]
    with task.meter.measure() as spent:
        visible = "".join(character if lacuna_of(character) is None else UNREADABLE[1] for character in text)
        models = lacuna_models(visible, task.references, options)
        try:
            with task.meter.stage("decoding"):
                search_all(task, text, lacunae, fixed, models, scores)
            posteriors = [normalise(listed) for listed in scores]
            if rescorer is not None:
                with task.meter.stage("rescoring"):
                    posteriors = rescore(task, rescorer, lacunae, scores, posteriors, fixed)
        except OutOfTimeError as error:
            out_of_time, posteriors = error.stage, [normalise(listed) for listed in scores]
    limit = max(options.min_gap_confidence, options.min_confidence)
    gaps: list[Gap] = []
    confidences: dict[tuple[int, int], Floats] = {}
    for lacuna, posterior in zip(lacunae, posteriors, strict=True):
        if posterior:
            edit = make_edit(data, lacuna, posterior, limit, options.alternatives)
            edits.append(edit)
            confidences[edit.span] = character_confidence(posterior)
    added = () if rescorer is None else rescorer.experts
    mixture = models.forward
    names = (*mixture.names, *(expert.spec.name for expert in added))
    weights = expert_weights(len(mixture.names), len(added), RESCORING.balance)
    weights[: len(mixture.names)] = mixture.weights * weights[: len(mixture.names)].sum()
    result = build_correction(
        task.document,
        edits,
        "",
        names,
        weights,
        cost=spent.cost,
        notices=time_limit_notice(out_of_time, 0, "character"),
        out_of_time=out_of_time,
        precision=precision_by_name(added),
    )
    confidence = result.read_confidence.copy()
    for edit, (start, stop) in zip(result.edits, result.ranges, strict=True):
        if edit.span in confidences:
            confidence[start:stop] = confidences[edit.span]
            gaps.append(Gap(edit.span, (start, stop), 1.0))
    return replace(result, channels=(), lost_unit=ANY_CHARACTER, gaps=tuple(gaps), read_confidence=confidence)


def find_marked(text: str, fixed: Sequence[Pin], max_gap: int) -> list[MarkedLacuna]:
    """Return the lacunae of a text that are not fixed."""
    letters = [len(character.encode()) for character in text if character.isalpha()]
    max_characters = max(1, round(max_gap / (sum(letters) / len(letters) if letters else 1.0)))
    starts = list(accumulate((len(character.encode()) for character in text), initial=0))
    done = {(start, stop) for start, stop, _ in fixed}
    marked = []
    for index, character in enumerate(text):
        lacuna, span = lacuna_of(character), (starts[index], starts[index + 1])
        if lacuna is not None and span not in done:
            marked.append(MarkedLacuna(index, *span, lengths_of(lacuna, max_characters)))
    return marked


def lengths_of(lacuna: Lacuna, max_characters: int) -> dict[int, float]:
    """Return number of characters of a lacuna -> its log-probability; empty if it is too long."""
    limit = min(max_characters, CONFIG.max_characters) if lacuna.characters is None else CONFIG.max_characters
    return lacuna.log_lengths(limit)


def search_all(
    task: PipelineTask,
    text: str,
    lacunae: Sequence[MarkedLacuna],
    fixed: Sequence[Pin],
    models: Directions,
    scores: list[dict[str, float]],
) -> None:
    """Search the candidates of all lacunae, and write candidate -> its log-score of each into ``scores``."""
    alphabet = find_alphabet(text, models)
    shown = list(text)  # the most probable text of each lacuna, where it is context of the others
    starts = {start: number for number, start in enumerate(accumulate((len(c.encode()) for c in text), initial=0))}
    for start, _, data in fixed:
        if lacuna_of(text[starts[start]]) is not None:
            shown[starts[start]] = data.decode(errors="replace")
    contexts: dict[int, tuple[str, str]] = {}  # lacuna -> the text around it at its last search
    passes = range(CONFIG.passes if len(lacunae) > 1 else 1)
    for step in task.meter.steps(range(len(passes) * len(lacunae))):
        number = step % len(lacunae)
        lacuna = lacunae[number]
        if not lacuna.lengths:
            continue
        left, right = context_before(shown, lacuna.index), context_after(shown, lacuna.index + 1)
        if contexts.get(number) == (left, right):
            continue
        contexts[number] = left, right
        scores[number] = SEARCH.candidates(models, alphabet, left, right, lacuna.lengths)
        posterior = normalise(scores[number])
        best = next(iter(posterior))
        is_probable = posterior[best] >= CONFIG.min_context_prob
        shown[lacuna.index] = best if is_probable else text[lacuna.index]


def context_before(shown: Sequence[str], index: int) -> str:
    """Return the text before a lacuna, up to the nearest unknown text."""
    parts, size = list[str](), 0
    while index > 0 and size < SEARCH.before_characters:
        index -= 1
        if is_unknown(shown[index]):
            return "".join(reversed(parts))
        parts.append(shown[index])
        size += len(shown[index])
    return ("\n" if index == 0 else "") + "".join(reversed(parts))


def context_after(shown: Sequence[str], index: int) -> str:
    """Return the text after a lacuna, up to the nearest unknown text."""
    text = ""
    while index < len(shown) and len(text) < SEARCH.before_characters:
        if is_unknown(shown[index]):
            return text
        text += shown[index]
        index += 1
    return text + ("\n" if index == len(shown) and not text.endswith("\n") else "")


def is_unknown(shown: str) -> bool:
    """Return whether a piece of a text is unknown: a lacuna, or a mark."""
    return shown in UNREADABLE or (len(shown) == 1 and lacuna_of(shown) is not None)


def find_alphabet(text: str, models: Directions) -> str:
    """Return the characters of candidates: letters and blanks of the text and of the models."""
    restorable = filter(is_restorable, dict.fromkeys([*text, *models.letters]))
    return "".join(list(restorable)[: CONFIG.max_letters]) or "aeiou "


def is_restorable(character: str) -> bool:
    """Return whether lost text may have a character: a letter, a mark of a letter, a blank or an interpunct."""
    return character in " \u00b7\u2019" or (lacuna_of(character) is None and (character.isalpha()))


def normalise(scores: Mapping[str, float]) -> dict[str, float]:
    """Return the probabilities of candidates, the most probable first."""
    if not scores:
        return {}
    texts = sorted(scores, key=lambda text: (-scores[text], text))
    values = np.array([scores[text] for text in texts])
    return dict(zip(texts, np.exp(values - np.logaddexp.reduce(values)).tolist(), strict=True))


def rescore(
    task: PipelineTask,
    rescorer: CandidateRescorer,
    lacunae: Sequence[MarkedLacuna],
    scores: Sequence[Mapping[str, float]],
    posteriors: Sequence[dict[str, float]],
    fixed: Sequence[Pin],
) -> list[dict[str, float]]:
    """Return the posteriors after language models and given experts have scored the best candidates."""
    pieces = [(start, stop, data, -1) for start, stop, data in fixed]
    for number, (lacuna, posterior) in enumerate(zip(lacunae, posteriors, strict=True)):
        if posterior:
            pieces.append((lacuna.start, lacuna.stop, next(iter(posterior)).encode(), number))
    pieces.sort(key=lambda piece: piece[:2])
    draft = splice(task.document.data, [piece[:3] for piece in pieces])
    slots, numbers, shift = [], [], 0
    for start, stop, data, number in pieces:
        if number >= 0:
            listed = list(posteriors[number])[: CONFIG.rescored]
            limit = scores[number][listed[0]] - CONFIG.rescored_nats
            limited = {text.encode(): scores[number][text] for text in listed if scores[number][text] >= limit}
            slots.append(Slot(start + shift, start + shift + len(data), limited))
            numbers.append(number)
        shift += len(data) - (stop - start)
    uncertain = [index for index, slot in enumerate(slots) if len(slot.candidates) > 1]
    rescored = rescorer.choose(draft, [slots[index] for index in uncertain], task.meter)
    result = list(posteriors)
    for index, rescored_slot in rescored.posteriors.items():
        number = numbers[uncertain[index]]
        ordered = sorted(rescored_slot.candidates.items(), key=lambda item: -item[1])
        result[number] = {text.decode(): probability for text, probability in ordered}
    return result


def make_edit(data: bytes, lacuna: MarkedLacuna, posterior: Mapping[str, float], limit: float, count: int) -> Edit:
    """Return the edit of a lacuna; its marker stays if the best candidate has a probability below ``limit``."""
    best, probability = next(iter(posterior.items()))
    listed = [Candidate(text.encode(), value) for text, value in list(posterior.items())[:count]]
    text, span = best.encode(), (lacuna.start, lacuna.stop)
    marker = {index: data[slice(*span)] if not index else b"" for index in range(len(text))}
    return Edit(span, text, probability, alternatives=tuple(listed), placeholders=marker if probability < limit else {})


def character_confidence(posterior: Mapping[str, float]) -> Floats:
    """Return (n,) the probability of each byte of the best candidate: that of its character at its place."""
    best = next(iter(posterior))
    values: list[float] = []
    for index, character in enumerate(best):
        agreeing = (value for text, value in posterior.items() if len(text) == len(best) and text[index] == character)
        values += [min(1.0, sum(agreeing))] * len(character.encode())
    return np.array(values)
