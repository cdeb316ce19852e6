"""Correction of visible text: a channel proposes candidates for spans of the text, and the models choose among them.

The score of a candidate t of a span with the observed text y is

    score(t) = log p(y | t) + log p(t)  +  weight * log q(t | text around it)

The first two terms are those of the channel and its prior. q are language models (``effort="best"``) or experts that
the user selects. A candidate is an edit if it is the most probable one, and if its log-odds against the observed text
and its probability reach the limits of the options.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from conservator.arrays import Floats
from conservator.decoders import Candidate
from conservator.decoders.rescoring import Slot, choose_listed
from conservator.documents import encode_fixed
from conservator.documents.damaged import stray_advice
from conservator.documents.encoding import INVALID_UTF8
from conservator.errors import Advice, ConservatorError
from conservator.experts import OutOfTimeError
from conservator.pipelines.candidate_scores import candidate_rescorer
from conservator.pipelines.corrected_text import build_correction
from conservator.pipelines.rescoring import precision_by_name
from conservator.pipelines.task import PipelineTask
from conservator.results import Edit, Notice, Restoration
from conservator.results.notices import time_limit_notice

RESCORED_NATS = 12.0  # nats: candidates this far below the best one are not rescored [untuned]


@dataclass(frozen=True)
class Proposal:
    """Candidates for a span of the text.

    Attributes:
        start: First byte of the span.
        stop: End of the span, in bytes.
        scores: Candidate in UTF-8 -> its log-score; the first one is the observed text.
        fills_marker: Whether the observed text has a marker, so that the probabilities are not calibrated.
    """

    start: int
    stop: int
    scores: Mapping[bytes, float]
    fills_marker: bool = False


Propose = Callable[[str], Iterable[Proposal]]  # from the text of a document; proposals may overlap protected text


@dataclass(frozen=True)
class TextChannel:
    """How a channel corrects visible text.

    Attributes:
        name: Name of the channel.
        propose: Proposes candidates.
        experts: Names of the models behind the scores.
        weight: Weight of language models, where the scores of the candidates have 1.
        calibrate: From the posterior probability of an edit to the probability that it is correct.
        caution: Factor of the option ``min_log_odds``. It is small if most of the text is damaged, because the observed
            text is then no better than the most probable one.
        notices: Statements about the result.
        errors: Error handler with which the document is decoded, as of ``bytes.decode``.
        changes_marks: Whether marks may change.
        changes_gaps: Whether gap markers may change.
    """

    name: str
    propose: Propose
    experts: tuple[str, ...]
    weight: float = 1.0
    calibrate: Callable[[float], float] = float
    caution: float = 1.0
    notices: tuple[Notice, ...] = ()
    errors: str = "strict"
    changes_marks: bool = False
    changes_gaps: bool = False


def correct_visible_text(task: PipelineTask, channel: TextChannel) -> Restoration:
    """Correct the visible text of a document; markers, pins and fixed texts stay."""
    document, options = task.document, task.options
    text = decode(document.data, channel.errors)
    fixed = [*task.pins, *encode_fixed(task.fixed, len(document.data))]
    markers = [] if channel.changes_marks else [options.mark]
    markers += [] if channel.changes_gaps else options.gap_markers
    protected = sorted([*((start, stop) for start, stop, _ in fixed), *marker_ranges(document.data, markers)])
    edits = [Edit((start, stop), data, 1.0, is_fixed=True) for start, stop, data in fixed]
    out_of_time, rescorer = None, None
    with task.meter.measure() as spent:
        with task.meter.stage("correcting"):
            proposals = select_disjoint(channel.propose(text), protected)
            rescorer = candidate_rescorer(task)
        slots = [Slot(proposal.start, proposal.stop, prune(proposal.scores)) for proposal in proposals]
        posteriors = choose_listed(document.data, slots).posteriors
        if rescorer is not None:
            uncertain = [index for index, slot in enumerate(slots) if is_uncertain(slot)]
            try:
                with task.meter.stage("rescoring"):
                    rescored = rescorer.choose(
                        document.data, [slots[index] for index in uncertain], task.meter, channel.weight
                    ).posteriors
                posteriors |= {uncertain[number]: posterior for number, posterior in rescored.items()}
            except OutOfTimeError as error:
                out_of_time = error.stage
        for index, posterior in posteriors.items():
            calibrate = float if proposals[index].fills_marker else channel.calibrate
            edit = make_edit(document.data, slots[index], posterior.candidates, calibrate, options.alternatives)
            if edit is not None and is_accepted(edit, channel.caution * options.min_log_odds, options.min_confidence):
                edits.append(edit)
    added = () if rescorer is None else rescorer.experts
    names = (*channel.experts, *(expert.spec.name for expert in added))
    return build_correction(
        document,
        edits,
        channel.name,
        names,
        expert_weights(len(channel.experts), len(added), channel.weight),
        cost=spent.cost,
        notices=(*channel.notices, *time_limit_notice(out_of_time, 0, "correction")),
        out_of_time=out_of_time,
        precision=precision_by_name(added),
    )


def decode(data: bytes, errors: str = "strict") -> str:
    """Return a document as text.

    Args:
        data: The document.
        errors: Error handler, as of ``bytes.decode``.

    Raises:
        ConservatorError: the document has invalid bytes.
    """
    try:
        return data.decode(errors=errors)
    except UnicodeDecodeError as error:
        invalid = "".join(INVALID_UTF8.findall(data.decode(errors="surrogateescape")))
        raise ConservatorError(
            f"the correction of visible text needs valid UTF-8, but byte {error.start} of the document is invalid",
            Advice("lost", "invalid", "counts the invalid bytes as lost"),
            *stray_advice(invalid.encode(errors="surrogateescape"), "invalid bytes"),
        ) from error


def marker_ranges(data: bytes, markers: Iterable[str]) -> list[tuple[int, int]]:
    """Return the byte ranges of marks and gap markers."""
    ranges: list[tuple[int, int]] = []
    for marker in markers:
        ranges += [match.span() for match in re.finditer(re.escape(marker.encode()), data)]
    return ranges


def select_disjoint(proposals: Iterable[Proposal], protected: Sequence[tuple[int, int]]) -> list[Proposal]:
    """Return the proposals, in order, that overlap neither protected ranges nor proposals before them."""
    selected: list[Proposal] = []
    index, done = 0, 0
    for proposal in sorted(proposals, key=lambda proposal: (proposal.start, proposal.stop)):
        while index < len(protected) and protected[index][1] <= proposal.start:
            index += 1
        is_protected = index < len(protected) and protected[index][0] < max(proposal.stop, proposal.start + 1)
        if proposal.start >= done and not is_protected:
            selected.append(proposal)
            done = proposal.stop
    return selected


def prune(scores: Mapping[bytes, float]) -> Mapping[bytes, float]:
    """Return the candidates near the best one; the first one, the observed text, always stays."""
    limit = max(scores.values()) - RESCORED_NATS
    return {data: score for number, (data, score) in enumerate(scores.items()) if not number or score >= limit}


def is_uncertain(slot: Slot) -> bool:
    """Return whether several candidates are near the best one."""
    scores = sorted(slot.candidates.values())
    return len(scores) > 1 and scores[-1] - scores[-2] <= RESCORED_NATS


def make_edit(
    data: bytes, slot: Slot, posterior: Mapping[bytes, float], calibrate: Callable[[float], float], alternatives: int
) -> Edit | None:
    """Return the most probable candidate of a slot as an edit; None if it is the observed text."""
    observed = data[slot.start : slot.stop]
    ordered = sorted(posterior.items(), key=lambda item: -item[1])
    best, probability = ordered[0]
    if best == observed:
        return None
    tiny = float(np.finfo(np.float64).tiny)
    log_odds = log(max(probability, tiny)) - log(max(posterior.get(observed, 0.0), tiny))
    calibrated = calibrate(probability)
    rest = (1 - calibrated) / max(1 - probability, tiny)
    listed = [Candidate(best, calibrated), *(Candidate(text, rest * value) for text, value in ordered[1:])]
    return Edit((slot.start, slot.stop), best, calibrated, log_odds, alternatives=tuple(listed[:alternatives]))


def is_accepted(edit: Edit, min_log_odds: float, min_confidence: float) -> bool:
    """Return whether an edit reaches the limits."""
    return (edit.log_odds is None or edit.log_odds >= min_log_odds) and edit.probability >= min_confidence


def expert_weights(count: int, added: int, weight: float) -> Floats:
    """Return the weight of each of ``count`` models of a channel and ``added`` language models."""
    weights = np.concatenate([np.full(count, 1 / max(1, count)), np.full(added, weight / max(1, added))])
    normalised: Floats = weights / max(weights.sum(), 1e-300)
    return normalised
