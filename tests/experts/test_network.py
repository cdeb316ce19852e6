"""The network of the byte experts."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.experts.network import BYTES, GRAMS, HIDDEN, REACH, ByteNetwork, gram_rows
from conservator.training import PRESETS
from support.networks import PLAIN, TINY, random_network

NETWORKS = {"hourglass": random_network(TINY).eval(), "transformer": random_network(PLAIN).eval()}
networks = pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS.keys())


def draw(length, seed=0):
    generator = torch.Generator().manual_seed(seed)
    symbols = torch.randint(BYTES, (1, length), generator=generator)
    return symbols.masked_fill(torch.rand(1, length, generator=generator) < 0.4, HIDDEN)


@networks
@given(length=st.integers(1, 33), seed=st.integers(0, 20))
def test_padding_changes_nothing_before_it(network, length, seed):
    symbols = draw(length, seed)
    alone = network(symbols, torch.ones_like(symbols, dtype=torch.bool))
    longest = 40
    padded = torch.cat([symbols, draw(longest - length, seed + 1)], dim=1)
    real = torch.arange(longest)[None] < length
    # A row that fills the batch, beside it: its attention has no padding to leave out.
    together = network(torch.cat([padded, draw(longest)]), torch.cat([real, torch.ones_like(real)]))
    torch.testing.assert_close(together[:1, :length], alone, rtol=1e-4, atol=1e-4)


@networks
def test_every_position_hears_of_every_other(network):
    symbols = torch.randint(BYTES, (1, 16), generator=torch.Generator().manual_seed(0))
    real = torch.ones_like(symbols, dtype=torch.bool)
    before = network(symbols, real)
    for place in range(16):
        other = symbols.clone()
        other[0, place] = (symbols[0, place] + 1) % BYTES
        assert ((network(other, real) - before).abs().amax(-1) > 0).all()


def test_an_untrained_network_predicts_the_uniform_distribution():
    symbols = draw(16)
    assert (ByteNetwork(TINY)(symbols, torch.ones_like(symbols, dtype=torch.bool)) == 0).all()


def test_the_papers_network_has_about_14_million_weights():
    with torch.device("meta"):
        network = ByteNetwork(PRESETS["paper"].network)
    assert 14e6 < sum(weight.numel() for weight in network.parameters()) < 15e6


def test_the_rows_of_the_memory_are_those_of_the_neighbours():
    symbols = draw(30)
    rows = gram_rows(symbols, 10**6)
    assert rows.shape == (1, 30, len(GRAMS))
    assert ((rows >= 0) & (rows < 10**6)).all()
    for place in range(30):
        changed = gram_rows(symbols.index_fill(1, torch.tensor(place), 7), 10**6) != rows
        for position in range(30):
            reads = [place - position in gram for gram in GRAMS]
            assert changed[0, position].tolist() == reads
    assert max(abs(offset) for gram in GRAMS for offset in gram) == REACH
