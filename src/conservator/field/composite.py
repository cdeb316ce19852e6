"""Composite evidence: what experts predict of each visible position while it is hidden from them.

    C(lambda; y) = sum over visible l of  log sum_v c_l(v) pi_{lambda_l}(v | what fold b(l) leaves visible)

Its gradient is the paper's posterior minus prior, on conditionals that are exact: no sampler, no particle noise.
"""

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.channels.likelihood import pick
from conservator.experts import Team
from conservator.field.folds import Folds, hide
from conservator.field.pool import log_pool
from conservator.field.store import Store


class CompositeEvidence:
    """The composite evidence of one sequence as a function of the field, with its gradient.

        C(lambda) = sum over predicted l of  log sum_v c_l(v) pi_{lambda_l}(v)
        dC/dlambda_{l,i} = E_gamma[a_i] - E_pi[a_i]

    The predictions are kept: 4 m V bytes a position and repeat. Under a mask channel C is concave.
    """

    def __init__(
        self, predictions: Store, observation: Observation, experts: int, repeats: int, *, prior_term: bool = True
    ) -> None:
        """Take what the experts predict of an observation (L,).

        Args:
            predictions: of every visible position, once for each repeat.
            observation: the sequence.
            experts: m.
            repeats: how often each position was predicted; the evidence is the mean over them.
            prior_term: False leaves E_pi[a_i] out of the gradient (the value stays that of the evidence).
        """
        self.predictions, self.observation = predictions, observation
        self.experts, self.repeats, self.prior_term = experts, repeats, prior_term

    @classmethod
    def gather(
        cls,
        team: Team,
        observation: Observation,
        folds: Folds,
        generator: torch.Generator,
        doubt: Tensor | None = None,
        *,
        prior_term: bool = True,
    ) -> "CompositeEvidence":
        """Let a team read the folds of an observation (L,).

        ``doubt`` (L,) is the probability with which a token is hidden because it may be wrong.
        """
        team.check(observation)
        batch = observation[None]
        patterns = folds.draw(~batch.lost, generator, batch.excerpt)
        hidden = hide(patterns, batch, None if doubt is None else doubt[None], generator)
        predictions = Store()
        for found in team.read(batch.tokens, hidden, patterns, excerpt=batch.excerpt):
            predictions.add(found)
        return cls(predictions, observation, len(team), folds.repeats, prior_term=prior_term)

    @property
    def shape(self) -> tuple[int, int]:
        """(L, m): positions and experts of the field."""
        return len(self.observation.tokens), self.experts

    def value_and_gradient(self, field: Tensor) -> tuple[Tensor, Tensor]:
        """Return C in nats and its gradient (L, m); rows of positions that were not predicted are 0."""
        value = torch.zeros((), dtype=torch.float64)
        gradient = torch.zeros(self.shape, dtype=torch.float64)
        for position, rows in self.predictions:
            likelihood, log_probs = self.observation[position].likelihood, rows.double()
            pool = log_pool(log_probs, field[position])
            value = value + likelihood.log_evidence(pool).sum() / self.repeats
            law = likelihood.log_posterior(pool).exp()
            if self.prior_term:
                law = law - pool.exp()
            local = torch.einsum("nv,inv->ni", law, log_probs) / self.repeats
            gradient.index_add_(0, position, local.detach())
        return value, gradient

    def kept(self, field: Tensor) -> Tensor:
        """(L,) the probability that a visible token is what was seen, under the pool at ``field``; else 0."""
        total = torch.zeros(len(self.observation.tokens), dtype=torch.float64)
        for position, rows in self.predictions:
            seen, pool = self.observation[position], log_pool(rows.double(), field[position])
            own = seen.log_same() + pick(pool, seen.readable) - seen.likelihood.log_evidence(pool)
            total.index_add_(0, position, own.exp())
        return total / self.repeats
