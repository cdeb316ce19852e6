"""The channel of lost characters of known width."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import CharacterMaskChannel
from conservator.channels.character_mask import ANY, FURTHER, kinds_of_characters
from conservator.channels.observation import Excerpt
from conservator.errors import ConservatorError
from conservator.vocabularies import BYTES

CHARACTERS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


def observe(text, lost, **options):
    """Return the channel and the observation of a text that lost the characters with the indices ``lost``."""
    data, kinds = [], []
    for index, character in enumerate(text):
        encoded = list(character.encode())
        is_lost = index in lost
        data += [BYTES.mask] * len(encoded) if is_lost else encoded
        kinds += kinds_of_characters(np.array([len(encoded)])).tolist() if is_lost else [ANY] * len(encoded)
    channel = CharacterMaskChannel(np.array(kinds), **options)
    return channel, channel.observe(torch.tensor([data]))


@given(CHARACTERS, st.data())
def test_the_bytes_of_the_lost_characters_are_possible(text, data):
    lost = data.draw(st.sets(st.integers(0, len(text) - 1)))
    _, observation = observe(text, lost)
    clean = torch.tensor([list(text.encode())])
    assert torch.isfinite(observation.likelihood.at(clean)).all()
    assert (observation.likelihood.at(clean)[~observation.lost] == 0).all()


def test_evidence_and_posterior_agree_with_the_table(generator):
    weights = np.linspace(0.1, 1.0, BYTES.size)
    _, observation = observe("aé€𝄞b", {1, 2, 3}, weights=weights)
    log_probs = torch.log_softmax(torch.randn(1, 11, BYTES.size, generator=generator, dtype=torch.float64), dim=-1)
    joint = observation.likelihood.table() + log_probs
    torch.testing.assert_close(observation.likelihood.log_evidence(log_probs), torch.logsumexp(joint, dim=-1))
    rates = torch.full((BYTES.size,), 0.5, dtype=torch.float64)
    scaled = observation.likelihood.with_loss_rates(rates)
    assert scaled.has_loss_rates
    torch.testing.assert_close(
        scaled.table()[observation.lost], observation.likelihood.table()[observation.lost] + np.log(0.5)
    )


def test_widths_determine_kinds():
    assert kinds_of_characters(np.array([1, 2, 3, 4])).tolist() == [1, 2, FURTHER, 3, *[FURTHER] * 2, 4, *[FURTHER] * 3]


def test_an_excerpt_keeps_the_kinds_of_its_positions():
    channel, whole = observe("aéb", {1})
    positions = torch.tensor([1, 2, 3])
    excerpt = channel.observe(whole.tokens[:, positions], Excerpt(positions, whole.tokens.shape[1]))
    torch.testing.assert_close(excerpt.likelihood.table(), whole.likelihood.table()[:, positions])
    with pytest.raises(ConservatorError, match="expected 4 bytes"):
        channel.likelihood(whole.tokens[:, :2])


def test_the_channel_erases_the_bytes_that_have_a_kind(generator):
    channel, observation = observe("aéb", {1})
    clean = torch.tensor([list("aéb".encode())])
    assert torch.equal(channel.corrupt(clean, generator).tokens, observation.tokens)
