"""Fitting of edit channels: the likelihood agrees with enumeration, and a planted channel is recovered."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator.alignment.fit_edits import fit_edits, log_likelihood, pair_lines, shortest_path
from conservator.channels import EditChannel
from conservator.errors import ConservatorError

TINY = EditChannel(
    {("ab", "c"): 0.2, ("a", "b"): 0.1, ("b", ""): 0.05, ("", "c"): 0.02, ("c", "ab"): 0.3}, {"a": 0.8}, 0.9
)
LETTERS = st.text(alphabet="abc", max_size=6)


def sum_of_paths(channel, observed, clean):
    """Sum the probabilities of all paths by recursion."""
    if not observed and not clean:
        return 1.0
    total = 0.0
    if observed and clean and observed[0] == clean[0]:
        total += channel.keep_prob(clean[0]) * sum_of_paths(channel, observed[1:], clean[1:])
    for (before, after), value in channel.edits.items():
        if clean.startswith(before) and observed.startswith(after) and (before or after):
            total += value * sum_of_paths(channel, observed[len(after) :], clean[len(before) :])
    return total


@settings(max_examples=60, deadline=None)
@given(LETTERS, LETTERS)
def test_the_likelihood_sums_all_paths(observed, clean):
    exact = sum_of_paths(TINY, observed, clean)
    assert log_likelihood(TINY, observed, clean) == pytest.approx(math.log(exact) if exact else -math.inf)


@given(LETTERS, LETTERS)
def test_a_path_connects_both_ends(observed, clean):
    path = shortest_path(observed, clean)
    assert path[0] == (0, 0)
    assert path[-1] == (len(clean), len(observed))
    moves = {(k - i, m - j) for (i, j), (k, m) in pairwise(path)}
    assert moves <= {(1, 1), (1, 0), (0, 1)}


def test_a_planted_channel_is_recovered():
    generator = np.random.default_rng(1)
    words = "the corner of the modern burnt barn was turned to the north in the morning".split()  # noqa: SIM905
    lines = [" ".join(generator.choice(words, 12)) for _ in range(300)]
    planted = EditChannel({("rn", "m"): 0.3, ("e", "c"): 0.1, (" ", ""): 0.04}, {"e": 0.9, " ": 0.96}, 1.0)
    pairs = [(planted.corrupt(line, generator), line) for line in lines]
    fitted = fit_edits(pairs, "planted")
    assert fitted.source == "planted"
    assert fitted.edits["rn", "m"] == pytest.approx(0.3 / 1.3, abs=0.05)
    assert fitted.edits["e", "c"] == pytest.approx(0.1, abs=0.02)
    assert fitted.edits[" ", ""] == pytest.approx(0.04, abs=0.02)
    assert fitted.keep_prob("e") == pytest.approx(0.9, abs=0.02)
    assert fitted.keep_prob("t") > 0.99


def test_lines_are_paired_by_index_or_as_one_text():
    assert pair_lines(["a", "b"], ["c", "d"]) == [("a", "c"), ("b", "d")]
    assert pair_lines(["a", "b"], ["c"]) == [("a\nb", "c")]
    fitted = fit_edits([("tbe cat\nsat tbere", "the cat sat there")] * 4)
    assert not any("\n" in before + after for before, after in fitted.edits)
    with pytest.raises(ConservatorError, match="no pair"):
        fit_edits([("", "x"), ("y", "")])
