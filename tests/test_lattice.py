"""Lattices against the enumeration of all paths."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.lattice import Lattice

SCORES = st.floats(-5, 5)


@st.composite
def lattices(draw):
    size = draw(st.integers(1, 6))
    pairs = [(source, target) for source in range(size) for target in range(source + 1, size)]
    arcs = sorted(draw(st.lists(st.sampled_from(pairs), max_size=10))) if pairs else []
    scores = draw(st.lists(SCORES, min_size=len(arcs), max_size=len(arcs)))
    final = sorted(draw(st.sets(st.integers(0, size - 1), min_size=1)))
    sources, targets = np.array(arcs, dtype=np.int64).reshape(-1, 2).T
    return Lattice(size, sources.copy(), targets.copy(), np.array(scores), np.array(final))


def every_path(lattice, node=0):
    """All paths from a node to final nodes, as tuples of arcs."""
    if node in lattice.final:
        yield ()
    for arc in np.flatnonzero(lattice.sources == node).tolist():
        yield from ((arc, *rest) for rest in every_path(lattice, int(lattice.targets[arc])))


@given(lattices())
def test_sums_and_posteriors_are_those_of_all_paths(lattice):
    scores = {path: sum(lattice.scores[arc] for arc in path) for path in every_path(lattice)}
    total = np.logaddexp.reduce([-np.inf, *scores.values()])
    assert lattice.log_total == pytest.approx(total)
    final_sums = [lattice.alpha[node] for node in lattice.final]
    assert np.logaddexp.reduce(final_sums) == pytest.approx(total)
    for arc in range(len(lattice.scores)):
        mass = np.logaddexp.reduce([-np.inf, *(score for path, score in scores.items() if arc in path)])
        posterior = math.exp(mass - total) if scores else 0.0
        assert math.exp(lattice.log_posteriors[arc]) == pytest.approx(posterior, abs=1e-12)
