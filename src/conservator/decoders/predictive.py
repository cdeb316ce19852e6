"""The posterior predictive: the average of pools under the posterior of the field."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.experts.expert import Expert
from conservator.field.composite import Cost, Said, check_experts, pool_of, read


def predict(
    experts: Sequence[Expert],
    observation: Observation,
    states: Tensor,
    weights: Tensor,
    cost: Cost,
) -> Iterator[tuple[Said, Tensor]]:
    """Predict the hidden tokens.

        p(x_l = v | y) = sum_s p(s_l = s | y) pi_{w_s}(v | visible tokens)

    Args:
        experts: m of them.
        observation: (N, L).
        states: (N, L, S) the posterior of the compositions.
        weights: (S, m) the compositions.
        cost: counts what is spent.

    Yields:
        What the experts said of some hidden positions, and the log-probabilities (n, V) there.
    """
    context = check_experts(experts, observation)
    hidden = observation.hidden[:, None]
    for said in read(experts, observation.tokens, hidden, hidden, context, cost):
        share = states[said.sequence, said.position].float()
        total = torch.zeros_like(said.log_probs[0])
        for state, weight in enumerate(weights):
            total += share[:, state, None] * pool_of(said.log_probs, weight).exp()
        yield said, total.log()
