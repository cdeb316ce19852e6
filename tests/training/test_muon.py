"""Muon: comparison with the singular value decomposition and with the direct iteration."""

import pytest
import torch

from conservator.training.muon import Muon, orthogonalise


def direct_iteration(matrix):
    x = matrix / (matrix.norm() + 1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x


@pytest.mark.parametrize("shape", [(24, 96), (96, 24), (32, 32), (7, 1), (1, 7)])
def test_singular_values_approach_one_and_singular_vectors_are_preserved(shape, generator):
    matrix = torch.randn(shape, generator=generator)
    result = orthogonalise(matrix)
    assert result.shape == shape
    values = torch.linalg.svdvals(result)
    assert values.min() > 0.3
    assert values.max() < 1.3
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    inner = u.T @ result @ v.T
    torch.testing.assert_close(inner, torch.diag(inner.diagonal()), rtol=0, atol=1e-4)


@pytest.mark.parametrize("decay", [0.0, 3.0])
def test_the_iteration_on_the_gram_matrix_equals_the_direct_one(decay, generator):
    matrix = torch.randn(24, 96, generator=generator) * torch.logspace(0, -decay, 96)
    torch.testing.assert_close(orthogonalise(matrix), direct_iteration(matrix), rtol=1e-3, atol=1e-4)


def test_a_zero_gradient_changes_nothing(generator):
    weight = torch.randn(4, 6, generator=generator).requires_grad_()
    before = weight.detach().clone()
    optimiser = Muon([weight], lr=0.1)
    weight.grad = torch.zeros_like(weight)
    optimiser.step()
    assert torch.equal(weight, before)


def test_steps_decrease_the_loss(generator):
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
