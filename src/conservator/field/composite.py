"""Composite evidence: what experts say of each visible position while it is hidden from them.

    C(lambda; y) = sum over visible l of  log sum_v c_l(v) pi_{lambda_l}(v | z_b(l)),

with z_b the observation in which fold b of the visible positions is hidden too. Its gradient is the paper's posterior
minus prior, on conditionals that are exact: no sampler, no particle noise.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from conservator.channels import MaskChannel, Observation
from conservator.channels.channel import pick
from conservator.errors import ConservatorError
from conservator.experts.expert import Expert
from conservator.field.cost import Cost, count
from conservator.field.folds import Schedule
from conservator.field.pool import log_pool

CHUNK = 64 * 2**20  # bytes of log-probabilities that are in memory at a time, besides what is kept
BUDGET = 2**30  # bytes that a CompositeEvidence keeps at most
LONGEST = 4096  # positions that are read at once of experts that read any number, or more where CHUNK allows
SHORTEST = 8  # positions: what reads less has no surroundings to go by


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


def cut_into_windows(length: int, context: int) -> list[Window]:
    """Cover ``length`` positions by windows of at most ``context``, overlapping by a quarter of it.

    Every position is scored in one window, at least an eighth of the context from its cut ends.
    """
    if length <= context:
        return [Window(0, length, 0, length)]
    if context < SHORTEST:
        raise ConservatorError(
            f"the experts read {context} positions at a time, too few for a sequence of {length}; at least {SHORTEST}"
        )
    margin = context // 8
    stride = context - 2 * margin
    starts = [*range(0, length - context, stride), length - context]
    edges = [0, *(start + margin for start in starts[1:]), length]
    return [Window(s, s + context, a, b) for s, a, b in zip(starts, edges, edges[1:], strict=False)]


def check_experts(experts: Sequence[Expert], vocab_size: int) -> int:
    """Return how much all experts can read at once; a clear error where they do not fit together or the channel."""
    if not experts:
        raise ConservatorError("no experts: at least one is needed")
    sizes = {expert.spec.name: expert.spec.vocab_size for expert in experts}
    if len(set(sizes.values())) > 1:
        raise ConservatorError(f"the experts have different vocabularies: {sizes}; they have to share one")
    size = experts[0].spec.vocab_size
    if vocab_size != size:
        raise ConservatorError(f"the channel has {vocab_size} tokens, the experts {size}")
    contexts = [expert.spec.max_length for expert in experts if expert.spec.max_length is not None]
    return min(contexts, default=max(LONGEST, rows_at_once(1, size, len(experts))))


def rows_at_once(length: int, vocab_size: int, experts: int) -> int:
    """How many sequences are read at a time, for their log-probabilities to fit into CHUNK; at least one."""
    return max(1, CHUNK // (4 * length * vocab_size * experts))


def unknown(observation: Observation) -> Tensor:
    """(..., L) True where an expert has nothing to read: hidden, or a symbol of the channel that is no token."""
    return observation.hidden | (observation.tokens >= observation.channel.vocab_size)


def read(
    experts: Sequence[Expert],
    tokens: Tensor,
    hidden: Tensor,
    scored: Tensor,
    context: int,
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
    vocab_size, counted = experts[0].spec.vocab_size, count(experts, cost)
    for window in cut_into_windows(tokens.shape[1], context):
        span = slice(window.start, window.stop)
        wanted = scored[:, :, span].clone()
        wanted[:, :, : window.inner_start - window.start] = False
        wanted[:, :, window.inner_stop - window.start :] = False
        sequence, pattern = wanted.any(-1).nonzero(as_tuple=True)
        rows = rows_at_once(window.stop - window.start, vocab_size, len(experts))
        for which, how in zip(sequence.split(rows), pattern.split(rows), strict=True):
            if len(which) == 0:
                continue
            row, place = wanted[which, how].nonzero(as_tuple=True)
            heard = []
            for number, expert in enumerate(counted):
                unseen = hidden[which, how, span]
                if concealed is not None:
                    unseen = unseen | concealed[which, span, number]
                kappa = 1 - unseen.float().mean(-1)
                heard.append(expert.log_probs(tokens[which, span], unseen, kappa)[row, place])
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
    foreign: Tensor | None = None,
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
        foreign: (N, L, m) what is kept from single experts because it is not their kind of text; nothing by default.
        prior_term: False leaves the normaliser of the pool out: e_l(s) = log sum_v c_l(v) exp(sum_i w_i a_i(v)).
    """
    channel = observation.channel
    context = check_experts(experts, channel.vocab_size)
    cost = Cost()
    patterns = schedule.draw(~observation.hidden, generator)
    concealed = conceal(patterns, observation, doubt, generator)
    emissions = torch.zeros(*observation.tokens.shape, len(weights), dtype=torch.float64)
    certain = isinstance(channel, MaskChannel)
    kept = torch.ones((), dtype=torch.float64).expand_as(emissions) if certain else torch.zeros_like(emissions)
    for said in read(experts, observation.tokens, concealed, patterns, context, cost, foreign):
        seen = channel.observe(observation.tokens[said.sequence, said.position])
        place = (said.sequence, said.position)
        local = torch.empty(len(said.position), len(weights), dtype=torch.float64)
        own = torch.empty_like(local)
        same = None if certain else log_same(seen)
        for state, weight in enumerate(weights):
            pool, log_norm = pool_of(said.log_probs, weight)
            local[:, state] = channel.log_evidence(seen, pool)
            if same is not None:
                own[:, state] = (same + pick(pool, readable(seen)) - local[:, state]).exp()
            if not prior_term:
                local[:, state] += log_norm
        # A position comes several times where its repeats share a chunk.
        emissions.index_put_(place, local, accumulate=True)
        if not certain:
            kept.index_put_(place, own / schedule.repeats, accumulate=True)
    return LatticeEvidence(emissions.div_(schedule.repeats), kept, cost)


