"""Windows of long documents, and excerpts: reading a part gives what reading all of it gives."""

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conservator.channels import Excerpt, MaskChannel
from conservator.errors import ConservatorError
from conservator.experts import Team
from conservator.experts.windows import excerpt_around, grain, margin_of, windows_around
from conservator.restorer import restore
from conservator.vocabularies import BYTES
from support.fakes import FakeExpert

MARK = "\ufffd"


@given(
    length=st.integers(1, 300),
    context=st.integers(8, 64),
    wanted=st.sets(st.integers(0, 299), min_size=1),
    margin=st.integers(0, 3),
)
def test_windows_have_every_wanted_position_once_with_its_margins(length, context, wanted, margin):
    wanted = np.array(sorted({place % length for place in wanted}))
    windows = windows_around(wanted, length, context, margin)
    predicted = [
        place for window in windows for place in range(window.inner_start, window.inner_stop) if place in wanted
    ]
    assert predicted == wanted.tolist()
    for window in windows:
        assert 0 <= window.start <= window.inner_start < window.inner_stop <= window.stop <= length
        assert window.stop - window.start <= context
        assert window.start == 0 or window.inner_start - window.start >= margin
        assert window.stop == length or window.stop - window.inner_stop >= margin


@given(length=st.integers(1, 300), context=st.integers(8, 64))
def test_windows_cover_every_position_once(length, context):
    windows = windows_around(np.arange(length), length, context, margin_of(context))
    scored = [place for window in windows for place in range(window.inner_start, window.inner_stop)]
    assert scored == list(range(length))


def test_lone_positions_are_read_in_short_windows():
    windows = windows_around(np.array([500, 5000]), 10_000, 1024, margin_of(1024))
    assert [(one.start, one.stop) for one in windows] == [(437, 565), (4937, 5065)]
    assert windows_around(np.empty(0, dtype=np.int64), 10, 8, 1) == []


def test_too_short_a_context_is_said():
    with pytest.raises(ConservatorError, match="at least 8"):
        windows_around(np.arange(9), 9, 7, 0)
    assert len(windows_around(np.arange(7), 7, 7, 0)) == 1


places = given(
    length=st.integers(1, 400),
    context=st.integers(8, 64),
    lost=st.sets(st.integers(0, 399), min_size=1, max_size=6),
    evidence_radius=st.integers(0, 60),
    margin=st.integers(0, 60),
)


@places
def test_an_excerpt_has_what_is_needed_and_no_more(length, context, lost, evidence_radius, margin):
    lost = np.array(sorted({place % length for place in lost}))
    excerpt = excerpt_around(lost, evidence_radius, margin, length, context)
    assert excerpt.length == length
    reach = max(margin, evidence_radius + margin_of(context) + grain(context))
    kept = [
        place for place in range(length) if length <= context or any(abs(place - one) <= reach for one in lost.tolist())
    ]
    assert excerpt.positions.tolist() == kept


@places
def test_a_part_is_read_as_in_the_whole(length, context, lost, evidence_radius, margin):
    tokens = torch.randint(256, (1, length), generator=torch.Generator().manual_seed(length))
    lost = np.array(sorted({place % length for place in lost}))
    excerpt = excerpt_around(lost, evidence_radius, margin, length, context)
    kept, team = excerpt.positions, Team([FakeExpert(0, context), FakeExpert(1, context)])
    distance = (torch.arange(length)[:, None] - torch.from_numpy(lost)).abs().min(dim=1).values
    hidden = torch.rand(1, 2, length, generator=torch.Generator().manual_seed(0)) < 0.4
    wanted = hidden & (distance <= evidence_radius)
    whole, part = (torch.zeros(2, 2, length, 256) for _ in range(2))
    for found in team.read(tokens, hidden, wanted):
        whole[:, 0].index_add_(1, found.position, found.log_probs)
    for found in team.read(tokens[:, kept], hidden[..., kept], wanted[..., kept], excerpt=excerpt):
        part[:, 0].index_add_(1, kept[found.position], found.log_probs)
    torch.testing.assert_close(part, whole)


letters = st.sampled_from(["a", "b ", "é", "€", "日本", "😀", "\n", "word "])
stretches = st.lists(letters, min_size=1, max_size=12).map("".join)


def restore_both_ways(document, **options):
    """Once through an excerpt, once with all of the document at hand."""
    experts = [FakeExpert(seed, 24 + 5 * seed) for seed in range(2)]
    cut = restore(document, experts, **options)
    with pytest.MonkeyPatch.context() as patch:

        def all_of_it(lost, evidence_radius, margin, length, context):
            return Excerpt(torch.arange(length), length)

        patch.setattr("conservator.pipelines.lost_bytes.excerpt_around", all_of_it)
        whole = restore(document, experts, **options)
    return cut, whole


