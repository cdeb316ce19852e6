"""Muon against the singular value decomposition and the plain iteration."""

import pytest
import torch

from conservator.training.muon import Muon, orthogonalise


def plain_iteration(matrix):
    x = matrix / (matrix.norm() + 1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x


@pytest.mark.parametrize("shape", [(24, 96), (96, 24), (32, 32), (7, 1), (1, 7)])
def test_singular_values_come_near_one_and_the_vectors_stay(shape, generator):
    matrix = torch.randn(shape, generator=generator)
    found = orthogonalise(matrix)
    assert found.shape == shape
    values = torch.linalg.svdvals(found)
    assert values.min() > 0.3
    assert values.max() < 1.3
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    inner = u.T @ found @ v.T
    torch.testing.assert_close(inner, torch.diag(inner.diagonal()), rtol=0, atol=1e-4)


@pytest.mark.parametrize("decay", [0.0, 3.0])
def test_the_iteration_on_the_gram_matrix_is_the_plain_one(decay, generator):
    matrix = torch.randn(24, 96, generator=generator) * torch.logspace(0, -decay, 96)
    torch.testing.assert_close(orthogonalise(matrix), plain_iteration(matrix), rtol=1e-3, atol=1e-4)


def test_a_zero_gradient_moves_nothing(generator):
    weight = torch.randn(4, 6, generator=generator).requires_grad_()
    before = weight.detach().clone()
    optimiser = Muon([weight], lr=0.1)
    weight.grad = torch.zeros_like(weight)
    optimiser.step()
    assert torch.equal(weight, before)


def test_a_step_goes_down_the_gradient(generator):
    target = torch.randn(4, 6, generator=generator)
    weight = torch.zeros(4, 6, requires_grad=True)
    optimiser = Muon([weight], lr=0.05)
    losses = []
    for _ in range(100):
        optimiser.zero_grad()
        loss = (weight - target).square().sum()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]
