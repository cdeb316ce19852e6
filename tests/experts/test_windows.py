"""Windows and excerpts of long documents: an excerpt gives the same results as the whole document."""

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conservator.channels import Excerpt, MaskChannel
from conservator.errors import ConservatorError
from conservator.experts import Team
from conservator.experts.windows import excerpt_around, length_multiple, margin_of, windows_around
from conservator.restorer import restore
from conservator.vocabularies import BYTES
from support.fakes import FakeExpert

MARK = "\ufffd"


@given(
    length=st.integers(1, 300),
    context=st.integers(8, 64),
    requested=st.sets(st.integers(0, 299), min_size=1),
    margin=st.integers(0, 3),
)
def test_windows_contain_every_requested_position_once_with_its_margins(length, context, requested, margin):
    requested = np.array(sorted({position % length for position in requested}))
    windows = windows_around(requested, length, context, margin)
    predicted = [
        position
        for window in windows
        for position in range(window.inner_start, window.inner_stop)
        if position in requested
    ]
    assert predicted == requested.tolist()
    for window in windows:
        assert 0 <= window.start <= window.inner_start < window.inner_stop <= window.stop <= length
        assert window.stop - window.start <= context
        assert window.start == 0 or window.inner_start - window.start >= margin
        assert window.stop == length or window.stop - window.inner_stop >= margin


@given(length=st.integers(1, 300), context=st.integers(8, 64))
def test_windows_cover_every_position_once(length, context):
    windows = windows_around(np.arange(length), length, context, margin_of(context))
    scored = [position for window in windows for position in range(window.inner_start, window.inner_stop)]
    assert scored == list(range(length))


def test_isolated_positions_have_short_windows():
    windows = windows_around(np.array([500, 5000]), 10_000, 1024, margin_of(1024))
    assert [(window.start, window.stop) for window in windows] == [(437, 565), (4937, 5065)]
    assert windows_around(np.empty(0, dtype=np.int64), 10, 8, 1) == []


def test_a_too_short_context_is_rejected():
    with pytest.raises(ConservatorError, match="must read at least 8 positions at once, got 7"):
        windows_around(np.arange(9), 9, 7, 0)
    assert len(windows_around(np.arange(7), 7, 7, 0)) == 1


excerpts = given(
    length=st.integers(1, 400),
    context=st.integers(8, 64),
    lost=st.sets(st.integers(0, 399), min_size=1, max_size=6),
    evidence_radius=st.integers(0, 60),
    margin=st.integers(0, 60),
)


@excerpts
def test_an_excerpt_has_exactly_the_needed_positions(length, context, lost, evidence_radius, margin):
    lost = np.array(sorted({position % length for position in lost}))
    excerpt = excerpt_around(lost, evidence_radius, margin, length, context)
    assert excerpt.length == length
    radius = max(margin, evidence_radius + margin_of(context) + length_multiple(context))
    expected = [
        position
        for position in range(length)
        if length <= context or any(abs(position - each) <= radius for each in lost.tolist())
    ]
    assert excerpt.positions.tolist() == expected


@excerpts
def test_predictions_in_an_excerpt_are_those_in_the_whole(length, context, lost, evidence_radius, margin):
    tokens = torch.randint(256, (1, length), generator=torch.Generator().manual_seed(length))
    lost = np.array(sorted({position % length for position in lost}))
    excerpt = excerpt_around(lost, evidence_radius, margin, length, context)
    positions, team = excerpt.positions, Team([FakeExpert(0, context), FakeExpert(1, context)])
    distance = (torch.arange(length)[:, None] - torch.from_numpy(lost)).abs().min(dim=1).values
    hidden = torch.rand(1, 2, length, generator=torch.Generator().manual_seed(0)) < 0.4
    requested = hidden & (distance <= evidence_radius)
    whole, part = (torch.zeros(2, 2, length, 256) for _ in range(2))
    for predictions in team.read(tokens, hidden, requested):
        whole[:, 0].index_add_(1, predictions.position, predictions.log_probs)
    for predictions in team.read(
        tokens[:, positions], hidden[..., positions], requested[..., positions], excerpt=excerpt
    ):
        part[:, 0].index_add_(1, positions[predictions.position], predictions.log_probs)
    torch.testing.assert_close(part, whole)


letters = st.sampled_from(["a", "b ", "é", "€", "日本", "😀", "\n", "word "])
segments = st.lists(letters, min_size=1, max_size=12).map("".join)


def restore_both_ways(document, **options):
    """Restore once with an excerpt, once with the whole document."""
    experts = [FakeExpert(seed, 24 + 5 * seed) for seed in range(2)]
    excerpt = restore(document, experts, **options)
    with pytest.MonkeyPatch.context() as patch:

        def whole_document(lost, evidence_radius, margin, length, context):
            return Excerpt(torch.arange(length), length)

        patch.setattr("conservator.pipelines.decoding.excerpt_around", whole_document)
        whole = restore(document, experts, **options)
    return excerpt, whole


