"""Renewal: text near a changed fixed text is restored again, and text far from it is unchanged."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator import restore
from conservator.documents import InputText, read_damaged
from conservator.errors import ConservatorError
from conservator.results import as_record, plan_renewal, renew
from conservator.results.config import RESULTS
from conservator.results.renewal import list_lost_spans, summarize_pieces
from support.fakes import FakeExpert

MARK = "\ufffd"
EXPERTS = [FakeExpert(0), FakeExpert(1)]
RADIUS = 24  # bytes: smaller than the default, so that documents can be short
FAR_TEXT = "some words that are far away. "
parts = st.lists(st.sampled_from([MARK, 2 * MARK, "a", "é", "\n", "[...]", "word ", FAR_TEXT]), max_size=10).map(
    "".join
)
texts = st.sampled_from(["x", "é", "two\nlines", MARK, "[...]"])
OPTIONS = {"gap": "[...]", "max_gap": 3, "alternatives": 2, "lost": "invalid"}


@pytest.fixture(autouse=True)
def renewal_radius():
    config = replace(RESULTS, renewal_radius_bytes=RADIUS)
    with mock.patch("conservator.results.renewal.RESULTS", config):
        yield


def text_of(record):
    return "".join(piece["text"] for piece in record["pieces"])


@given(parts, st.data())
def test_fixed_text_replaces_markers(document, data):
    spans = list_lost_spans(as_record(restore(document, EXPERTS, **OPTIONS)))
    fixed_spans = [span for span in spans if data.draw(st.booleans())]
    fixed = [(*span.origin, data.draw(texts)) for span in fixed_spans]
    damaged = read_damaged(document, gap="[...]", fixed=fixed)
    assert [tuple(damaged.spans[marker]) for marker in damaged.fixed] == [span.origin for span in fixed_spans]
    for marker, (start, stop, text) in zip(damaged.fixed, fixed, strict=True):
        first = damaged.positions[marker]
        positions = np.arange(first, first + damaged.lengths[marker])
        assert bytes(damaged.tokens[positions].tolist()).decode() == text
        assert {tuple(origin) for origin in damaged.origins(positions)} == {(start, stop)}
    result = restore(document, EXPERTS, fixed=fixed, **OPTIONS)
    record = as_record(result)
    assert [(span.origin, span.text) for span in list_lost_spans(record) if span.is_fixed] == [
        ((start, stop), text) for start, stop, text in fixed
    ]
    assert text_of(record) == result.text
    counted = summarize_pieces(record["pieces"], result.length)
    assert counted.pop("expected_accuracy") == pytest.approx(record["summary"].pop("expected_accuracy"), abs=2e-4)
    assert counted == record["summary"] | {"provenance": counted["provenance"]}


@given(parts, st.sampled_from([0.0, 0.4]), st.data())
def test_repeated_renewals_keep_far_text_and_renew_near_text(document, min_confidence, data):
    record = as_record(restore(document, EXPERTS, min_confidence=min_confidence, **OPTIONS))
    choices = {}
    for _ in range(3):
        spans = list_lost_spans(record)
        if not spans:
            return
        for span in data.draw(st.lists(st.sampled_from(spans), min_size=1, max_size=2)):
            if span.is_fixed and data.draw(st.booleans()):
                choices.pop(span.origin, None)  # undone
            else:
                choices[span.origin] = data.draw(texts)
        fixed = sorted((*origin, text) for origin, text in choices.items())
        plan = plan_renewal(record, fixed)
        again = restore(document, EXPERTS, fixed=plan.fixed, min_confidence=min_confidence, **OPTIONS)
        merged = renew(record, as_record(again), plan)
        check(record, merged, plan)
        assert {span.origin: span.text for span in list_lost_spans(merged) if span.is_fixed} == choices
        if min_confidence == 0:
            assert text_of(merged) == again.text
        record = merged


def check(before, after, plan):
    """Check that unchanged spans are equal, and that the result is a valid record."""
    edges = [piece["at"] for piece in after["pieces"]]
    assert [start for start, _ in edges[1:]] == [stop for _, stop in edges[:-1]]
    assert (edges[-1][1] if edges else 0) == after["summary"]["bytes"]
    assert len(after["field"]["edges"]) == len(after["field"]["lost_fraction"]) + 1
    new_spans = {span.origin: span for span in list_lost_spans(after)}
    for span in plan.unchanged:
        for old, new in zip(span.pieces, new_spans[span.origin].pieces, strict=True):
            assert {**old, "at": None} == {**new, "at": None}


def test_text_far_from_a_change_is_not_read():
    document = "".join(f"{MARK} {FAR_TEXT}" for _ in range(20))
    experts = [FakeExpert(0)]
    record = as_record(restore(document, experts, alternatives=2))
    cost, last = experts[0].read, list_lost_spans(record)[-1]
    plan = plan_renewal(record, [(0, 3, "x")])
    assert plan.replaced == ((0, 1),)
    restore(document, experts, alternatives=2, fixed=plan.fixed)
    assert experts[0].read == cost  # nothing is lost near it
    two = plan_renewal(record, [(0, 3, "x"), (*last.origin, "y")])
    assert len(two.replaced) == 2
    assert len(two.fixed) == 20


def test_fixed_text_keeps_its_alternatives_and_lines_are_those_of_the_damaged_document():
    line = "The committee met on Tuesday in the old harbour hall, and voted.\n"
    document = f"one{MARK}two{MARK}three\n\n{line}{line.replace('Tue', 3 * MARK)}"
    record = as_record(restore(document, EXPERTS, alternatives=3))
    source = next(piece["from"] for piece in record["pieces"] if piece.get("guess") == "Tue")
    assert source == [[None, 3]] * 3
    plan = plan_renewal(record, [(3, 6, "\n\n")])
    merged = renew(record, as_record(restore(document, EXPERTS, alternatives=3, fixed=plan.fixed)), plan)
    assert next(piece["from"] for piece in merged["pieces"] if piece.get("guess") == "Tue") == source
    fixed = next(piece for piece in merged["pieces"] if "fixed" in piece)
    assert fixed["alternatives"] == record["pieces"][1]["alternatives"]
    assert merged["summary"]["fixed"] == 1
    back = plan_renewal(merged, [])
    again = renew(merged, as_record(restore(document, EXPERTS, alternatives=3, fixed=back.fixed)), back)
    assert text_of(again) == text_of(record)


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        ([(3, 1, "a")], "fixed: the bytes 3 to 1; ranges must be in order"),
        ([(0, 2, "a"), (1, 3, "b")], "must be in order, disjoint"),
        ([(0, 99, "a")], "within 5 bytes"),
        ([(1, 4, "")], "at least one character"),
        ([(4, 4, "a")], "disjoint, not empty, and"),
        ([(0, 1, "b")], r"fixed: the bytes 0 to 1 are not all lost: b'a' at 0 to 1 is visible text"),
        ([(0, 4, "b")], r"the bytes 0 to 4 are not all lost: b'a' at 0 to 1 is visible"),
        ([(1, 5, "b")], r"the bytes 1 to 5 are not all lost: b'b' at 4 to 5 is visible"),
        ([(1, 3, "b")], "the bytes 1 to 3 split the marker at 1 to 4"),
        ([(2, 4, "b")], "the bytes 2 to 4 split the marker at 1 to 4"),
    ],
)
def test_invalid_ranges_of_fixed_text_are_refused(fixed, message):
    with pytest.raises(ConservatorError, match=message):
        restore(f"a{MARK}b", EXPERTS, fixed=fixed)


@pytest.mark.parametrize(
    ("document", "fixed", "text"),
    [
        (b"x\xc3\xef\xbf\xbdy", (1, 5, "\u00e9"), "x\u00e9y"),  # half a character, and a mark for its other half
        (b"x\xef\xbf\xbd\xa9y", (1, 5, "\u00e9"), "x\u00e9y"),
        (b"x\xff\xfey", (1, 3, "ab"), "xaby"),  # bytes that are not UTF-8
        (b"x[...]\xef\xbf\xbdy", (1, 9, "long text"), "xlong texty"),
        (b"\xef\xbf\xbd", (0, 3, "a"), "a"),
    ],
)
def test_a_lost_span_may_have_bytes_beside_its_marks(document, fixed, text):
    assert restore(document, EXPERTS, fixed=[fixed], gap="[...]", lost="invalid", encoding="utf-8").text == text


pieces = st.lists(st.sampled_from([MARK.encode(), b"[...]", b"a", "\u00e9\u20ac".encode()]) | st.binary(max_size=5))


@given(pieces.map(b"".join))
def test_every_lost_span_of_a_record_may_be_fixed(document):
    source = InputText(document)
    spans = list_lost_spans(as_record(restore(source, EXPERTS, **OPTIONS)))
    fixed = [(*span.origin, "text") for span in spans]
    restore(source, EXPERTS, fixed=fixed, **OPTIONS)
    for fixed_text in fixed:
        read_damaged(document, gap="[...]", fixed=[fixed_text])


@pytest.mark.parametrize(("start", "stop"), [(1, 3), (2, 6), (3, 7), (6, 9)])
def test_a_visible_character_of_several_bytes_is_not_replaced(start, stop):
    with pytest.raises(ConservatorError, match="is visible text"):
        restore(f"x\u00e9{MARK}\u20acy", EXPERTS, fixed=[(start, stop, "a")])


def test_fixed_text_without_loss_is_refused():
    record = as_record(restore(f"a{MARK}b", EXPERTS))
    with pytest.raises(ConservatorError, match="nothing was lost at the bytes 0 to 1"):
        plan_renewal(record, [(0, 1, "a")])
    with pytest.raises(ConservatorError, match="fixed: fixed text needs marked gaps"):
        restore(f"a{MARK}b", EXPERTS, channel="replacement:0.1", fixed=[(1, 4, "x")])
