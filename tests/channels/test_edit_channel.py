"""The edit channel: its parameters, its samples, and its file."""

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


def test_a_file_round_trips():
    again = EditChannel.from_json(CHANNEL.to_json())
    assert again == CHANNEL
    assert again.by_observed["c"] == [("e", 0.1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "not an edit channel"),
        ('{"format": "conservator edit channel", "version": 1}', "edits"),
        (
            HEAD + '[["a", "a", 0.1]], "stays": {}, "other": 1}',
            "two different",
        ),
        (
            HEAD + '[["a", "b", 7]], "stays": {}, "other": 1}',
            "must be between 0 and 1, got 7",
        ),
        (
            HEAD + '[["a", "b", true]], "stays": {}, "other": 1}',
            "not a number",
        ),
        (HEAD + '[], "stays": {"ab": 1}, "other": 1}', "single characters"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_invalid_files_are_refused(text, message):
    with pytest.raises(ConservatorError, match=message):
        EditChannel.from_json(text, "x.json")


@given(st.floats(0.01, 4))
def test_scaling_the_error_rate_scales_edits_and_keep_probabilities(factor):
    scaled = CHANNEL.scale_error_rate(factor)
    for edit, value in CHANNEL.edits.items():
        assert scaled.edits[edit] == pytest.approx(min(1.0, factor * value))
    assert (scaled.keep_prob("e") < CHANNEL.keep_prob("e")) == (factor > 1) or factor == pytest.approx(1)


def test_edits_are_drawn_with_their_probability():
    observed = CHANNEL.corrupt("rn" * 3000, np.random.default_rng(0))
    assert observed.count("m") / 3000 == pytest.approx(0.2 / (0.2 + 0.98), abs=0.03)
    assert EditChannel({}).corrupt("as it is", np.random.default_rng(0)) == "as it is"


def test_edit_channels_by_name(tmp_path):
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