def check_equal(excerpt, whole):
    assert excerpt.data == whole.data
    np.testing.assert_array_equal(excerpt.tokens, whole.tokens)
    np.testing.assert_allclose(excerpt.confidence, whole.confidence, rtol=1e-6)
    np.testing.assert_array_equal(excerpt.regions, whole.regions)
    np.testing.assert_allclose(
        excerpt.field[whole.regions >= 0], whole.field[whole.regions >= 0], rtol=1e-6, atol=1e-12
    )
    assert [edit.span for edit in excerpt.edits] == [edit.span for edit in whole.edits]
    assert excerpt.cost.evaluations == whole.cost.evaluations
    for edit, other in zip(excerpt.edits, whole.edits, strict=True):
        candidates, expected = edit.alternatives, other.alternatives
        assert [candidate.data for candidate in candidates] == [candidate.data for candidate in expected]
        probabilities = [candidate.probability for candidate in expected]
        assert [candidate.probability for candidate in candidates] == pytest.approx(probabilities, rel=1e-4)


@settings(max_examples=25)
@given(
    texts=st.lists(segments, min_size=2, max_size=4),
    sizes=st.lists(st.integers(0, 1500), min_size=4, max_size=4),
    evidence_radius=st.sampled_from([1, 7, 40, 300]),
    alternatives=st.sampled_from([0, 2]),
    seed=st.integers(0, 9),
)
@example(["日本", "€é", "😀"], [901, 1200, 700, 0], 7, 2, 0)
@example(["😀", "😀a", "aé"], [0, 1499, 0, 0], 1, 0, 1)
def test_an_excerpt_restores_what_the_whole_document_restores(texts, sizes, evidence_radius, alternatives, seed):
    """Damage between long segments of characters of any width, so that excerpts end anywhere within them."""
    parts = [text * (size // len(text.encode()) + 1) for text, size in zip(texts, sizes, strict=False)]
    document = (MARK * 2 + "x" + MARK).join(parts)
    excerpt, whole = restore_both_ways(document, evidence_radius=evidence_radius, alternatives=alternatives, seed=seed)
    check_equal(excerpt, whole)


def test_an_excerpt_may_end_anywhere_in_a_character():
    first, last = set(), set()
    for shift in range(3):
        document = "日" * 400 + "a" * shift + MARK + "b" * shift + "本" * 400
        excerpt, whole = restore_both_ways(document, evidence_radius=3, seed=shift, alternatives=2)
        check_equal(excerpt, whole)
        assert len(excerpt.positions) < 900 < len(whole.positions) == excerpt.length
        first.add(int(excerpt.positions[0]) % 3)
        last.add(int(excerpt.positions[-1] + 1 - (1200 + 2 * shift + 1)) % 3)
    assert first == last == {0, 1, 2}


def test_without_any_evidence_an_excerpt_restores_the_same_text():
    """All experts are equally likely, so only rounding decides between their texts."""
    excerpt, whole = restore_both_ways("日" * 400 + MARK + "x" * 900 + MARK, evidence_radius=0, alternatives=2)
    assert len(excerpt.positions) < len(whole.positions)
    assert excerpt.data == whole.data
    np.testing.assert_allclose(excerpt.field, whole.field)
    np.testing.assert_allclose(excerpt.confidence, whole.confidence)
    np.testing.assert_array_equal(excerpt.regions >= 0, whole.regions >= 0)


def test_gaps_of_unknown_length_are_restored_from_an_excerpt_too():
    document = "some text " * 60 + "[...]" + " and é more " * 60 + MARK + " of it" * 90
    excerpt, whole = restore_both_ways(document, evidence_radius=20, gap="[...]", max_gap=5, alternatives=2)
    check_equal(excerpt, whole)
    assert len(excerpt.positions) < len(whole.positions)


@pytest.mark.parametrize("evidence_radius", [5, None])
def test_experts_get_the_position_of_a_window_in_the_document(evidence_radius):
    text = "".join(chr(33 + (position * position) % 90) for position in range(2000))
    lost = [0, 1, 700, 704, 705, 1999]
    document = "".join(MARK if position in lost else letter for position, letter in enumerate(text))
    original = torch.tensor(list(text.encode()))

    class PositionCheckingExpert(FakeExpert):
        def predict(self, context, at):
            assert context.start.shape == (len(context.tokens),)
            visible = ~context.hidden & context.real
            position = context.start[:, None] + torch.arange(context.tokens.shape[1])
            # Restored bytes are visible, too, and may have any value.
            known = visible & ~torch.isin(position, torch.tensor(lost))
            assert torch.equal(context.tokens[known], original[position[known]])
            return super().predict(context, at)

    restoration = restore(
        document,
        [PositionCheckingExpert(0, 64), PositionCheckingExpert(1, 50)],
        evidence_radius=evidence_radius,
        alternatives=2,
    )
    assert restoration.cost.evaluations > 0
    assert (len(restoration.positions) < 2000) == (evidence_radius is not None)


def test_an_observation_has_its_excerpt():
    tokens = torch.tensor([[1, 2, BYTES.mask, 3]])
    excerpt = Excerpt(torch.tensor([4, 5, 6, 9]), 20)
    observation = MaskChannel(256, 0.5).observe(tokens, excerpt)
    assert observation.excerpt is excerpt
    assert excerpt.cuts.tolist() == [0, 3, 4]
