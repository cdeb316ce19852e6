"""Records: a record that is written and read back is the same, and an invalid record is refused."""

import copy
import json
import math
import random
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conservator import restore
from conservator.decoders.edits import Change
from conservator.document import Document
from conservator.errors import ConservatorError
from conservator.experts import Cost
from conservator.pipelines.correction import Correction, as_restoration
from conservator.results import Notice, Record
from conservator.results.record import FORMAT
from support.fakes import FakeExpert

MARK = "\ufffd"
EXPERTS = [FakeExpert(0), FakeExpert(1)]
REFERENCES = [("caf\udce9.txt", "some word and another word\n"), ("empty", "")]
parts = st.sampled_from([MARK, 2 * MARK, "a", "é", "日本", "\r\n", "word ", "</script>", "[...]", "😀", "\u2028"])
documents = st.lists(parts, max_size=10).map("".join)
VALUES = (None, True, -1, 0, 10**400, 0.5, math.nan, math.inf, "", "text", "\ud800", [], [0, 1], {}, {"at": 0})


def check_round_trip(result):
    """Check that the record is the same after it is written and read, and that it shows the document."""
    record = Record.from_json(result.to_json())
    assert record == result.record
    assert Record.from_json(result.to_json().encode()) == record
    assert Record.from_dict(record.to_dict()) == record
    assert record.text == result.text
    assert record.to_json() == result.to_json()


def corrected():
    """Return a result with a replacement, a deletion and an insertion."""
    changes = (
        Change(0, 1, "b", "é", 0.95, 3.25),
        Change(4, 5, "m", "", 0.5, math.inf),
        Change(6, 6, "", "rn", 0.9, -1.5),
    )
    correction = Correction("bis hmat\n", changes, 0.5, ("prose", "code"), (0.75, 0.25))
    return as_restoration(correction, Document(b"bis hmat\n"), Cost())


def fixed():
    """Return a result with fixed, filled and unfilled text, alternatives and provenance."""
    document = f"some wor{MARK} and [...] w{MARK}{MARK}d {MARK}"
    return restore(
        document,
        EXPERTS,
        references=REFERENCES,
        fixed=[(8, 11, "d\n")],
        gap="[...]",
        max_gap=3,
        alternatives=2,
        lost="bytes",
    )


RESULTS = {
    "correction": corrected(),
    "fixed": fixed(),
    "characters": restore(f"M{MARK}nchen ist sch{MARK}n", lost="characters", alternatives=2, min_confidence=0.5),
    "replacement": restore(f"some wxrd {MARK}", EXPERTS, channel="replacement:0.1"),
    "untouched": restore("as it is", EXPERTS),
    "empty": restore("", EXPERTS),
}


@settings(max_examples=40)
@given(documents, st.sampled_from([0.0, 0.4]), st.integers(0, 2), st.booleans())
@example("a\ud7ff", 0.0, 0, False)
def test_a_record_that_is_read_equals_the_one_that_was_written(document, min_confidence, alternatives, lose_more):
    data = document.encode()
    if lose_more and data:  # half a character beside a mark
        data = MARK.encode() + data[1:]
    options = {"min_confidence": min_confidence, "alternatives": alternatives, "encoding": "utf-8", "lost": "invalid"}
    check_round_trip(restore(data, EXPERTS, gap="[...]", max_gap=3, references=REFERENCES, **options))


@pytest.mark.parametrize("name", RESULTS)
def test_every_kind_of_result_has_a_record(name):
    check_round_trip(RESULTS[name])
    interrupted = replace(
        RESULTS[name],
        out_of_time="decoding",
        notices=(Notice("time_limit", "a message"),),
        precision={"model": "bfloat16"},
        encoding="windows-1252",
        cross_entropy=2.5,
        local_gain=0.1,
    )
    check_round_trip(interrupted)


