"""The scales of the experts' energies, one number an expert, chosen by the evidence of the damaged text itself.

The paper composes energies as they are. With scales, the pool is proportional to prod_i p_i(v)^(alpha_i lambda_i): the
pool of experts whose laws are raised to the powers alpha_i. The evidence of visible tokens that were hidden is
maximised over them by EM: given the posterior of the field it is concave in them, with the gradient

    sum over l and s of p(s_l = s) w_{s,i} (a_i(x_l) - E_pi[a_i]),   a_i(v) = log p_i(v)

and minus the covariances of the w_{s,i} a_i under the pools as its Hessian.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.experts import At, Context, Expert, ExpertSpec, Predictions, Team
from conservator.field import simplex_grid
from conservator.reference import infer_grid

ITERATIONS = 12
TOLERANCE = 1e-3
SPREAD = 0.5  # the standard deviation of the logarithm of a scale, before anything is seen
LEAST, MOST = 0.25, 4.0


class Scaled:
    """An expert whose energies are multiplied by a scale, that is, whose law is raised to a power."""

    def __init__(self, expert: Expert, scale: float) -> None:
        """Take an expert and its scale."""
        self.expert, self.scale = expert, scale
        self.spec: ExpertSpec = replace(expert.spec)

    def predict(self, context: Context, at: At) -> Tensor:
        """What the expert predicts, raised to the power and normalised: (n, V)."""
        return torch.log_softmax(self.scale * self.expert.predict(context, at), dim=-1)


@dataclass(frozen=True)
class Scales:
    """The scales that were found.

    Attributes:
        values: (m,).
        trace: the log evidence and log prior of the scales before each step, in nats.
    """

    values: Tensor
    trace: tuple[float, ...]

    def apply(self, team: Team) -> Team:
        """The team with these scales."""
        return Team([Scaled(expert, float(scale)) for expert, scale in zip(team.experts, self.values, strict=True)])


def fit_scales(read: Sequence[Predictions], observation: Observation) -> Scales:
    """Choose one scale for each expert by the evidence of visible tokens.

    Args:
        read: the experts' predictions of these tokens while they were hidden; each token once.
        observation: (N, L).
    """
    experts = len(read[0].log_probs)
    weights = simplex_grid(experts)
    scales, trace = torch.ones(experts, dtype=torch.float64), []
    for _ in range(ITERATIONS):
        found = infer_grid(scaled(read, scales), observation, weights)
        evidence = sum(one.log_evidence for one in found.posteriors)
        trace.append(evidence - float((scales.log() ** 2).sum()) / (2 * SPREAD**2))
        states = found.composition().share
        gradient, hessian = derivatives(read, observation, states, torch.from_numpy(weights), scales)
        # In the logarithms of the scales, of which the prior is normal.
        logs = scales.log()
        slope = scales * gradient - logs / SPREAD**2
        curvature = scales[:, None] * hessian * scales - torch.eye(experts, dtype=torch.float64) / SPREAD**2
        step = torch.linalg.solve(-curvature, slope).clamp(-0.5, 0.5)
        scales = (logs + step).exp().clamp(LEAST, MOST)
        if float(step.abs().max()) < TOLERANCE:
            break
    return Scales(scales, tuple(trace))


def scaled(read: Sequence[Predictions], scales: Tensor) -> list[Predictions]:
    """The predictions of the scaled experts."""
    return [
        replace(part, log_probs=torch.log_softmax(scales[:, None, None].float() * part.log_probs, dim=-1))
        for part in read
    ]


def derivatives(
    read: Sequence[Predictions], observation: Observation, states: Tensor, weights: Tensor, scales: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradient (m,) and the Hessian (m, m) of the evidence in the scales, given the posterior of the states.

    Args:
        read: the experts' predictions, not scaled.
        observation: (N, L).
        states: (N, L, S) the posterior.
        weights: (S, m) the lattice.
        scales: (m,).
    """
    count = len(scales)
    gradient, hessian = torch.zeros(count, dtype=torch.float64), torch.zeros(count, count, dtype=torch.float64)
    for part in read:
        place = (part.sequence, part.position)
        truth = observation.tokens[place].expand(count, -1)[..., None]
        own = part.log_probs.gather(-1, truth)[..., 0]  # (m, n)
        for state, weight in enumerate(weights):
            used = weight.nonzero()[:, 0]
            share = states[(*place, torch.tensor(state))].float()
            kept = (share > TOLERANCE).nonzero()[:, 0]
            energies = weight[used, None, None].float() * part.log_probs[used][:, kept]  # (u, k, V)
            law = torch.softmax(torch.einsum("i,ikv->kv", scales[used].float(), energies), dim=-1)
            mean = torch.einsum("kv,ikv->ik", law, energies)
            found = weight[used, None].float() * own[used][:, kept] - mean
            gradient.index_add_(0, used, (found @ share[kept]).double())
            square = torch.einsum("ikv,jkv->ij", (share[kept, None] * law) * energies, energies)
            covariance = (square - (mean * share[kept]) @ mean.T).double()
            hessian[used[:, None], used] -= covariance
    return gradient, hessian
