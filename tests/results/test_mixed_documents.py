"""Documents in which some bytes are marked as lost and any other may be wrong."""

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from conservator import restore
from conservator.channels import ConfusionChannel, ReplacementChannel
from conservator.document import Document
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
    opened = Document(document)  # bytes that look like another file type are not refused
    result = restore(opened, team, **options)
    assert result.data.decode() == result.text
    damaged = read_damaged(document, gap=gap)
    if result.gaps:
        lengths = [gap.at[1] - gap.at[0] for gap in result.gaps]
        damaged = damaged.with_lengths(lengths, [gap.length_probability for gap in result.gaps])
    lost = damaged.tokens == LOST
    assert ((result.tokens >= 0) & (result.tokens < 256)).all()
    assert result.data == bytes(result.tokens.tolist())
    assert (result.changed == (result.tokens != damaged.tokens)).all()  # only marks are lost
    assert result.changed[lost].all()
    assert sum(len(edit.data) for edit in result.edits) == result.changed.sum()
    assert ((result.confidence >= 0) & (result.confidence <= 1 + 1e-9)).all()
    np.testing.assert_allclose(result.field.sum(1), 1, atol=1e-6)
    again = restore(opened, team, **options)
    assert again.data == result.data
    np.testing.assert_array_equal(again.field, result.field)


def test_marked_bytes_are_filled_and_wrong_bytes_corrected():
    text = "the quick brown fox jumps over the lazy dog; " * 4
    marked, wrong = [12, 60, 61, 62, 100], [30, 90]
    damaged = "".join(
        "\ufffd" if position in marked else "#" if position in wrong else letter for position, letter in enumerate(text)
    )
    result = restore(damaged, [TextExpert(text), FakeExpert(0, 64)], channel="replacement:0.2")
    assert result.text == text
    assert np.flatnonzero(result.changed).tolist() == sorted(marked + wrong)
    assert result.ranges == ((12, 13), (30, 31), (60, 63), (90, 91), (100, 101))
    assert (result.confidence[marked] < 1).all()


def test_a_mark_is_uninformative_at_any_error_rate():
    """Lost bytes are restored alike under a mask channel and under a replacement channel with a tiny rate."""
    text = "the quick brown fox jumps over the lazy dog; " * 4
    damaged = text[:40] + "\ufffd" * 3 + text[43:]
    experts = [TextExpert(text)]
    mask, rare = (restore(damaged, experts, channel=channel) for channel in ("mask", "replacement:0.0001"))
    assert mask.text == rare.text == text
    np.testing.assert_array_equal(mask.changed, rare.changed)


@pytest.mark.parametrize("rate", [0.02, 0.3])
def test_a_confusion_channel_handles_marks_as_a_replacement_channel_does(rate):
    matrix = (1 - rate) * torch.eye(256, dtype=torch.float64) + rate / 256
    document = "ab\ufffdcd é \ufffd\ufffd word" * 2
    channels = (ReplacementChannel(256, rate), ConfusionChannel(matrix))
    replacement, confusion = (restore(document, TEAMS[1], channel=channel) for channel in channels)
    assert replacement.data == confusion.data
    np.testing.assert_allclose(replacement.confidence, confusion.confidence, rtol=1e-5)


def test_marks_with_low_confidence_are_unfilled():
    document = "ab\ufffdcd é \ufffd\ufffd word" * 2
    result = restore(document, TEAMS[0], channel="replacement:0.02", min_confidence=1.0)
    assert result.unfilled.any()
    assert result.unfilled.sum() == result.text.count("\ufffd")
    assert set(np.flatnonzero(result.unfilled)) <= set(read_damaged(document).lost)


TEXT = "the quick brown fox jumps over the lazy dog; " * 4
WRONG = TEXT[:30] + "#" + TEXT[31:60] + "\ufffd\ufffd" + TEXT[62:90] + "##" + TEXT[92:]


@pytest.mark.parametrize("gap", [None, "[...]"])
def test_every_change_has_alternatives_that_begin_with_the_text(gap):
    document = WRONG if gap is None else WRONG.replace("\ufffd\ufffd", gap)
    options = {"channel": "replacement:0.05", "gap": gap, "max_gap": 6, "min_gap_confidence": 0.0}
    plain = restore(document, [TextExpert(TEXT)], **options)
    result = restore(document, [TextExpert(TEXT)], alternatives=3, **options)
    assert result.data == plain.data
    assert len(result.edits) == 3
    for edit in result.edits:
        assert edit.alternatives[0].data == edit.data
        assert len(edit.alternatives) == 3
        probabilities = [candidate.probability for candidate in edit.alternatives]
        assert all(0 <= probability <= 1 for probability in probabilities)
        assert sum(probabilities) < 1 + 1e-6


def test_a_likely_observed_byte_is_an_alternative():
    document = "the cat sat" * 3
    result = restore(document, [TextExpert(document.replace("c", "b", 1))], channel="replacement:0.5", alternatives=4)
    for edit in result.edits:
        observed = result.observed[slice(*edit.span)]
        assert observed in [candidate.data for candidate in edit.alternatives]


def test_changes_with_low_confidence_are_not_made():
    loose = restore(WRONG, [TextExpert(TEXT)], channel="replacement:0.05")
    strict = restore(WRONG, [TextExpert(TEXT)], channel="replacement:0.05", min_confidence=1.0)
    assert loose.text == TEXT
    assert strict.text == WRONG
    assert [edit.data for edit in strict.edits] == [b"ow"] or strict.unfilled.sum() == 2
    assert strict.unfilled.sum() == 2


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"memory": False},
        {"alternatives": 2},
        {"min_confidence": 0.3},
        {"words": ("quick brown",)},
        {"references": [("other", TEXT)]},
        {"evidence_radius": 16},
        {"gap": "[...]", "max_gap": 4},
    ],
    ids=str,
)
def test_fixed_text_is_never_changed(options):
    """Marks and visible bytes with fixed text are known, even against the experts, beside other wrong bytes."""
    marks, visible = WRONG.encode().index(MARK), 30
    fixed = [(visible, visible + 3, "!é"), (marks, marks + 2 * len(MARK), "ß")]
    result = restore(WRONG, [TextExpert(TEXT)], channel="replacement:0.2", fixed=fixed, **options)
    pinned = [edit for edit in result.edits if edit.is_fixed]
    assert [(edit.span, edit.text) for edit in pinned] == [((start, stop), text) for start, stop, text in fixed]
    assert "!é" in result.text
    assert "ß" in result.text
    assert result.text.endswith(TEXT[90:])


@given(st.lists(pieces, max_size=8).map(b"".join), st.sampled_from(["é", "x", "日"]), st.booleans())
def test_fixed_text_is_valid_beside_any_bytes(around, text, before):
    document = b"\xe2\x80" + MARK + around if before else around + MARK + b"\x80\x80"
    start = document.index(MARK) if before else document.rindex(MARK)
    opened = Document(document)
    fixed = [(start, start + len(MARK), text)]
    result = restore(opened, TEAMS[0], channel="replacement:0.1", fixed=fixed, encoding="utf-8")
    assert text in result.data.decode()
