"""Rescoring of listed candidates by the given masked experts, which restore text of known length.

Candidates of a slot may differ in length. Each is scored by the chain rule in the text around it:

    score(t) = sum_k log p(t_k | text before and after the slot, t_1 ... t_(k-1)),   further bytes of t are hidden

Bytes that all candidates of a slot share at their beginning or end are visible text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
import torch

from conservator.channels import MaskChannel, Observation
from conservator.decoders.rescoring import Rescored, Slot, choose_listed
from conservator.documents import DamagedDocument
from conservator.experts import PAD, Context, DocumentExpert, Expert, Meter, Team
from conservator.experts.causal import CausalExpert
from conservator.field import Inferred, SubsampledBayes
from conservator.pipelines.decoding import observe
from conservator.pipelines.rescoring import RESCORING, Rescorer
from conservator.pipelines.task import PipelineTask
from conservator.vocabularies import BYTES

CONTEXT_BYTES = 64  # bytes: visible text on either side of a slot [untuned]


class CandidateRescorer(Protocol):
    """Chooses the texts of slots with listed candidates."""

    @property
    def experts(self) -> Sequence[Expert | CausalExpert]:
        """The experts that score candidates."""

    @property
    def has_language_models(self) -> bool:
        """Whether some of them are language models."""

    def choose(self, text: bytes, slots: Sequence[Slot], meter: Meter, weight: float = 1.0) -> Rescored:
        """Choose the texts of slots.

        Args:
            text: Valid UTF-8, with the best guess so far in the slots.
            slots: Slots, in order and disjoint.
            meter: Counts network evaluations and tokens.
            weight: Weight of the language models relative to the log-scores of the candidates.
        """


def candidate_rescorer(task: PipelineTask) -> CandidateRescorer | None:
    """Return the rescorer of a pipeline with listed candidates.

    Language models score them if the effort is ``best``, masked experts if the user gave any.
    """
    rescorer = task.models.rescorer(task.options)
    return rescorer if task.models.select else ExpertRescorer(task, rescorer)


class Job(NamedTuple):
    """A byte of a candidate that is to be predicted.

    Attributes:
        slot: Index of the slot.
        before: Bytes of the candidate before it.
        length: Number of bytes of the candidate.
    """

    slot: int
    before: bytes
    length: int


@dataclass(frozen=True)
class ExpertRescorer:
    """The experts that the user gave, and language models or None."""

    task: PipelineTask
    rescorer: Rescorer | None

    @property
    def experts(self) -> Sequence[Expert | CausalExpert]:
        """The experts that score candidates."""
        return [*self.task.models.frozen_experts, *(self.rescorer.experts if self.rescorer else ())]

    @property
    def has_language_models(self) -> bool:
        """Whether some of them are language models."""
        return self.rescorer is not None

    def choose(self, text: bytes, slots: Sequence[Slot], meter: Meter, weight: float = 1.0) -> Rescored:
        """Choose the texts of slots; the masked experts have the weight ``weight * RESCORING.balance``."""
        if not slots:
            return choose_listed(text, slots)
        expert_weight = weight * RESCORING.balance
        scored = [
            replace(
                slot, scores={data: score + expert_weight * scores[data] for data, score in slot.candidates.items()}
            )
            for slot, scores in zip(slots, self.score(text, slots, meter), strict=True)
        ]
        if self.rescorer is None:
            return choose_listed(text, scored)
        return self.rescorer.choose(text, scored, meter, weight)

    def score(self, text: bytes, slots: Sequence[Slot], meter: Meter) -> list[dict[bytes, float]]:
        """Return candidate -> its log-probability under the composition of the experts, for each slot."""
        tokens = np.frombuffer(text, dtype=np.uint8).astype(np.int16)
        for slot in slots:
            tokens[slot.start : slot.stop] = BYTES.mask
        channel = MaskChannel(BYTES.size, 0.5)
        whole = channel.observe(torch.from_numpy(tokens)[None])
        experts = [
            expert.condition(whole) if isinstance(expert, DocumentExpert) else expert
            for expert in sorted(self.task.models.experts, key=lambda expert: expert.spec.is_gated)
        ]
        team = Team(experts, meter)
        radius = self.task.options.evidence_radius
        observation = observe(DamagedDocument.of_tokens(tokens), channel, team, radius, everywhere=False)
        engine = self.task.models.engine or SubsampledBayes(evidence_radius=radius)
        inferred = engine(team, observation, self.task.generator)
        return score_candidates(team, observation, inferred, text, slots)


def score_candidates(
    team: Team, observation: Observation, inferred: Inferred, text: bytes, slots: Sequence[Slot]
) -> list[dict[bytes, float]]:
    """Return candidate -> its log-probability under a composition, for each slot.

    The candidates of a slot are not scored, and get 0, if one of them is longer than half the context of the experts.

    Args:
        team: Experts over bytes.
        observation: The text with hidden slots, or an excerpt of it.
        inferred: Its composition.
        text: The text, with the best guess so far in the slots.
        slots: Slots, in order and disjoint.
    """
    narrowed = [narrow(slot) for slot in slots]
    is_scored = [max(map(len, slot.candidates)) <= team.context // 2 for slot in narrowed]
    jobs = dict.fromkeys(
        Job(index, data[:size], len(data))
        for index, slot in enumerate(narrowed)
        for data in slot.candidates
        for size in range(len(data))
        if is_scored[index]
    )
    log_probs: dict[Job, torch.Tensor] = {}
    window = min(2 * CONTEXT_BYTES + max((job.length for job in jobs), default=0), team.context)
    batch_size, pending = team.max_batch_size(window), list(jobs)
    positions = None if observation.excerpt is None else observation.excerpt.positions
    for begin in team.meter.steps(range(0, len(pending), batch_size)):
        batch = pending[begin : begin + batch_size]
        rows, columns, starts, slot_positions = torch.full((len(batch), window), PAD), [], [], []
        for row, job in enumerate(batch):
            slot = narrowed[job.slot]
            hidden = [BYTES.mask] * (job.length - len(job.before))
            left = min(slot.start, CONTEXT_BYTES, max(0, (window - job.length) // 2))
            data = [*text[slot.start - left : slot.start], *job.before, *hidden]
            data = [*data, *text[slot.stop : slot.stop + CONTEXT_BYTES]][:window]
            rows[row, : len(data)] = torch.tensor(data)
            columns.append(left + len(job.before))
            starts.append(slot.start - left)
            slot_positions.append(slot.start)
        at, hidden_bytes = (torch.arange(len(batch)), torch.tensor(columns)), rows == BYTES.mask
        context = Context(rows.masked_fill(hidden_bytes, 0), hidden_bytes, start=torch.tensor(starts))
        at_slot = (
            torch.tensor(slot_positions)
            if positions is None
            else torch.searchsorted(positions, torch.tensor(slot_positions))
        )
        at_slot = at_slot.clamp(max=observation.tokens.shape[1] - 1)
        active = inferred.composition.active_experts()[0, at_slot]
        predictions = team.predict(context, at, active=active).float()
        mixed = inferred.composition.log_probs(predictions, torch.zeros(len(batch), dtype=torch.long), at_slot)
        log_probs.update(zip(batch, mixed, strict=True))
    return [
        {
            data: sum(float(log_probs[Job(index, inner[:size], len(inner))][inner[size]]) for size in range(len(inner)))
            for data, inner in zip(slot.candidates, narrowed[index].candidates, strict=True)
        }
        if is_scored[index]
        else dict.fromkeys(slot.candidates, 0.0)
        for index, slot in enumerate(slots)
    ]


def narrow(slot: Slot) -> Slot:
    """Return a slot without the bytes that its candidates share at the beginning and the end, in the same order."""
    start = shared_length(list(slot.candidates))
    stop = shared_length([data[start:][::-1] for data in slot.candidates])
    inner = {data[start : len(data) - stop]: score for data, score in slot.candidates.items()}
    return Slot(slot.start + start, slot.stop - stop, inner)


def shared_length(texts: Sequence[bytes]) -> int:
    """Return the number of bytes that all texts share at the beginning."""
    pairs = enumerate(zip(min(texts), max(texts), strict=False))
    return next((index for index, (first, last) in pairs if first != last), min(map(len, texts)))
