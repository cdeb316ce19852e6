"""A team: experts with one vocabulary, and their evaluation on windows and batches."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.channels import Excerpt, Observation
from conservator.errors import ConservatorError
from conservator.experts.expert import At, Context, Expert, ExpertSpec, checked_predict
from conservator.experts.meter import Meter
from conservator.experts.windows import WINDOW_CONFIG, Window, margin_of, windows_around
from conservator.vocabularies import Vocabulary


@dataclass(frozen=True)
class TeamConfig:
    """Sizes of the batches in which a team evaluates its experts."""

    # bytes: predictions that are computed at once; exceeded if a single sequence has more [safety limit]
    batch_bytes: int = 64 * 2**20
    part_bytes: int = 16 * 2**20  # bytes: predictions that are yielded at once [safety limit]
    batch_positions: int = 8192  # positions: total length of the windows in a batch [untuned]
    block_positions: int = 256  # positions: windows are split by active experts at multiples of this [untuned]
    # positions: window length if no expert has a maximum; longer if ``batch_bytes`` allows [untuned]
    default_context: int = 4096


TEAM_CONFIG = TeamConfig()


@dataclass(frozen=True)
class Predictions:
    """Predictions of m experts at n positions.

    Attributes:
        sequence: (n,) index of the sequence.
        position: (n,) index of the position in it.
        log_probs: (m, n, V) log p_i(v | visible tokens), float32.
    """

    sequence: Tensor
    position: Tensor
    log_probs: Tensor

    def parts(self, size: int = TEAM_CONFIG.part_bytes) -> Iterator["Predictions"]:
        """Split into parts of about ``size`` bytes. Each part is a copy, so that it does not keep the others alive."""
        experts, count, vocab_size = self.log_probs.shape
        rows = max(1, size // (4 * experts * vocab_size))
        if count <= rows:
            yield self
            return
        for start in range(0, count, rows):
            part = slice(start, start + rows)
            yield Predictions(self.sequence[part], self.position[part], self.log_probs[:, part].clone())


class Team:
    """m experts with one vocabulary.

    A team splits sequences into windows, evaluates its experts on batches of them, checks their predictions, and
    counts the cost in its meter. A team is cheap to construct: every restoration has its own team and meter.

    Attributes:
        experts: the m experts.
        vocabulary: the vocabulary of all experts.
        context: the maximum window length, in positions.
        meter: counts the cost and reports progress.
    """

    def __init__(self, experts: Sequence[Expert], meter: Meter | None = None) -> None:
        """Check that the experts can be composed."""
        self.experts: tuple[Expert, ...] = tuple(experts)
        self.vocabulary = shared_vocabulary([check_expert(expert) for expert in self.experts])
        gated = [expert.spec.is_gated for expert in self.experts]
        if gated != sorted(gated):
            raise ConservatorError(f"the gated experts of a team must be its last members, got {self.names}")
        self.meter = meter or Meter()
        lengths = [expert.spec.max_length for expert in self.experts if expert.spec.max_length is not None]
        self.context = min(lengths, default=max(TEAM_CONFIG.default_context, self.max_batch_size(1)))

    def __len__(self) -> int:
        """The number m of experts."""
        return len(self.experts)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the experts."""
        return tuple(expert.spec.name for expert in self.experts)

    @property
    def gated(self) -> int:
        """The number of gated experts besides the first expert, which has a weight in any case."""
        return sum(expert.spec.is_gated for expert in self.experts[1:])

    def subset(self, indices: Sequence[int]) -> "Team":
        """A team of the experts with these indices, with the same meter."""
        return Team([self.experts[index] for index in indices], self.meter)

    def without_gated(self) -> "Team":
        """A team of all experts except the gated ones, with the same meter."""
        return self.subset(range(len(self) - self.gated))

    def max_batch_size(self, length: int) -> int:
        """The number of sequences of ``length`` positions whose predictions fit ``batch_bytes``; at least one."""
        return max(1, TEAM_CONFIG.batch_bytes // (4 * length * self.vocabulary.size * len(self.experts)))

    def check(self, observation: Observation) -> None:
        """Raise a ConservatorError unless an observation has the vocabulary size of the experts."""
        if observation.vocab_size != self.vocabulary.size:
            raise ConservatorError(
                f"the channel has {observation.vocab_size} tokens, the experts {self.vocabulary.size}; they must be "
                "equal"
            )

    def predict(
        self, context: Context, at: At, hidden_from: Tensor | None = None, active: Tensor | None = None
    ) -> Tensor:
        """Predict the positions ``at`` of a context with every expert: (m, n, V), in the experts' precision.

        Args:
            context: (B, L).
            at: n positions of the context.
            hidden_from: (B, L, m) True where a position is also hidden from expert i.
            active: (n, m) True where expert i is needed; None for all. An expert is evaluated on the rows of the
                context in which it is active at some position; elsewhere its predictions are uniform.
        """
        shape = (len(self.experts), len(at[0]), self.vocabulary.size)
        predictions: Tensor | None = None
        for index, expert in enumerate(self.experts):
            visible, rows, selected = context, at, torch.arange(len(at[0]))
            if hidden_from is not None:
                hidden = context.hidden | hidden_from[..., index]
                visible = Context(context.tokens, hidden, context.time, context.start)
            if active is not None and not active[:, index].all():
                visible, rows, selected = select_rows(visible, at, active[:, index])
                if not len(selected):
                    continue
            with self.meter.evaluating(0 if expert.spec.is_gated else len(visible.tokens)):
                log_probs = checked_predict(expert, visible, rows)
            if predictions is None:
                predictions = torch.full(shape, -math.log(self.vocabulary.size), dtype=log_probs.dtype)
            predictions[index, selected] = log_probs.to(predictions.dtype)
            del log_probs  # frees memory before the next expert is evaluated
        if predictions is None:
            return torch.full(shape, -math.log(self.vocabulary.size), dtype=torch.float32)
        return predictions

    def read(
        self,
        tokens: Tensor,
        hidden: Tensor,
        requested: Tensor,
        *,
        hidden_from: Tensor | None = None,
        excerpt: Excerpt | None = None,
        active: Tensor | None = None,
        margin: int | None = None,
    ) -> Iterator[Predictions]:
        """Predict the requested positions of N sequences, each under K patterns of hidden positions.

        Args:
            tokens: (N, L); any symbol at hidden positions.
            hidden: (N, K, L) the hidden positions of each pattern.
            requested: (N, K, L) the positions to predict under each pattern.
            hidden_from: (N, L, m) True where a position is also hidden from expert i.
            excerpt: the positions of a longer sequence that ``tokens`` contains; None if the sequence is complete.
            active: (N, L, m) True where expert i is needed; None for all. In windows without an active position, an
                expert is not evaluated and its predictions are uniform.
            margin: context on either side of a requested position, in positions; by default
                ``WINDOW_CONFIG.margin``. Never more than an eighth of the maximum window length.
        """
        positions = np.arange(tokens.shape[1]) if excerpt is None else excerpt.positions.numpy()
        needed = requested.any(dim=0).any(dim=0).numpy()
        length = len(positions) if excerpt is None else excerpt.length
        margin = min(WINDOW_CONFIG.margin if margin is None else margin, margin_of(self.context))
        segments = [positions[needed]]
        if active is not None and length > self.context:
            segments = split_by_experts(positions[needed], active.any(dim=0).numpy()[needed])
        windows = [window for part in segments for window in windows_around(part, length, self.context, margin)]
        batches = list(self._batches(windows, positions, requested))
        for starts, sequence, pattern, size in self.meter.steps(batches):
            first, lower, upper = starts.T[:, :, None]
            index = first + torch.arange(size)  # (B, size) columns of ``tokens``
            inner = requested[sequence[:, None], pattern[:, None], index] & (index >= lower) & (index < upper)
            row, column = inner.nonzero(as_tuple=True)
            context = Context(
                tokens[sequence[:, None], index],
                hidden[sequence[:, None], pattern[:, None], index],
                start=torch.from_numpy(positions)[starts[:, 0]],
            )
            withheld = None if hidden_from is None else hidden_from[sequence[:, None], index]
            position = index[row, column]
            needs = None if active is None else active[sequence[row], position]
            log_probs = self.predict(context, (row, column), withheld, needs).float()
            predictions = Predictions(sequence[row], position, log_probs)
            del log_probs
            yield from predictions.parts()
            del predictions  # frees memory before the next batch: with a large vocabulary, predictions dominate

    def _batches(
        self, windows: list[Window], positions: NDArray[np.int64], requested: Tensor
    ) -> Iterator[tuple[Tensor, Tensor, Tensor, int]]:
        """Group windows of equal size into batches.

        Args:
            windows: in positions of the whole sequence.
            positions: (L,) the position of each column of ``requested`` in the whole sequence.
            requested: (N, K, L) the positions to predict.

        Yields:
            (B, 3) columns at which each window, its inner part and the end of its inner part start; (B,) sequence of
            each window; (B,) pattern of each window; window size.
        """
        sizes: dict[int, list[Window]] = {}
        for window in windows:
            sizes.setdefault(window.stop - window.start, []).append(window)
        for size, alike in sorted(sizes.items(), reverse=True):
            table = np.array([(window.start, window.inner_start, window.inner_stop) for window in alike])
            starts = torch.from_numpy(np.searchsorted(positions, table))
            used = [requested[:, :, lower:upper].any(-1).nonzero() for _, lower, upper in starts.tolist()]
            which = torch.cat([torch.full((len(rows),), index) for index, rows in enumerate(used)])
            batch_size = min(self.max_batch_size(size), max(1, TEAM_CONFIG.batch_positions // size))
            for part in torch.arange(len(which)).split(batch_size):
                rows = torch.cat(used)[part]
                yield starts[which[part]], rows[:, 0], rows[:, 1], size


def split_by_experts(positions: NDArray[np.int64], active: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """Split ascending ``positions`` (n,) where the ``active`` experts (n, m) change, at multiples of the block size."""
    if not len(positions):
        return []
    firsts = np.flatnonzero(np.diff(positions // TEAM_CONFIG.block_positions, prepend=-1))
    active_in_block = np.logical_or.reduceat(active, firsts)
    changed = np.any(active_in_block[1:] != active_in_block[:-1], axis=1)
    return np.split(positions, firsts[1:][changed])


def select_rows(context: Context, at: At, active: Tensor) -> tuple[Context, At, Tensor]:
    """Select the rows of a context that have an ``active`` (n,) position among the positions ``at``.

    Returns:
        The selected rows, all of ``at`` that are in them, and the indices of these in ``at``.
    """
    used = torch.zeros(len(context.tokens), dtype=torch.bool)
    used[at[0][active]] = True
    selected = used[at[0]].nonzero()[:, 0]
    time = None if context.time is None else context.time[used]
    start = None if context.start is None else context.start[used]
    row = (used.cumsum(0) - 1)[at[0][selected]]
    return Context(context.tokens[used], context.hidden[used], time, start), (row, at[1][selected]), selected


def check_expert(expert: Any) -> ExpertSpec:
    """Return the spec of an expert; raise a ConservatorError for an object that is not an expert."""
    spec = getattr(expert, "spec", None)
    if not isinstance(spec, ExpertSpec) or not callable(getattr(expert, "predict", None)):
        missing = (
            "attribute spec (an ExpertSpec)" if not isinstance(spec, ExpertSpec) else "method predict(context, at)"
        )
        raise ConservatorError(
            f"expected an expert, got an object of type {type(expert).__name__} without the {missing}; see "
            "docs/extending.md"
        )
    if not spec.source.shows_noise:
        raise ConservatorError(
            f"expert {spec.name!r} has a uniform source: it cannot represent hidden positions; a team needs experts "
            "with a mask source, so wrap it in MaskedFromUniform"
        )
    return spec


def shared_vocabulary(specs: Sequence[ExpertSpec]) -> Vocabulary:
    """Return the vocabulary of all experts; raise a ConservatorError if they have different ones."""
    if not specs:
        raise ConservatorError("no experts: at least one is needed")
    prints = {spec.name: spec.vocabulary.fingerprint for spec in specs}
    if len(set(prints.values())) > 1:
        raise ConservatorError(f"experts of a team must have the same vocabulary, got different vocabularies: {prints}")
    return specs[0].vocabulary
