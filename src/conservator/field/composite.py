"""Composite evidence: what experts say of each visible position while it is hidden from them.

    C(lambda; y) = sum over visible l of  log sum_v c_l(v) pi_{lambda_l}(v | z_b(l)),

with z_b the observation in which fold b of the visible positions is hidden too. Its gradient is the paper's posterior
minus prior, on conditionals that are exact: no sampler, no particle noise.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from conservator.channels import MaskChannel, Observation
from conservator.channels.channel import pick
from conservator.errors import ConservatorError
from conservator.experts.expert import Expert
from conservator.field.folds import Schedule
from conservator.field.pool import log_pool

CHUNK = 64 * 2**20  # bytes of log-probabilities that are in memory at a time, besides what is kept
BUDGET = 2**30  # bytes that a CompositeEvidence keeps at most


@dataclass(frozen=True)
class Window:
    """A stretch of a sequence that is read at once, and the inner part of it that is scored."""

    start: int
    stop: int
    inner_start: int
    inner_stop: int


@dataclass(frozen=True)
class Said:
    """What the experts said of n positions.

    Attributes:
        sequence: (n,) which sequence.
        position: (n,) which position in it.
        log_probs: (m, n, V) log p_i(v | what was visible), float32.
    """

    sequence: Tensor
    position: Tensor
    log_probs: Tensor


class Cost:
    """What was spent: a counter that readers add to.

    Attributes:
        evaluations: sequences read, times experts.
        expert_seconds: time spent in the experts.
        arithmetic_seconds: time spent in everything else.
    """

    def __init__(self) -> None:
        """Nothing yet."""
        self.evaluations = 0
        self.expert_seconds = 0.0
        self.arithmetic_seconds = 0.0

    def add(self, other: "Cost") -> None:
        """Count what another counter counted."""
        self.evaluations += other.evaluations
        self.expert_seconds += other.expert_seconds
        self.arithmetic_seconds += other.arithmetic_seconds


def cut_into_windows(length: int, context: int | None) -> list[Window]:
    """Cover ``length`` positions by windows of at most ``context``, overlapping by a quarter of it.

    Every position is scored in one window, at least an eighth of the context from its cut ends.
    """
    if context is None or length <= context:
        return [Window(0, length, 0, length)]
    margin = context // 8
    stride = max(1, context - 2 * margin)
    starts = [*range(0, length - context, stride), length - context]
    edges = [0, *(start + margin for start in starts[1:]), length]
    return [Window(s, s + context, a, b) for s, a, b in zip(starts, edges, edges[1:], strict=False)]


def check_experts(experts: Sequence[Expert], vocab_size: int) -> int | None:
    """Return the context that all experts can read; a clear error where they do not fit together or the channel."""
    if not experts:
        raise ConservatorError("no experts: at least one is needed")
    sizes = {expert.spec.name: expert.spec.vocab_size for expert in experts}
    if len(set(sizes.values())) > 1:
        raise ConservatorError(f"the experts have different vocabularies: {sizes}; they have to share one")
    size = experts[0].spec.vocab_size
    if vocab_size != size:
        raise ConservatorError(f"the channel has {vocab_size} tokens, the experts {size}")
    contexts = [expert.spec.max_length for expert in experts if expert.spec.max_length is not None]
    return min(contexts, default=None)


def read(
    experts: Sequence[Expert],
    tokens: Tensor,
    hidden: Tensor,
    scored: Tensor,
    context: int | None,
    cost: Cost,
    concealed: Tensor | None = None,
) -> Iterator[Said]:
    """Let the experts read sequences, and hear them on the positions that matter.

    Args:
        experts: m of them.
        tokens: (N, L) symbols; what is hidden may be any.
        hidden: (N, K, L) what each of K patterns hides.
        scored: (N, K, L) the hidden positions to hear them on.
        context: the longest stretch to read at once.
        cost: counts what is spent.
        concealed: (N, L, m) what is hidden from single experts besides.
    """
    vocab_size = experts[0].spec.vocab_size
    for window in cut_into_windows(tokens.shape[1], context):
        span = slice(window.start, window.stop)
        wanted = scored[:, :, span].clone()
        wanted[:, :, : window.inner_start - window.start] = False
        wanted[:, :, window.inner_stop - window.start :] = False
        sequence, pattern = wanted.any(-1).nonzero(as_tuple=True)
        rows = max(1, CHUNK // (4 * (window.stop - window.start) * vocab_size * len(experts)))
        for which, how in zip(sequence.split(rows), pattern.split(rows), strict=True):
            if len(which) == 0:
                continue
            row, place = wanted[which, how].nonzero(as_tuple=True)
            heard = []
            start = time.perf_counter()
            for number, expert in enumerate(experts):
                unseen = hidden[which, how, span]
                if concealed is not None:
                    unseen = unseen | concealed[which, span, number]
                kappa = 1 - unseen.float().mean(-1)
                heard.append(expert.log_probs(tokens[which, span], unseen, kappa)[row, place])
            cost.expert_seconds += time.perf_counter() - start
            cost.evaluations += len(which) * len(experts)
            yield Said(which[row], window.start + place, torch.stack(heard).float())


@dataclass(frozen=True)
class LatticeEvidence:
    """What the visible positions say of every state of a lattice.

    Attributes:
        emissions: (N, L, S) e_l(s), float64; 0 at hidden positions, where nothing was seen.
        kept: (N, L, S) the probability that the token is what was observed, in each state; 1 where that is certain.
        cost: what it took.
    """

    emissions: Tensor
    kept: Tensor
    cost: Cost


def gather_evidence(
    experts: Sequence[Expert],
    observation: Observation,
    schedule: Schedule,
    generator: torch.Generator,
    weights: Tensor,
    doubt: Tensor | None = None,
    *,
    prior_term: bool = True,
) -> LatticeEvidence:
    """Score every state of a lattice at every visible position.

        e_l(s) = log sum_v c_l(v) pi_{w_s}(v | z_b(l)),   mean over the repeats of the schedule

    Args:
        experts: m of them.
        observation: (N, L).
        schedule: which positions are hidden together.
        generator: the source of all randomness.
        weights: (S, m) the lattice.
        doubt: (N, L) with which probability a token is kept from the experts while they speak of others, because it
            may be wrong; none by default.
        prior_term: False leaves the normaliser of the pool out: e_l(s) = log sum_v c_l(v) exp(sum_i w_i a_i(v)).
    """
    channel = observation.channel
    context = check_experts(experts, channel.vocab_size)
    cost = Cost()
    patterns = schedule.draw(~observation.hidden, generator)
    concealed = patterns | observation.hidden[:, None]
    if doubt is not None:
        concealed = concealed | (torch.rand(patterns.shape, generator=generator) < doubt[:, None])
    emissions = torch.zeros(*observation.tokens.shape, len(weights), dtype=torch.float64)
    kept = torch.zeros_like(emissions)
    certain = isinstance(channel, MaskChannel)
    for said in read(experts, observation.tokens, concealed, patterns, context, cost):
        seen = channel.observe(observation.tokens[said.sequence, said.position])
        place = (said.sequence, said.position)
        same = None if certain else pick(channel.log_likelihood(seen), seen.tokens)
        local = torch.empty(len(said.position), len(weights), dtype=torch.float64)
        own = torch.empty_like(local)
        for state, weight in enumerate(weights):
            pool = pool_of(said.log_probs, weight, normalised=prior_term)
            local[:, state] = channel.log_evidence(seen, pool)
            if same is not None:
                own[:, state] = (same + pick(pool, seen.tokens) - local[:, state]).exp()
        # A position comes several times where its repeats share a chunk.
        emissions.index_put_(place, local, accumulate=True)
        if not certain:
            kept.index_put_(place, own, accumulate=True)
    if certain:
        kept.fill_(schedule.repeats)
    return LatticeEvidence(emissions / schedule.repeats, kept / schedule.repeats, cost)


def pool_of(log_probs: Tensor, weight: Tensor, *, normalised: bool = True) -> Tensor:
    """The pool of ``log_probs`` (m, n, V) at one weight (m,): (n, V). A vertex is an expert as it is."""
    used = weight.nonzero()[:, 0].tolist()
    if len(used) == 1:
        return log_probs[used[0]]
    mixed = torch.einsum("i,inv->nv", weight[used].to(log_probs.dtype), log_probs[used])
    return torch.log_softmax(mixed, dim=-1) if normalised else mixed


class CompositeEvidence:
    """The composite evidence of one sequence as a function of the field, with its gradient.

        C(lambda) = sum over scored l of  log sum_v c_l(v) pi_{lambda_l}(v)
        dC/dlambda_{l,i} = E_gamma[a_i] - E_pi[a_i]

    The log-probabilities at the scored positions are kept: 4 m V bytes a position, within BUDGET. Under a mask channel
    C is concave.
    """

    def __init__(
        self, said: Sequence[Said], observation: Observation, repeats: int, *, prior_term: bool = True
    ) -> None:
        """Take what the experts said of an observation (L,).

        Args:
            said: for every visible position, once for each repeat.
            observation: the sequence.
            repeats: how often each position was scored; the evidence is the mean over them.
            prior_term: False leaves E_pi[a_i] out of the gradient (the value stays that of the evidence).
        """
        self.position = torch.cat([part.position for part in said])
        self.log_probs = torch.cat([part.log_probs for part in said], dim=1)
        self.length, self.repeats, self.prior_term = len(observation.tokens), repeats, prior_term
        self.seen = observation.channel.observe(observation.tokens[self.position])

    @classmethod
    def gather(
        cls,
        experts: Sequence[Expert],
        observation: Observation,
        schedule: Schedule,
        generator: torch.Generator,
        *,
        prior_term: bool = True,
    ) -> tuple["CompositeEvidence", Cost]:
        """Let the experts read the folds of an observation (L,)."""
        context = check_experts(experts, observation.channel.vocab_size)
        visible = int((~observation.hidden).sum()) * schedule.repeats
        needed = 4 * len(experts) * experts[0].spec.vocab_size * visible
        if needed > BUDGET:
            raise ConservatorError(f"{visible} scored positions take {needed} bytes; at most {BUDGET} are kept")
        cost = Cost()
        patterns = schedule.draw(~observation.hidden[None], generator)
        concealed = patterns | observation.hidden
        said = list(read(experts, observation.tokens[None], concealed, patterns, context, cost))
        return cls(said, observation, schedule.repeats, prior_term=prior_term), cost

    @property
    def shape(self) -> tuple[int, int]:
        """(L, m): positions and experts of the field."""
        return self.length, len(self.log_probs)

    def value_and_gradient(self, field: Tensor) -> tuple[Tensor, Tensor]:
        """Return C in nats and its gradient (L, m); rows of hidden positions are 0."""
        channel = self.seen.channel
        value = torch.zeros((), dtype=torch.float64)
        gradient = torch.zeros(self.shape, dtype=torch.float64)
        rows = max(1, CHUNK // (8 * self.log_probs.shape[2] * len(self.log_probs)))
        for position, tokens, said in zip(
            self.position.split(rows), self.seen.tokens.split(rows), self.log_probs.split(rows, dim=1), strict=True
        ):
            seen, log_probs = channel.observe(tokens), said.double()
            pool = log_pool(log_probs, field[position])
            value = value + channel.log_evidence(seen, pool).sum() / self.repeats
            law = channel.log_posterior(seen, pool).exp()
            if self.prior_term:
                law = law - pool.exp()
            local = torch.einsum("nv,inv->ni", law, log_probs) / self.repeats
            gradient.index_add_(0, position, local.detach())
        return value, gradient