@pytest.mark.parametrize("name", RESULTS)
def test_the_pieces_of_a_record_are_the_text(name):
    result = RESULTS[name]
    value = json.loads(result.to_json())
    assert value["format"] == FORMAT == "conservator restoration 3"
    assert value["text"] == "".join(piece["text"] for piece in value["pieces"]) == result.text
    assert {"from", "changes"}.isdisjoint(key for piece in value["pieces"] for key in piece)
    assert ("correction" in value) == result.is_correction


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{", '"text"', b"\xff", "[" * 100_000, "NaN", '{"format": "conservator restoration 2"}']
)
def test_text_that_is_not_a_record_is_refused(text):
    with pytest.raises(ConservatorError):
        Record.from_json(text)


@pytest.mark.parametrize("value", [None, 3, "text", [], {}, {"format": FORMAT}, {"format": [FORMAT]}, {1: 2}])
def test_a_value_that_is_not_a_record_is_refused(value):
    with pytest.raises(ConservatorError):
        Record.from_dict(value)


def change(entry, value):
    """Return a function that sets an entry, named by its path, of a record."""

    def apply(record):
        *path, last = entry
        for key in path:
            record = record[key]
        if value is KeyError:
            del record[last]
        else:
            record[last] = value

    return apply


@pytest.mark.parametrize(
    ("entry", "value", "problem"),
    [
        (("format",), "conservator restoration 2", "expected a record with the format 'conservator restoration 3'"),
        (("format",), KeyError, "expected a record with the format"),
        (("pieces",), KeyError, "record has no 'pieces'"),
        (("unit",), 3, "record.unit must be str, got '3'"),
        (("summary", "lost"), True, "record.summary.lost must be int, got 'True'"),
        (("summary", "lost"), 1.0, "record.summary.lost must be int"),
        (("summary", "bytes"), 7, "the pieces do not have as many bytes as the summary"),
        (("summary", "other"), 1, "record.summary has an unknown entry 'other'"),
        (("summary", "weights"), [], "summary.weights has not one value for each expert"),
        (("summary", "expected_accuracy"), math.nan, "record.summary.expected_accuracy must be float, got 'nan'"),
        (("cost", "seconds"), math.inf, "record.cost.seconds must be float, got 'inf'"),
        (("cost",), [], "record.cost must be an object"),
        (("memory",), 9, "memory is not an index of an expert"),
        (("memory",), -1, "memory is not an index of an expert"),
        (("precision",), {"model": 1}, "record.precision.model must be str"),
        (("notices", 0), {"kind": "x"}, r"record.notices\[0\] has no 'message'"),
        (("field", "edges"), [0], "field.edges are not the bins of the text"),
        (("field", "edges"), [], "field.edges are not the bins of the text"),
        (("field", "weights"), [], "field.weights has not one curve for each expert"),
        (("field", "lost_fraction"), [0.5], "a curve has not one value for each bin"),
        (("pieces", 1, "at"), [8], r"record.pieces\[1\].at must have 2 values, got 1"),
        (("pieces", 1, "at"), [9, 11], "the piece at position 9 does not follow the piece before it"),
        (("pieces", 1, "at"), [8, 7], "the piece at position 8 does not follow the piece before it"),
        (("pieces", 1, "origin"), [11, 8], "has no origin"),
        (("pieces", 1, "guess"), KeyError, "is an incomplete edit"),
        (("pieces", 1, "origin"), KeyError, "is an incomplete edit"),
        (("pieces", 1, "guess"), "longer text", "has a text of another length"),
        (("pieces", 1, "text"), "\ud800", "unpaired surrogate"),
        (("pieces", 1, "expert"), 5, "has an unknown expert"),
        (("pieces", 1, "confidence"), [], "lacks confidences or sources"),
        (("pieces", 1, "sources"), [[7, 1], None], "has an unknown reference"),
        (("pieces", 1, "weights"), [1.0], "has not one weight for each expert"),
        (("pieces", 0, "text"), "other", "has a text of another length"),
    ],
)
def test_an_invalid_record_is_refused_with_the_problem(entry, value, problem):
    record = replace(RESULTS["fixed"], notices=(Notice("kind", "message"),)).record.to_dict()
    assert (record["pieces"][1]["at"], record["pieces"][1]["guess"]) == ([8, 10], "d\n")
    change(entry, value)(record)
    with pytest.raises(ConservatorError, match=problem):
        Record.from_dict(record)


def list_entries(value, path=()):
    """Yield the path of each entry of nested objects and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from list_entries(item, (*path, key))


def mutate(record, generator):
    """Return a record with one to three invalid, missing, repeated or unknown entries."""
    record = copy.deepcopy(record)
    for _ in range(generator.choice([1, 1, 2, 3])):
        *path, last = generator.choice(list(list_entries(record)))
        parent = record
        for key in path:
            parent = parent[key]
        kind = generator.randrange(4)
        if kind == 0:
            del parent[last]
        elif kind == 1:
            parent[last] = copy.deepcopy(generator.choice(VALUES))
        elif kind == 2 and isinstance(parent, list):
            parent.insert(last, copy.deepcopy(parent[last]))
        elif kind == 2:
            parent["unknown"] = parent[last]
        elif isinstance(parent[last], int | float):
            parent[last] = -parent[last] + generator.choice([-1, 0, 1, 1000])
        else:
            parent[last] = [parent[last]]
    return record


@pytest.mark.parametrize("name", RESULTS)
def test_a_mutated_record_is_refused_or_valid(name):
    """No other exception is raised, and what is accepted can be written and read again."""
    generator, original = random.Random(name), RESULTS[name].record.to_dict()
    refused = 0
    for _ in range(300):
        mutated = mutate(original, generator)
        try:
            record = Record.from_dict(mutated)
        except ConservatorError:
            refused += 1
        else:
            assert Record.from_json(record.to_json()) == record
    assert refused > 30


def test_a_truncated_record_is_refused():
    text = RESULTS["fixed"].to_json()
    for stop in range(0, len(text) - 2, 97):
        with pytest.raises(ConservatorError):
            Record.from_json(text[:stop])


def test_other_entries_at_the_top_level_are_ignored():
    value = {**RESULTS["fixed"].record.to_dict(), "pictures": []}
    assert Record.from_dict(value) == RESULTS["fixed"].record
