"""Documents in which some bytes are marked as lost and any other may be wrong."""

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from conservator import ConservatorError, restore
from conservator.channels import ConfusionChannel, ReplacementChannel
from conservator.documents import LOST, read_damaged
from support.fakes import FakeExpert, TextExpert

MARK = "\ufffd".encode()
TEAMS = [[FakeExpert(0)], [FakeExpert(0, 24), FakeExpert(1, 31)]]
pieces = st.one_of(
    st.binary(max_size=4),
    st.text(max_size=3).map(str.encode),
    st.sampled_from([MARK, 2 * MARK, b"\r\n", b"\xe2\x82", b"word ", "日本".encode(), b"[...]"]),
)


@given(
    st.lists(pieces, max_size=12).map(b"".join),
    st.sampled_from(TEAMS),
    st.sampled_from(["replacement:0.02", "replacement:0.6"]),
    st.sampled_from([None, "[...]"]),
    st.integers(0, 3),
)
@example(MARK, TEAMS[1], "replacement:0.02", None, 0)
@example(b"caf\xe9 [...] au lait" + MARK, TEAMS[1], "replacement:0.02", "[...]", 0)
def test_any_document_is_restored(document, team, channel, gap, seed):
    options = {"channel": channel, "gap": gap, "max_gap": 6, "seed": seed, "encoding": "utf-8"}
    options |= {"min_gap_confidence": 0.0, "fill_undetermined": True}
    found = restore(document, team, **options)
    assert found.data.decode() == found.text
    damaged = read_damaged(document, gap=gap)
    in_gap = found.damaged.gap_of(np.arange(found.length)) >= 0
    np.testing.assert_array_equal(found.damaged.tokens[~in_gap], damaged.tokens)  # only marks are lost
    lost = found.damaged.tokens == LOST
    assert ((found.tokens >= 0) & (found.tokens < 256)).all()
    assert found.data == bytes(found.tokens.tolist())
    assert (found.changed == (found.tokens != found.damaged.tokens)).all()
    assert found.changed[lost].all()
    assert sum(span.stop - span.start for span in found.spans) == found.changed.sum()
    assert ((found.confidence >= 0) & (found.confidence <= 1 + 1e-9)).all()
    np.testing.assert_allclose(found.field.sum(1), 1, atol=1e-6)
    again = restore(document, team, **options)
    assert again.data == found.data
    np.testing.assert_array_equal(again.field, found.field)


def test_marked_bytes_are_filled_and_wrong_ones_overturned():
    text = "the quick brown fox jumps over the lazy dog; " * 4
    marked, wrong = [12, 60, 61, 62, 100], [30, 90]
    damaged = "".join(
        "\ufffd" if place in marked else "#" if place in wrong else letter for place, letter in enumerate(text)
    )
    found = restore(damaged, [TextExpert(text), FakeExpert(0, 64)], channel="replacement:0.2")
    assert found.text == text
    assert np.flatnonzero(found.changed).tolist() == sorted(marked + wrong)
    assert found.damaged.lost.tolist() == marked
    assert [(one.start, one.stop) for one in found.spans] == [(12, 13), (30, 31), (60, 63), (90, 91), (100, 101)]
    assert (found.confidence[marked] < 1).all()


def test_a_mark_says_nothing_of_its_byte_whatever_the_rate():
    """What is lost is restored alike under a channel that damages hardly anything else, and under masks alone."""
    text = "the quick brown fox jumps over the lazy dog; " * 4
    damaged = text[:40] + "\ufffd" * 3 + text[43:]
    experts = [TextExpert(text)]
    mask, rare = (restore(damaged, experts, channel=channel) for channel in ("mask", "replacement:0.0001"))
    assert mask.text == rare.text == text
    np.testing.assert_array_equal(mask.changed, rare.changed)


@pytest.mark.parametrize("rate", [0.02, 0.3])
def test_a_confusion_matrix_takes_marks_as_a_replacement_channel_does(rate):
    matrix = (1 - rate) * torch.eye(256, dtype=torch.float64) + rate / 256
    document = "ab\ufffdcd é \ufffd\ufffd word" * 2
    channels = (ReplacementChannel(256, rate), ConfusionChannel(matrix))
    one, other = (restore(document, TEAMS[1], channel=channel) for channel in channels)
    assert one.data == other.data
    np.testing.assert_allclose(one.confidence, other.confidence, rtol=1e-5)


def test_unsure_marks_stay_marks():
    document = "ab\ufffdcd é \ufffd\ufffd word" * 2
    found = restore(document, TEAMS[0], channel="replacement:0.02", min_confidence=1.0)
    assert found.left_open.any()
    assert found.left_open.sum() == found.text.count("\ufffd")
    assert set(found.unfilled_positions) <= set(found.damaged.lost)


def test_alternatives_are_of_marked_gaps_alone():
    with pytest.raises(ConservatorError, match="alternatives: "):
        restore("a\ufffd", TEAMS[0], channel="replacement:0.02", alternatives=1)
    # Nothing that is visible, nothing to doubt: a document of marks alone is as any other.
    assert restore("\ufffd\ufffd", TEAMS[0], channel="replacement:0.02", alternatives=2).alternatives
