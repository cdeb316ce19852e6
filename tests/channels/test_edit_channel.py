"""The edit channel: what it is made of, what it draws, and its file."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import EditChannel, as_channel, as_edit_channel
from conservator.errors import ConservatorError, OptionError

HEAD = '{"format": "conservator edit channel", "version": 1, "edits": '
CHANNEL = EditChannel(
    {("rn", "m"): 0.2, ("e", "c"): 0.1, ("", "."): 0.01, (" ", ""): 0.05}, {"e": 0.85}, 0.98, "a test"
)


def test_a_file_comes_back():
    again = EditChannel.from_json(CHANNEL.to_json())
    assert again == CHANNEL
    assert again.by_seen["c"] == [("e", 0.1)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("[]", "no edit channel"),
        ('{"format": "conservator edit channel", "version": 1}', "edits"),
        (
            HEAD + '[["a", "a", 0.1]], "stays": {}, "other": 1}',
            "two different",
        ),
        (
            HEAD + '[["a", "b", 7]], "stays": {}, "other": 1}',
            "probability 7",
        ),
        (
            HEAD + '[["a", "b", true]], "stays": {}, "other": 1}',
            "no number",
        ),
        (HEAD + '[], "stays": {"ab": 1}, "other": 1}', "single"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_what_is_no_channel_is_refused(text, said):
    with pytest.raises(ConservatorError, match=said):
        EditChannel.from_json(text, "x.json")


@given(st.floats(0.01, 4))
def test_a_rate_makes_edits_likelier_and_staying_less_so(rate):
    other = CHANNEL.at_rate(rate)
    for edit, value in CHANNEL.edits.items():
        assert other.edits[edit] == pytest.approx(min(1.0, rate * value))
    assert (other.stay("e") < CHANNEL.stay("e")) == (rate > 1) or rate == pytest.approx(1)


def test_edits_are_drawn_as_often_as_it_says():
    seen = CHANNEL.corrupt("rn" * 3000, np.random.default_rng(0))
    assert seen.count("m") / 3000 == pytest.approx(0.2 / (0.2 + 0.98), abs=0.03)
    assert EditChannel({}).corrupt("as it is", np.random.default_rng(0)) == "as it is"


def test_channels_by_name(tmp_path):
    (tmp_path / "own.json").write_text(CHANNEL.to_json())
    assert (
        as_edit_channel(str(tmp_path / "own.json"))
        == as_edit_channel(tmp_path / "own.json")
        == as_edit_channel(CHANNEL)
        == CHANNEL
    )
    assert len(as_edit_channel("ocr").edits) > 100
    assert as_edit_channel("mask") is None
    with pytest.raises(OptionError, match="ocr"):
        as_channel("orc", 256)
    with pytest.raises(ConservatorError, match="cannot read"):
        as_edit_channel("missing.json")
