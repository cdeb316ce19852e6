"""Composite evidence: the log-likelihood of each visible position, predicted while hidden from the experts.

    C(lambda; y) = sum over visible l of  log sum_v c_l(v) pi_{lambda_l}(v | visible positions without fold b(l))

Its gradient has the paper's form, posterior mean minus prior mean. Each mean is an exact sum over the tokens of one
position, without a sampler or particle noise.
"""

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.channels.likelihood import pick
from conservator.experts import Team
from conservator.field.folds import Folds, hide
from conservator.field.pool import log_pool
from conservator.reference.evidence.spill_buffer import SpillBuffer


class CompositeEvidence:
    """The composite evidence of one sequence as a function of the field, with its gradient.

        C(lambda) = sum over predicted l of  log sum_v c_l(v) pi_{lambda_l}(v)
        dC/dlambda_{l,i} = E_gamma[a_i] - E_pi[a_i]

    a_i(v) is the log-probability that expert i predicts for token v, and gamma(v) is proportional to c_l(v) pi(v). The
    predictions are stored, which takes 4 m V bytes for each position and repeat. Under a mask channel C is concave.
    """

    def __init__(
        self, predictions: SpillBuffer, observation: Observation, experts: int, repeats: int, *, prior_term: bool = True
    ) -> None:
        """Take the experts' predictions for an observation (L,).

        Args:
            predictions: of every visible position, once for each repeat.
            observation: the sequence.
            experts: m.
            repeats: the number of predictions of each position; the evidence is the mean over them.
            prior_term: False omits E_pi[a_i] from the gradient (the value is still that of the evidence).
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
        error_probs: Tensor | None = None,
        *,
        prior_term: bool = True,
    ) -> "CompositeEvidence":
        """Predict every visible position of an observation (L,) while its fold is hidden.

        ``error_probs`` (L,) is the probability with which an uncertain token is hidden; None for 0.
        """
        team.check(observation)
        batch = observation[None]
        patterns = folds.draw(~batch.lost, generator, batch.excerpt)
        hidden = hide(patterns, batch, None if error_probs is None else error_probs[None], generator)
        predictions = SpillBuffer()
        for part in team.read(batch.tokens, hidden, patterns, excerpt=batch.excerpt):
            predictions.add(part)
        return cls(predictions, observation, len(team), folds.repeats, prior_term=prior_term)

    @classmethod
    def by_cavity(cls, team: Team, observation: Observation) -> "CompositeEvidence":
        """Predict every visible position of an observation (L,) from all other positions, in one pass.

        The experts of the team must be ``LeaveOneOut`` experts, which have a uniform source.
        """
        team.check(observation)
        batch = observation[None]
        predictions = SpillBuffer()
        for part in team.read(batch.readable, batch.hidden[:, None], ~batch.lost[:, None], excerpt=batch.excerpt):
            predictions.add(part)
        return cls(predictions, observation, len(team), 1)

    @property
    def shape(self) -> tuple[int, int]:
        """(L, m): positions and experts of the field."""
        return len(self.observation.tokens), self.experts

    def value_and_gradient(self, field: Tensor) -> tuple[Tensor, Tensor]:
        """Return C in nats and its gradient (L, m); rows of positions without predictions are 0."""
        value = torch.zeros((), dtype=torch.float64)
        gradient = torch.zeros(self.shape, dtype=torch.float64)
        for position, rows in self.predictions:
            likelihood, log_probs = self.observation[position].likelihood, rows.double()
            pool = log_pool(log_probs, field[position])
            value = value + likelihood.log_evidence(pool).sum() / self.repeats
            expectation = likelihood.log_posterior(pool).exp()
            if self.prior_term:
                expectation = expectation - pool.exp()
            local = torch.einsum("nv,inv->ni", expectation, log_probs) / self.repeats
            gradient.index_add_(0, position, local.detach())
        return value, gradient

    def gradient(self, field: Tensor) -> Tensor:
        """Return the gradient (L, m)."""
        return self.value_and_gradient(field)[1]

    def correct_probs(self, field: Tensor) -> Tensor:
        """Return (L,) the probability, under the pool at ``field``, that the observed token is correct.

        It is 0 at positions without predictions.
        """
        total = torch.zeros(len(self.observation.tokens), dtype=torch.float64)
        for position, rows in self.predictions:
            observed, pool = self.observation[position], log_pool(rows.double(), field[position])
            log_correct = observed.log_same() + pick(pool, observed.readable) - observed.likelihood.log_evidence(pool)
            total.index_add_(0, position, log_correct.exp())
        return total / self.repeats
