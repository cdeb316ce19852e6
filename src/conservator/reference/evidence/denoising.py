"""Denoising losses as local energies, equation (dscore)."""

import torch
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.experts import Context, Expert, Team
from conservator.reference.experts.sequences import LIMIT, all_sequences


def denoising_score(team: Team, tokens: Tensor, samples: int, generator: torch.Generator) -> Tensor:
    """Compute the K-sample denoising score of candidate sequences under the single expert of a team.

        DScore_{i,l}(x) = (1/K) sum_k -log p_i(x_l | x_{t_k}),   t_k uniform, kappa(t) = t

    Revealed positions are scored too, as in the paper; experts copy visible tokens, so their score is 0.
    The times are stratified: one in each of K equal intervals, in random order for every sequence.

    Args:
        team: a single expert.
        tokens: (B, L) candidate sequences.
        samples: K, the number of noised copies of a sequence.
        generator: the source of all randomness.

    Returns:
        (B, L) scores in nats; minus these are the energies s_{i,l} with alpha_i = 1.
    """
    batch, length = tokens.shape
    strata = torch.rand(samples, batch, generator=generator).argsort(dim=0)
    kappas = (strata + torch.rand(samples, batch, generator=generator)) / samples
    total = torch.zeros(batch, length, dtype=torch.float64)
    for kappa in kappas:
        hidden = torch.rand(batch, length, generator=generator) >= kappa[:, None]
        at = hidden.nonzero(as_tuple=True)
        predicted = team.predict(Context(tokens, hidden, kappa), at)[0]
        total[at] -= predicted.gather(-1, tokens[at][:, None])[:, 0]
    return total / samples


def expected_denoising_score(expert: Expert, tokens: Tensor, *, schedule_weight: bool) -> Tensor:
    """Compute the denoising score, exactly averaged over time and maskings, at every position.

    With t uniform and kappa(t) = t, the pattern that hides the set H of L positions has probability
    B(L - |H| + 1, |H| + 1), and the score of equation (dscore), which also scores revealed positions
    (at 0, because experts copy visible tokens), is

        E_{i,l}(x) = sum over H containing l of  B(L - |H| + 1, |H| + 1) * -log p_i(x_l | x outside H)

    With ``schedule_weight`` each time is weighted by 1 / (1 - kappa): the weights become
    B(L - |H| + 1, |H|), which average over a uniformly random order, and for a Bayes-optimal denoiser the
    scores sum to -log q_i(x) (the any-order decomposition of section "Denoising losses").

    Args:
        expert: any expert; it is evaluated on all 2^L - 1 maskings.
        tokens: (B, L) candidate sequences.
        schedule_weight: False for the deployed score, True for the schedule-weighted one.

    Returns:
        (B, L) scores in nats.
    """
    batch, length = tokens.shape
    patterns = all_sequences(2, length).bool()[1:]  # without the empty masking
    if batch * len(patterns) > LIMIT:
        raise ConservatorError(
            f"{len(patterns)} maskings of {batch} sequences are too many to enumerate; the limit is {LIMIT}"
        )
    rows = tokens.repeat_interleave(len(patterns), dim=0)
    hidden = patterns.repeat(batch, 1)
    at = hidden.nonzero(as_tuple=True)
    predicted = expert.predict(Context(rows, hidden), at)
    losses = torch.zeros(rows.shape, dtype=predicted.dtype)
    losses[at] = -predicted.gather(-1, rows[at][:, None])[:, 0]
    losses = losses.reshape(batch, len(patterns), length)
    hidden_count = patterns.sum(dim=1).to(torch.float64)
    shape_hidden = hidden_count if schedule_weight else hidden_count + 1
    weights = torch.exp(_log_beta(length - hidden_count + 1, shape_hidden))
    return torch.einsum("p,bpl->bl", weights, losses.to(torch.float64))


def _log_beta(a: Tensor, b: Tensor) -> Tensor:
    return torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
