"""The team: experts that share a vocabulary, and the methods that evaluate them on sequences."""

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
from conservator.experts.expert import At, Context, Expert, ExpertSpec, ask
from conservator.experts.meter import Meter
from conservator.experts.windows import MARGIN, Window, margin_of, windows_around
from conservator.vocabularies import Vocabulary

CHUNK = 64 * 2**20  # bytes of predictions that are computed at a time; more if a single sequence has more
PART = 16 * 2**20  # bytes of predictions that are yielded at a time, so that what callers compute from them stays small
POSITIONS = 8192  # that are read at once in several windows; more is no faster, and takes memory
BLOCK = 256  # positions about which the same experts are asked
LONGEST = 4096  # positions that are read at once if no expert limits its length; more if CHUNK allows


@dataclass(frozen=True)
class Predictions:
    """The experts' predictions at n positions.

    Attributes:
        sequence: (n,) which sequence.
        position: (n,) which position in it.
        log_probs: (m, n, V) log p_i(v | visible tokens), float32.
    """

    sequence: Tensor
    position: Tensor
    log_probs: Tensor

    def parts(self, size: int = PART) -> Iterator["Predictions"]:
        """Split into parts of about ``size`` bytes; each is a copy, so that keeping one does not keep the others."""
        experts, count, vocab_size = self.log_probs.shape
        rows = max(1, size // (4 * experts * vocab_size))
        if count <= rows:
            yield self
            return
        for start in range(0, count, rows):
            part = slice(start, start + rows)
            yield Predictions(self.sequence[part], self.position[part], self.log_probs[:, part].clone())


class Team:
    """m experts that share a vocabulary.

    A team cuts sequences into windows, evaluates its experts on batches of them, checks what they return, and counts
    the cost in its meter. Making a team is cheap: every restoration has a team and a meter of its own.

    Attributes:
        experts: the m experts.
        vocabulary: the vocabulary that they share.
        context: how many positions are read at once.
        meter: counts the cost, and reports progress.
    """

    def __init__(self, experts: Sequence[Expert], meter: Meter | None = None) -> None:
        """Check that the experts can be composed."""
        self.experts: tuple[Expert, ...] = tuple(experts)
        self.vocabulary = shared_vocabulary([check_expert(expert) for expert in self.experts])
        if any(expert.spec.is_retrieval for expert in self.experts[:-1]):
            raise ConservatorError("an expert that recalls must be the last of a team, and the only one of its kind")
        self.meter = meter or Meter()
        lengths = [expert.spec.max_length for expert in self.experts if expert.spec.max_length is not None]
        self.context = min(lengths, default=max(LONGEST, self.max_batch_size(1)))

    def __len__(self) -> int:
        """The number m of experts."""
        return len(self.experts)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the experts."""
        return tuple(expert.spec.name for expert in self.experts)

    @property
    def is_retrieval(self) -> bool:
        """Whether the last of the experts recalls text."""
        return self.experts[-1].spec.is_retrieval

    def modelling(self) -> "Team":
        """The experts that model text, without one that recalls it, with the same meter."""
        return Team(self.experts[:-1], self.meter) if self.is_retrieval else self

    def alone(self, number: int) -> "Team":
        """One of the experts as a team of its own, with the same meter."""
        return Team([self.experts[number]], self.meter)

    def max_batch_size(self, length: int) -> int:
        """How many sequences of ``length`` are read at once, so that their predictions fit into CHUNK; at least one."""
        return max(1, CHUNK // (4 * length * self.vocabulary.size * len(self.experts)))

    def check(self, observation: Observation) -> None:
        """Raise unless an observation has as many tokens as the experts' vocabulary."""
        if observation.vocab_size != self.vocabulary.size:
            raise ConservatorError(
                f"the channel has {observation.vocab_size} tokens, the experts {self.vocabulary.size}"
            )

    def predict(
        self, context: Context, at: At, hidden_from: Tensor | None = None, asked: Tensor | None = None
    ) -> Tensor:
        """The predictions of each expert at the positions ``at`` of a context: (m, n, V), in the experts' precision.

        Args:
            context: (B, L).
            at: n positions of it.
            hidden_from: (B, L, m) True where a position is also hidden from expert i.
            asked: (n, m) True where expert i is asked. It is not asked about rows of the context in which it is asked
                about no position; there its predictions are uniform.
        """
        shape = (len(self.experts), len(at[0]), self.vocabulary.size)
        predictions: Tensor | None = None
        for number, expert in enumerate(self.experts):
            seen, rows, chosen = context, at, torch.arange(len(at[0]))
            if hidden_from is not None:
                hidden = context.hidden | hidden_from[..., number]
                seen = Context(context.tokens, hidden, context.time, context.start)
            if asked is not None and not asked[:, number].all():
                seen, rows, chosen = part_of(seen, at, asked[:, number])
                if not len(chosen):
                    continue
            with self.meter.evaluating(0 if expert.spec.is_retrieval else len(seen.tokens)):
                predicted = ask(expert, seen, rows)
            if predictions is None:
                predictions = torch.full(shape, -math.log(self.vocabulary.size), dtype=predicted.dtype)
            predictions[number, chosen] = predicted.to(predictions.dtype)
            del predicted  # before the next expert makes its own
        if predictions is None:
            return torch.full(shape, -math.log(self.vocabulary.size), dtype=torch.float32)
        return predictions

    def read(
        self,
        tokens: Tensor,
        hidden: Tensor,
        wanted: Tensor,
        *,
        hidden_from: Tensor | None = None,
        excerpt: Excerpt | None = None,
        asked: Tensor | None = None,
        margin: int | None = None,
    ) -> Iterator[Predictions]:
        """Predict the wanted positions of sequences, each sequence under one or several patterns of hidden positions.

        Args:
            tokens: (N, L); any symbol where a position is hidden.
            hidden: (N, K, L) the positions that each of K patterns hides.
            wanted: (N, K, L) the positions to predict under each pattern.
            hidden_from: (N, L, m) True where a position is also hidden from expert i.
            excerpt: which positions of a longer sequence these are.
            asked: (N, L, m) True where expert i is asked; None asks all. In windows where it is asked nowhere, an
                expert is not evaluated, and its predictions are uniform.
            margin: how many positions are read on either side of a wanted one; by default an eighth of the context.
        """
        places = np.arange(tokens.shape[1]) if excerpt is None else excerpt.positions.numpy()
        needed = wanted.any(dim=0).any(dim=0).numpy()
        length = len(places) if excerpt is None else excerpt.length
        margin = min(MARGIN if margin is None else margin, margin_of(self.context))
        segments = [places[needed]]
        if asked is not None and length > self.context:
            segments = split_by_experts(places[needed], asked.any(dim=0).numpy()[needed])
        windows = [one for part in segments for one in windows_around(part, length, self.context, margin)]
        batches = list(self._batches(windows, places, wanted))
        for starts, sequence, pattern, size in self.meter.steps(batches):
            first, lower, upper = starts.T[:, :, None]
            span = first + torch.arange(size)  # (B, size) positions of the sequences given
            inner = wanted[sequence[:, None], pattern[:, None], span] & (span >= lower) & (span < upper)
            row, place = inner.nonzero(as_tuple=True)
            context = Context(
                tokens[sequence[:, None], span],
                hidden[sequence[:, None], pattern[:, None], span],
                start=torch.from_numpy(places)[starts[:, 0]],
            )
            withheld = None if hidden_from is None else hidden_from[sequence[:, None], span]
            position = span[row, place]
            whom = None if asked is None else asked[sequence[row], position]
            log_probs = self.predict(context, (row, place), withheld, whom).float()
            found = Predictions(sequence[row], position, log_probs)
            del log_probs
            yield from found.parts()
            del found  # before the next ones are made: at a large vocabulary these are most of the memory

    def _batches(
        self, windows: list[Window], places: NDArray[np.int64], wanted: Tensor
    ) -> Iterator[tuple[Tensor, Tensor, Tensor, int]]:
        """Windows of the same size that are read at once.

        Yields:
            (B, 3) the start of each window, and of its inner part the start and the end, all counted in the sequences
            given, at ``places`` (L,) of the whole; (B,) its sequence; (B,) its pattern; and the size.
        """
        sizes: dict[int, list[Window]] = {}
        for window in windows:
            sizes.setdefault(window.stop - window.start, []).append(window)
        for size, alike in sorted(sizes.items(), reverse=True):
            table = np.array([(one.start, one.inner_start, one.inner_stop) for one in alike])
            starts = torch.from_numpy(np.searchsorted(places, table))
            used = [wanted[:, :, lower:upper].any(-1).nonzero() for _, lower, upper in starts.tolist()]
            which = torch.cat([torch.full((len(rows),), number) for number, rows in enumerate(used)])
            for part in torch.arange(len(which)).split(min(self.max_batch_size(size), max(1, POSITIONS // size))):
                rows = torch.cat(used)[part]
                yield starts[which[part]], rows[:, 0], rows[:, 1], size


def split_by_experts(places: NDArray[np.int64], asked: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """Split ascending ``places`` (n,) where other experts are ``asked`` (n, m), in whole blocks of BLOCK positions."""
    if not len(places):
        return []
    firsts = np.flatnonzero(np.diff(places // BLOCK, prepend=-1))
    whom = np.logical_or.reduceat(asked, firsts)
    changed = np.any(whom[1:] != whom[:-1], axis=1)
    return np.split(places, firsts[1:][changed])


def part_of(context: Context, at: At, asked: Tensor) -> tuple[Context, At, Tensor]:
    """The rows of a context in which something is ``asked`` (n,) about the positions ``at``.

    Returns:
        These rows, all their positions, and which of ``at`` they are.
    """
    used = torch.zeros(len(context.tokens), dtype=torch.bool)
    used[at[0][asked]] = True
    chosen = used[at[0]].nonzero()[:, 0]
    time = None if context.time is None else context.time[used]
    start = None if context.start is None else context.start[used]
    moved = (used.cumsum(0) - 1)[at[0][chosen]]
    return Context(context.tokens[used], context.hidden[used], time, start), (moved, at[1][chosen]), chosen


def check_expert(expert: Any) -> ExpertSpec:
    """Return the spec of an expert; raise a ConservatorError for an object that is not an expert."""
    spec = getattr(expert, "spec", None)
    if not isinstance(spec, ExpertSpec) or not callable(getattr(expert, "predict", None)):
        what = f"{type(expert).__name__} object"
        lacks = "a spec (an ExpertSpec)" if not isinstance(spec, ExpertSpec) else "a method predict(context, at)"
        raise ConservatorError(f"a {what} is no expert: it lacks {lacks}; docs/extending.md shows how to write one")
    if not spec.source.shows_noise:
        raise ConservatorError(
            f"the expert {spec.name!r} has a uniform source, and cannot see which positions are hidden; a team takes "
            "experts with a mask source"
        )
    return spec


def shared_vocabulary(specs: Sequence[ExpertSpec]) -> Vocabulary:
    """The vocabulary of all experts; raise a ConservatorError if they do not share one."""
    if not specs:
        raise ConservatorError("no experts: at least one is needed")
    prints = {spec.name: spec.vocabulary.fingerprint for spec in specs}
    if len(set(prints.values())) > 1:
        raise ConservatorError(f"the experts have different vocabularies: {prints}; they have to share one")
    return specs[0].vocabulary