def conceal(patterns: Tensor, observation: Observation, doubt: Tensor | None, generator: torch.Generator) -> Tensor:
    """What experts do not see while they speak of ``patterns`` (N, K, L): those, what is unknown, what is doubted."""
    concealed = patterns | unknown(observation)[:, None]
    if doubt is not None and (doubt > 0).any():
        concealed = concealed | (torch.rand(patterns.shape, generator=generator) < doubt[:, None])
    return concealed


def readable(observation: Observation) -> Tensor:
    """The tokens (..., L) that were observed, and 0 where what was observed is none."""
    return observation.tokens.masked_fill(unknown(observation), 0)


def log_same(seen: Observation) -> Tensor:
    """(..., L) log c_l(y_l): how likely a token is to come out as it is; -inf where what came out is no token."""
    return pick(seen.channel.log_likelihood(seen), readable(seen)).masked_fill(unknown(seen), -torch.inf)


def pool_of(log_probs: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The pool of ``log_probs`` (m, n, V) at one weight (m,): (n, V) normalised, and its log normaliser (n,).

    A vertex is an expert as it is.
    """
    used = weight.nonzero()[:, 0].tolist()
    if len(used) == 1:
        return log_probs[used[0]], torch.zeros(())
    mixed = torch.einsum("i,inv->nv", weight[used].to(log_probs.dtype), log_probs[used])
    log_norm = torch.logsumexp(mixed, dim=-1)
    return mixed.sub_(log_norm[:, None]), log_norm


class CompositeEvidence:
    """The composite evidence of one sequence as a function of the field, with its gradient.

        C(lambda) = sum over scored l of  log sum_v c_l(v) pi_{lambda_l}(v)
        dC/dlambda_{l,i} = E_gamma[a_i] - E_pi[a_i]

    The log-probabilities at the scored positions are kept: 4 m V bytes a position, within BUDGET. Under a mask channel
    C is concave.
    """

    def __init__(
        self, position: Tensor, log_probs: Tensor, observation: Observation, repeats: int, *, prior_term: bool = True
    ) -> None:
        """Take what the experts said of an observation (L,).

        Args:
            position: (n,) every visible position, once for each repeat.
            log_probs: (m, n, V) what the experts say of them.
            observation: the sequence.
            repeats: how often each position was scored; the evidence is the mean over them.
            prior_term: False leaves E_pi[a_i] out of the gradient (the value stays that of the evidence).
        """
        self.position, self.log_probs = position, log_probs
        self.length, self.repeats, self.prior_term = len(observation.tokens), repeats, prior_term
        self.seen = observation.channel.observe(observation.tokens[position])

    @classmethod
    def gather(
        cls,
        experts: Sequence[Expert],
        observation: Observation,
        schedule: Schedule,
        generator: torch.Generator,
        doubt: Tensor | None = None,
        *,
        prior_term: bool = True,
    ) -> tuple["CompositeEvidence", Cost]:
        """Let the experts read the folds of an observation (L,); ``doubt`` (L,) as in ``gather_evidence``."""
        vocab_size = observation.channel.vocab_size
        context = check_experts(experts, vocab_size)
        scored = int((~observation.hidden).sum()) * schedule.repeats
        needed = 4 * len(experts) * vocab_size * scored
        if needed > BUDGET:
            raise ConservatorError(f"{scored} scored positions take {needed} bytes; at most {BUDGET} are kept")
        cost = Cost()
        batch = observation.channel.observe(observation.tokens[None])
        patterns = schedule.draw(~batch.hidden, generator)
        concealed = conceal(patterns, batch, None if doubt is None else doubt[None], generator)
        position = torch.empty(scored, dtype=torch.long)
        log_probs = torch.empty(len(experts), scored, vocab_size)
        filled = 0
        for said in read(experts, batch.tokens, concealed, patterns, context, cost):
            part = slice(filled, filled + len(said.position))
            position[part], log_probs[:, part] = said.position, said.log_probs
            filled = part.stop
        return cls(position, log_probs, observation, schedule.repeats, prior_term=prior_term), cost

    @property
    def shape(self) -> tuple[int, int]:
        """(L, m): positions and experts of the field."""
        return self.length, len(self.log_probs)

    def value_and_gradient(self, field: Tensor) -> tuple[Tensor, Tensor]:
        """Return C in nats and its gradient (L, m); rows of hidden positions are 0."""
        channel = self.seen.channel
        value = torch.zeros((), dtype=torch.float64)
        gradient = torch.zeros(self.shape, dtype=torch.float64)
        for position, tokens, said in self._parts():
            seen, log_probs = channel.observe(tokens), said.double()
            pool = log_pool(log_probs, field[position])
            value = value + channel.log_evidence(seen, pool).sum() / self.repeats
            law = channel.log_posterior(seen, pool).exp()
            if self.prior_term:
                law = law - pool.exp()
            local = torch.einsum("nv,inv->ni", law, log_probs) / self.repeats
            gradient.index_add_(0, position, local.detach())
        return value, gradient

    def kept(self, field: Tensor) -> Tensor:
        """(L,) the probability that a visible token is what was observed, under the pool at ``field``; else 0."""
        total = torch.zeros(self.length, dtype=torch.float64)
        for position, tokens, said in self._parts():
            seen, pool = self.seen.channel.observe(tokens), log_pool(said.double(), field[position])
            own = log_same(seen) + pick(pool, readable(seen)) - seen.channel.log_evidence(seen, pool)
            total.index_add_(0, position, own.exp())
        return total / self.repeats

    def _parts(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Positions, tokens and log-probabilities, in parts that may be copied."""
        rows = rows_at_once(2, self.log_probs.shape[2], len(self.log_probs))
        yield from zip(
            self.position.split(rows), self.seen.tokens.split(rows), self.log_probs.split(rows, dim=1), strict=True
        )
