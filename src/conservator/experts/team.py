"""A team: experts of one vocabulary, and the only reader there is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from conservator.channels import Excerpt, Observation
from conservator.errors import ConservatorError
from conservator.experts.expert import At, Context, Expert, ExpertSpec
from conservator.experts.meter import Meter
from conservator.experts.windows import windows_of
from conservator.vocabularies import Vocabulary

CHUNK = 64 * 2**20  # bytes of predictions that are made at a time, unless those of one sequence are more
PART = 16 * 2**20  # bytes of predictions that are handed on at a time, so that what is made of them stays small
LONGEST = 4096  # positions that are read at once of experts that read any number, or more where CHUNK allows


@dataclass(frozen=True)
class Predictions:
    """What the experts predict at n positions.

    Attributes:
        sequence: (n,) which sequence.
        position: (n,) which position in it.
        log_probs: (m, n, V) log p_i(v | what was visible), float32.
    """

    sequence: Tensor
    position: Tensor
    log_probs: Tensor

    def parts(self, size: int = PART) -> Iterator["Predictions"]:
        """The same in parts of about ``size`` bytes, without a copy."""
        experts, _, vocab_size = self.log_probs.shape
        rows = max(1, size // (4 * experts * vocab_size))
        pieces = (self.sequence.split(rows), self.position.split(rows), self.log_probs.split(rows, dim=1))
        for sequence, position, log_probs in zip(*pieces, strict=True):
            yield Predictions(sequence, position, log_probs)


class Team:
    """m experts that share a vocabulary.

    A team owns all reading: it cuts sequences into windows, reads them in batches, checks what the experts return, and
    counts it in its meter. Making one costs nothing; every restoration has a team and a meter of its own.

    Attributes:
        experts: the m experts.
        vocabulary: what they all speak of.
        context: how many positions are read at once.
        meter: what was spent, and whom to tell how far the work is.
    """

    def __init__(self, experts: Sequence[Expert], meter: Meter | None = None) -> None:
        """Check that the experts can be composed."""
        self.experts: tuple[Expert, ...] = tuple(experts)
        self.vocabulary = shared_vocabulary([check_expert(expert) for expert in self.experts])
        self.meter = meter or Meter()
        lengths = [expert.spec.max_length for expert in self.experts if expert.spec.max_length is not None]
        self.context = min(lengths, default=max(LONGEST, self.sequences_at_once(1)))

    def __len__(self) -> int:
        """The number m of experts."""
        return len(self.experts)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the experts."""
        return tuple(expert.spec.name for expert in self.experts)

    def alone(self, number: int) -> "Team":
        """One of the experts as a team of its own, with the same meter."""
        return Team([self.experts[number]], self.meter)

    def sequences_at_once(self, length: int) -> int:
        """How many sequences are read at a time, for their predictions to fit into CHUNK; at least one."""
        return max(1, CHUNK // (4 * length * self.vocabulary.size * len(self.experts)))

    def check(self, observation: Observation) -> None:
        """Raise unless an observation has the tokens that the experts speak of."""
        if observation.vocab_size != self.vocabulary.size:
            raise ConservatorError(
                f"the channel has {observation.vocab_size} tokens, the experts {self.vocabulary.size}"
            )

    def predict(self, context: Context, at: At, hidden_from: Tensor | None = None) -> Tensor:
        """What each expert predicts at the positions ``at`` of a context: (m, n, V), in the experts' own precision.

        Args:
            context: (B, L).
            at: n positions of it.
            hidden_from: (B, L, m) what is hidden from single experts besides.
        """
        shape = (len(at[0]), self.vocabulary.size)
        predictions = torch.empty(0)
        for number, expert in enumerate(self.experts):
            seen = context
            if hidden_from is not None:
                hidden = context.hidden | hidden_from[..., number]
                seen = Context(context.tokens, hidden, context.time, context.start)
            with self.meter.evaluating(len(context.tokens)):
                rows = expert.predict(seen, at)
                check_predictions(expert.spec, rows, shape)
            if number == 0:
                predictions = torch.empty(len(self.experts), *shape, dtype=rows.dtype)
            predictions[number] = rows
        return predictions

    def read(
        self,
        tokens: Tensor,
        hidden: Tensor,
        wanted: Tensor,
        *,
        hidden_from: Tensor | None = None,
        excerpt: Excerpt | None = None,
    ) -> Iterator[Predictions]:
        """Predict the wanted positions of sequences, each sequence under one or several patterns of hidden positions.

        Args:
            tokens: (N, L); what is hidden may be any symbol.
            hidden: (N, K, L) what each of K patterns hides.
            wanted: (N, K, L) the positions to predict under each pattern.
            hidden_from: (N, L, m) what is hidden from single experts besides.
            excerpt: which positions of a longer sequence these are.
        """
        windows = windows_of(tokens.shape[1], self.context, excerpt)
        needed = [one for one in windows if wanted[:, :, one.inner_start : one.inner_stop].any()]
        for window in self.meter.steps(needed):
            span = slice(window.start, window.stop)
            inner = wanted[:, :, span].clone()
            inner[:, :, : window.inner_start - window.start] = False
            inner[:, :, window.inner_stop - window.start :] = False
            sequence, pattern = inner.any(-1).nonzero(as_tuple=True)
            rows = self.sequences_at_once(window.stop - window.start)
            start = window.start if excerpt is None else int(excerpt.positions[window.start])
            for which, how in self.meter.steps(list(zip(sequence.split(rows), pattern.split(rows), strict=True))):
                row, place = inner[which, how].nonzero(as_tuple=True)
                context = Context(tokens[which, span], hidden[which, how, span], start=torch.full((len(which),), start))
                withheld = None if hidden_from is None else hidden_from[which, span]
                log_probs = self.predict(context, (row, place), withheld).float()
                yield from Predictions(which[row], window.start + place, log_probs).parts()


def check_expert(expert: Any) -> ExpertSpec:
    """Return the description of an expert; a clear error for an object that is none."""
    spec = getattr(expert, "spec", None)
    if not isinstance(spec, ExpertSpec) or not callable(getattr(expert, "predict", None)):
        what = f"{type(expert).__name__} object"
        lacks = "a spec (an ExpertSpec)" if not isinstance(spec, ExpertSpec) else "a method predict(context, at)"
        raise ConservatorError(f"a {what} is no expert: it has not {lacks}; docs/extending.md shows how to write one")
    if not spec.source.shows_noise:
        raise ConservatorError(
            f"the expert {spec.name!r} does not see what is hidden (a uniform source); a team reads experts that do"
        )
    return spec


def shared_vocabulary(specs: Sequence[ExpertSpec]) -> Vocabulary:
    """The vocabulary of all experts; a clear error where they do not share one."""
    if not specs:
        raise ConservatorError("no experts: at least one is needed")
    prints = {spec.name: spec.vocabulary.fingerprint for spec in specs}
    if len(set(prints.values())) > 1:
        raise ConservatorError(f"the experts have different vocabularies: {prints}; they have to share one")
    return specs[0].vocabulary


def check_predictions(spec: ExpertSpec, rows: Any, shape: tuple[int, int]) -> None:
    """Raise unless an expert returned what the contract says."""
    if not isinstance(rows, Tensor) or tuple(rows.shape) != shape or not rows.is_floating_point():
        found = f"{rows.dtype} of the shape {tuple(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
        raise ConservatorError(
            f"the expert {spec.name!r} predicted {found}; it must be floating-point log-probabilities of the shape "
            f"{shape}: positions asked for, tokens"
        )
    if not torch.isfinite(rows.sum()):
        raise ConservatorError(f"the expert {spec.name!r} predicted what is not a finite number")
