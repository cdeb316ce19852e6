"""Folds: every visible position is hidden once a repeat, and positions far from damage are left alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import Excerpt, MaskChannel, ReplacementChannel
from conservator.errors import ConservatorError
from conservator.field import Folds, hide
from conservator.field.folds import near_damage

SIZE = 4


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@given(
    length=st.integers(1, 40),
    folds=st.integers(1, 7),
    repeats=st.integers(1, 3),
    rate=st.floats(0, 1),
    seed=st.integers(0, 100),
)
def test_every_visible_position_is_hidden_once_a_repeat(length, folds, repeats, rate, seed):
    visible = torch.rand(3, length, generator=seeded(seed)) >= rate
    schedule = Folds(folds, repeats)
    patterns = schedule.draw(visible, seeded(seed))
    assert patterns.shape == (3, schedule.patterns, length)
    for part in patterns.split(folds, dim=1):
        assert torch.equal(part.sum(1), visible.long())
        sizes = part.sum(-1)
        assert (sizes.max(1).values - sizes.min(1).values <= 1).all()


@given(length=st.integers(1, 40), rate=st.floats(0, 1), seed=st.integers(0, 100))
def test_an_excerpt_gets_the_folds_of_the_whole_sequence(length, rate, seed):
    """What lies outside it is not visible, as far as the folds go."""
    kept = torch.rand(length, generator=seeded(seed + 1)) < 0.6
    visible = (torch.rand(2, length, generator=seeded(seed)) >= rate) & kept
    excerpt = Excerpt(kept.nonzero()[:, 0], length)
    whole = Folds(3, 2).draw(visible, seeded(seed))
    part = Folds(3, 2).draw(visible[:, kept], seeded(seed), excerpt)
    assert torch.equal(part, whole[:, :, kept])


@given(
    tokens=st.lists(st.integers(0, SIZE), min_size=1, max_size=30),
    evidence_radius=st.integers(0, 12) | st.none(),
    seed=st.integers(0, 100),
)
def test_near_damage_is_within_reach_of_a_lost_position(tokens, evidence_radius, seed):
    tokens = torch.tensor(tokens)
    lost = (tokens == SIZE).nonzero()[:, 0].tolist()
    expected = [
        evidence_radius is None or any(abs(place - one) <= evidence_radius for one in lost)
        for place in range(len(tokens))
    ]
    seen = MaskChannel(SIZE, 0.5).observe(tokens[None])
    assert near_damage(seen, evidence_radius)[0].tolist() == expected
    kept = torch.rand(len(tokens), generator=seeded(seed)) < 0.7
    kept[lost] = True  # an excerpt has everything that is lost
    excerpt = Excerpt(kept.nonzero()[:, 0], len(tokens))
    if kept.any():
        part = MaskChannel(SIZE, 0.5).observe(tokens[None, kept], excerpt)
        assert near_damage(part, evidence_radius)[0].tolist() == [
            one for one, here in zip(expected, kept, strict=True) if here
        ]
    uncertain = ReplacementChannel(SIZE, 0.5).observe(tokens[None])
    assert near_damage(uncertain, evidence_radius).all() == (
        evidence_radius is None or len(lost) < len(tokens) or all(expected)
    )


def test_what_is_hidden_is_the_pattern_the_damage_and_the_doubt():
    observation = ReplacementChannel(SIZE, 0.3).observe(torch.tensor([[0, SIZE, 1, 2]]))
    patterns = torch.tensor([[[True, False, False, False], [False, False, True, False]]])
    assert hide(patterns, observation, None, seeded())[0].int().tolist() == [[1, 1, 0, 0], [0, 1, 1, 0]]
    doubt = torch.tensor([[0.0, 0.0, 0.0, 1.0]])
    assert hide(patterns, observation, doubt, seeded())[0].int().tolist() == [[1, 1, 0, 1], [0, 1, 1, 1]]
    drawn = torch.stack([hide(patterns, observation, doubt / 2, seeded(seed))[0, :, 3] for seed in range(400)])
    assert drawn.double().mean() == pytest.approx(0.5, abs=0.1)
    state = seeded().get_state()
    generator = seeded()
    hide(patterns, observation, 0 * doubt, generator)  # where nothing is doubted, nothing is drawn
    assert torch.equal(generator.get_state(), state)


def test_no_folds_are_refused():
    for bad in ((0, 1), (1, 0)):
        with pytest.raises(ConservatorError, match="at least 1"):
            Folds(*bad)
