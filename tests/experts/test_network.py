"""The network of the byte experts."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.experts.network import HIDDEN, MAX_OFFSET, NGRAMS, NUM_BYTES, ByteNetwork, ngram_rows
from conservator.training import PRESETS
from support.networks import PLAIN, TINY, random_network

NETWORKS = {"hourglass": random_network(TINY).eval(), "transformer": random_network(PLAIN).eval()}
networks = pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS.keys())


def draw(length, seed=0):
    generator = torch.Generator().manual_seed(seed)
    symbols = torch.randint(NUM_BYTES, (1, length), generator=generator)
    return symbols.masked_fill(torch.rand(1, length, generator=generator) < 0.4, HIDDEN)


@networks
@given(length=st.integers(1, 33), seed=st.integers(0, 20))
def test_padding_changes_nothing_before_it(network, length, seed):
    symbols = draw(length, seed)
    single = network(symbols, torch.ones_like(symbols, dtype=torch.bool))
    max_length = 40
    padded = torch.cat([symbols, draw(max_length - length, seed + 1)], dim=1)
    real = torch.arange(max_length)[None] < length
    # The second row has no padding to exclude from attention.
    together = network(torch.cat([padded, draw(max_length)]), torch.cat([real, torch.ones_like(real)]))
    torch.testing.assert_close(together[:1, :length], single, rtol=1e-4, atol=1e-4)


@networks
def test_every_position_depends_on_every_other(network):
    symbols = torch.randint(NUM_BYTES, (1, 16), generator=torch.Generator().manual_seed(0))
    real = torch.ones_like(symbols, dtype=torch.bool)
    before = network(symbols, real)
    for position in range(16):
        other = symbols.clone()
        other[0, position] = (symbols[0, position] + 1) % NUM_BYTES
        assert ((network(other, real) - before).abs().amax(-1) > 0).all()


def test_an_untrained_network_predicts_the_uniform_distribution():
    symbols = draw(16)
    assert (ByteNetwork(TINY)(symbols, torch.ones_like(symbols, dtype=torch.bool)) == 0).all()


def test_the_papers_network_has_about_14_million_weights():
    with torch.device("meta"):
        network = ByteNetwork(PRESETS["paper"].network)
    assert 14e6 < sum(weight.numel() for weight in network.parameters()) < 15e6


def test_memory_rows_depend_on_the_n_grams_around_a_position():
    symbols = draw(30)
    rows = ngram_rows(symbols, 10**6)
    assert rows.shape == (1, 30, len(NGRAMS))
    assert ((rows >= 0) & (rows < 10**6)).all()
    for changed_position in range(30):
        changed = ngram_rows(symbols.index_fill(1, torch.tensor(changed_position), 7), 10**6) != rows
        for position in range(30):
            expected = [changed_position - position in ngram for ngram in NGRAMS]
            assert changed[0, position].tolist() == expected
    assert max(abs(offset) for ngram in NGRAMS for offset in ngram) == MAX_OFFSET
