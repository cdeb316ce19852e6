"""Detection of damage: the channel with the most evidence, and nothing for undamaged text."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator import RestoreOptions
from conservator.document import Document
from conservator.documents import damage
from conservator.experts import Cost, Meter
from conservator.pipelines.corrected_text import build_correction
from conservator.pipelines.detection import CONFIG, Evidence, detect_channels, sample_lines
from conservator.pipelines.references import ReferenceTexts
from conservator.pipelines.task import Models, PipelineTask
from conservator.results import Edit

TEXT = b"The harbour was quiet in the morning, and the boats lay close to the wall.\n" * 20


def task_of(data, **options):
    return PipelineTask(
        Document(data), RestoreOptions(channel="auto", **options), Models((), True), ReferenceTexts(), (), Meter()
    )


def stage_of(pattern, probability=0.95):
    """Return a stage that corrects every match of a pattern."""

    def stage(task):
        data = task.document.data
        edits = [Edit(match.span(), b"*", probability) for match in re.finditer(pattern, data)]
        return build_correction(task.document, edits, task.options.channel, ("words",), cost=Cost())

    return stage


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (TEXT, ("mask",)),
        (b"", ("mask",)),
        (TEXT.replace(b"quiet", b"qu\xef\xbf\xbdet"), ("mask",)),
        (TEXT.replace(b"quiet", b"queit"), ("typing",)),
        (TEXT.replace(b"the ", b"the"), ("spaces",)),
        (TEXT + b"Andr\xc3\x83\xc2\xa9", ("mojibake",)),
        (TEXT.replace(b"quiet", b"queit") + b"Andr\xc3\x83\xc2\xa9 \xef\xbf\xbd", ("mojibake", "mask")),
        (TEXT.replace(b"quiet", b"queit", 1), ("mask",)),  # a single error is no evidence in this much text
    ],
)
def test_the_channel_with_the_most_evidence(data, expected):
    stages = {
        "mojibake": stage_of(b"\xc3\x83\xc2\xa9"),
        "spaces": stage_of(b"thewall"),
        "typing": stage_of(b"queit"),
        "case": stage_of(b"boats", 0.5),
    }
    assert detect_channels(task_of(data), stages) == expected


def stage_of_edits(edits):
    """Return a stage that makes edits: observed text -> corrected text."""

    def stage(task):
        data = task.document.data
        made = [
            Edit(match.span(), corrected, 0.95)
            for observed, corrected in edits.items()
            for match in re.finditer(re.escape(observed), data)
        ]
        return build_correction(task.document, made, task.options.channel, ("words",), cost=Cost())

    return stage


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ({b"thewall": b"the wall"}, "spaces"),  # typing would also insert the space
        ({b"thewall": b"the wall", b"qiuet": b"quiet"}, "typing"),  # most evidence is for spaces, but not all
    ],
)
def test_special_channels_are_selected_if_they_explain_the_errors(errors, expected):
    damaged = TEXT
    for observed, corrected in errors.items():
        damaged = damaged.replace(corrected, observed)
    stages = {"spaces": stage_of_edits({b"thewall": b"the wall"}), "typing": stage_of_edits(errors)}
    assert detect_channels(task_of(damaged), stages) == (expected,)


def test_overwritten_bytes():
    damaged = damage(TEXT, 0.05, channel="replacement", seed=1)
    (channel,) = detect_channels(task_of(damaged), {})
    name, rate = channel.split(":")
    assert name == "replacement"
    assert float(rate) == pytest.approx(0.05, rel=0.5)


def test_other_options_do_not_matter():
    task = task_of(TEXT.replace(b"quiet", b"queit"), effort="best", alternatives=4)
    task = replace(task, fixed=[(0, 3, "Der")])
    seen = []

    def stage(task):
        seen.append((task.options.effort, task.options.alternatives, task.options.channel, task.fixed))
        return stage_of(b"queit")(task)

    assert detect_channels(task, {"typing": stage}) == ("typing",)
    assert seen == [("fast", 0, "typing", ())]


@given(st.lists(st.integers(0, 2000), max_size=40))
def test_samples_are_whole_lines_in_order(sizes):
    data = b"".join(b"%d" % number + b"x" * size + b"\n" for number, size in enumerate(sizes))
    sample = sample_lines(data)
    remaining = iter(data.splitlines())
    assert all(line in remaining for line in sample.splitlines())
    if len(data) <= CONFIG.sample_chunks * CONFIG.chunk_bytes:
        assert sample == data


@given(st.lists(st.floats(0.01, 0.99), max_size=20))
def test_the_evidence_is_the_sum_of_the_log_odds(probabilities):
    edits = [Edit((index, index + 1), b"*", value) for index, value in enumerate(probabilities)]
    evidence = Evidence.of(build_correction(Document(TEXT), edits, "typing", ("words",), cost=Cost()))
    odds = [value / (1 - value) for value in probabilities]
    expected = sum(min(np.log(value), CONFIG.max_edit_nats) for value in odds)
    assert evidence.nats == pytest.approx(expected, abs=1e-6)
    assert evidence.edits == len(probabilities)
