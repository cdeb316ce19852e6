"""Scales of the experts' energies, one number per expert, fitted by the evidence of the damaged text.

The paper composes unscaled energies. With scales, the pool is proportional to prod_i p_i(v)^(alpha_i lambda_i): the
pool of experts whose distributions are raised to the powers alpha_i. EM maximises the evidence of hidden visible tokens
over the scales. Given the posterior of the field, the evidence is concave in the scales, with the gradient

    sum over l and s of p(s_l = s) w_{s,i} (a_i(x_l) - E_pi[a_i]),   a_i(v) = log p_i(v)

Its Hessian is minus the sum of the covariances of the w_{s,i} a_i under the pools.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.experts import At, Context, Expert, ExpertSpec, Predictions, Team
from conservator.field import simplex_grid
from conservator.reference import infer_grid

MAX_ITERATIONS = 12  # iterations: of EM [safety limit]
TOLERANCE = 1e-3  # step in log-scale for convergence; posterior probability of states that are skipped [numerical]
PRIOR_SD = 0.5  # log-scale: standard deviation of the normal prior [untuned]
MIN_SCALE, MAX_SCALE = 0.25, 4.0  # scale: bounds [safety limit]


class ScaledExpert:
    """An expert with energies multiplied by a scale: its distribution is raised to a power."""

    def __init__(self, expert: Expert, scale: float) -> None:
        """Wrap ``expert`` with ``scale``."""
        self.expert, self.scale = expert, scale
        self.spec: ExpertSpec = replace(expert.spec)

    def predict(self, context: Context, at: At) -> Tensor:
        """Predict the normalised power of the distribution of the expert (n, V)."""
        return torch.log_softmax(self.scale * self.expert.predict(context, at), dim=-1)


@dataclass(frozen=True)
class ExpertScales:
    """Fitted scales.

    Attributes:
        values: (m,) scale of each expert.
        trace: log-evidence plus log-prior of the scales before each step, in nats.
    """

    values: Tensor
    trace: tuple[float, ...]

    def apply(self, team: Team) -> Team:
        """Return the team with scaled experts."""
        return Team(
            [ScaledExpert(expert, float(scale)) for expert, scale in zip(team.experts, self.values, strict=True)]
        )


def fit_scales(predictions: Sequence[Predictions], observation: Observation) -> ExpertScales:
    """Fit one scale per expert by the evidence of visible tokens.

    Args:
        predictions: predictions of the experts for hidden visible tokens; each token once.
        observation: (N, L).
    """
    experts = len(predictions[0].log_probs)
    weights = simplex_grid(experts)
    scales, trace = torch.ones(experts, dtype=torch.float64), []
    for _ in range(MAX_ITERATIONS):
        fields = infer_grid(scale_predictions(predictions, scales), observation, weights)
        evidence = sum(posterior.log_evidence for posterior in fields.posteriors)
        trace.append(evidence - float((scales.log() ** 2).sum()) / (2 * PRIOR_SD**2))
        states = fields.composition().state_probs
        gradient, hessian = evidence_derivatives(predictions, observation, states, torch.from_numpy(weights), scales)
        # Newton step in the logarithms of the scales, which have a normal prior.
        log_scales = scales.log()
        slope = scales * gradient - log_scales / PRIOR_SD**2
        curvature = scales[:, None] * hessian * scales - torch.eye(experts, dtype=torch.float64) / PRIOR_SD**2
        step = torch.linalg.solve(-curvature, slope).clamp(-0.5, 0.5)
        scales = (log_scales + step).exp().clamp(MIN_SCALE, MAX_SCALE)
        if float(step.abs().max()) < TOLERANCE:
            break
    return ExpertScales(scales, tuple(trace))


def scale_predictions(predictions: Sequence[Predictions], scales: Tensor) -> list[Predictions]:
    """Return the predictions of the scaled experts."""
    return [
        replace(batch, log_probs=torch.log_softmax(scales[:, None, None].float() * batch.log_probs, dim=-1))
        for batch in predictions
    ]


def evidence_derivatives(
    predictions: Sequence[Predictions], observation: Observation, states: Tensor, weights: Tensor, scales: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradient (m,) and Hessian (m, m) of the evidence with respect to the scales, given the posterior of the states.

    Args:
        predictions: unscaled predictions of the experts.
        observation: (N, L).
        states: (N, L, S) posterior of the states.
        weights: (S, m) weight grid.
        scales: (m,).
    """
    count = len(scales)
    gradient, hessian = torch.zeros(count, dtype=torch.float64), torch.zeros(count, count, dtype=torch.float64)
    for batch in predictions:
        at = (batch.sequence, batch.position)
        truth = observation.tokens[at].expand(count, -1)[..., None]
        true_log_probs = batch.log_probs.gather(-1, truth)[..., 0]  # (m, n)
        for state, weight in enumerate(weights):
            active = weight.nonzero()[:, 0]
            probability = states[(*at, torch.tensor(state))].float()
            likely = (probability > TOLERANCE).nonzero()[:, 0]
            energies = weight[active, None, None].float() * batch.log_probs[active][:, likely]  # (u, k, V)
            pool = torch.softmax(torch.einsum("i,ikv->kv", scales[active].float(), energies), dim=-1)
            mean = torch.einsum("kv,ikv->ik", pool, energies)
            deviation = weight[active, None].float() * true_log_probs[active][:, likely] - mean
            gradient.index_add_(0, active, (deviation @ probability[likely]).double())
            square = torch.einsum("ikv,jkv->ij", (probability[likely, None] * pool) * energies, energies)
            covariance = (square - (mean * probability[likely]) @ mean.T).double()
            hessian[active[:, None], active] -= covariance
    return gradient, hessian