def check_alike(cut, whole):
    assert cut.data == whole.data
    np.testing.assert_array_equal(cut.tokens, whole.tokens)
    np.testing.assert_allclose(cut.confidence, whole.confidence, rtol=1e-6)
    np.testing.assert_array_equal(cut.regions, whole.regions)
    np.testing.assert_allclose(cut.field[whole.regions >= 0], whole.field[whole.regions >= 0], rtol=1e-6, atol=1e-12)
    assert [one.origin for one in cut.spans] == [one.origin for one in whole.spans]
    assert cut.cost.evaluations == whole.cost.evaluations
    for ours, theirs in zip(cut.alternatives, whole.alternatives, strict=True):
        assert [one.data for one in ours] == [one.data for one in theirs]
        assert [one.probability for one in ours] == pytest.approx([one.probability for one in theirs], rel=1e-4)


@settings(max_examples=25)
@given(
    texts=st.lists(stretches, min_size=2, max_size=4),
    sizes=st.lists(st.integers(0, 1500), min_size=4, max_size=4),
    evidence_radius=st.sampled_from([1, 7, 40, 300]),
    alternatives=st.sampled_from([0, 2]),
    seed=st.integers(0, 9),
)
@example(["日本", "€é", "😀"], [901, 1200, 700, 0], 7, 2, 0)
@example(["😀", "😀a", "aé"], [0, 1499, 0, 0], 1, 0, 1)
def test_an_excerpt_restores_what_the_whole_document_restores(texts, sizes, evidence_radius, alternatives, seed):
    """Damage between long stretches of characters of any width, so that cuts fall anywhere within them."""
    parts = [text * (size // len(text.encode()) + 1) for text, size in zip(texts, sizes, strict=False)]
    document = (MARK * 2 + "x" + MARK).join(parts)
    cut, whole = restore_both_ways(document, evidence_radius=evidence_radius, alternatives=alternatives, seed=seed)
    check_alike(cut, whole)


def test_a_cut_may_fall_anywhere_in_a_character():
    first, last = set(), set()
    for shift in range(3):
        document = "日" * 400 + "a" * shift + MARK + "b" * shift + "本" * 400
        cut, whole = restore_both_ways(document, evidence_radius=3, seed=shift, alternatives=2)
        check_alike(cut, whole)
        assert len(cut.positions) < 900 < len(whole.positions) == cut.length
        first.add(int(cut.positions[0]) % 3)
        last.add(int(cut.positions[-1] + 1 - (1200 + 2 * shift + 1)) % 3)
    assert first == last == {0, 1, 2}


def test_without_any_evidence_an_excerpt_restores_the_same_text():
    """All experts are as likely as each other then, so that only rounding says whose text it is."""
    cut, whole = restore_both_ways("日" * 400 + MARK + "x" * 900 + MARK, evidence_radius=0, alternatives=2)
    assert len(cut.positions) < len(whole.positions)
    assert cut.data == whole.data
    np.testing.assert_allclose(cut.field, whole.field)
    np.testing.assert_allclose(cut.confidence, whole.confidence)
    np.testing.assert_array_equal(cut.regions >= 0, whole.regions >= 0)


def test_gaps_of_unknown_length_are_restored_from_an_excerpt_too():
    document = "some text " * 60 + "[...]" + " and é more " * 60 + MARK + " of it" * 90
    cut, whole = restore_both_ways(document, evidence_radius=20, gap="[...]", max_gap=5, alternatives=2)
    check_alike(cut, whole)
    assert len(cut.positions) < len(whole.positions)


@pytest.mark.parametrize("evidence_radius", [5, None])
def test_experts_are_told_where_in_the_document_they_read(evidence_radius):
    text = "".join(chr(33 + (place * place) % 90) for place in range(2000))
    places = [0, 1, 700, 704, 705, 1999]
    document = "".join(MARK if place in places else letter for place, letter in enumerate(text))
    original = torch.tensor(list(text.encode()))

    class Placed(FakeExpert):
        def predict(self, context, at):
            assert context.start.shape == (len(context.tokens),)
            visible = ~context.hidden & context.real
            position = context.start[:, None] + torch.arange(context.tokens.shape[1])
            # Lost bytes that were filled in are read too, and may be anything.
            known = visible & ~torch.isin(position, torch.tensor(places))
            assert torch.equal(context.tokens[known], original[position[known]])
            return super().predict(context, at)

    found = restore(document, [Placed(0, 64), Placed(1, 50)], evidence_radius=evidence_radius, alternatives=2)
    assert found.cost.evaluations > 0
    assert (len(found.positions) < 2000) == (evidence_radius is not None)


def test_an_observation_of_an_excerpt_says_so():
    tokens = torch.tensor([[1, 2, BYTES.mask, 3]])
    excerpt = Excerpt(torch.tensor([4, 5, 6, 9]), 20)
    observation = MaskChannel(256, 0.5).observe(tokens, excerpt)
    assert observation.excerpt is excerpt
    assert excerpt.cuts.tolist() == [0, 3, 4]
