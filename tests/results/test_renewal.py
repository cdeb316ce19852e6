"""Renewal: text near a changed fixed text is restored again, and text far from it is unchanged."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator import restore
from conservator.document import Document
from conservator.documents import read_damaged
from conservator.errors import ConservatorError
from conservator.results import Record, plan_renewal, renew
from conservator.results.config import RESULTS
from conservator.results.renewal import list_lost_spans, summarize_pieces
from support.fakes import FakeExpert, TextExpert

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


@given(parts, st.data())
def test_fixed_text_replaces_markers(document, data):
    spans = list_lost_spans(restore(document, EXPERTS, **OPTIONS).record.pieces)
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
    record = result.record
    assert [(span.origin, span.text) for span in list_lost_spans(record.pieces) if span.is_fixed] == [
        ((start, stop), text) for start, stop, text in fixed
    ]
    assert record.text == result.text
    counted, summary = summarize_pieces(record.pieces, result.length, record), record.summary
    assert counted.expected_accuracy == pytest.approx(summary.expected_accuracy, abs=2e-4)
    assert counted.weights == pytest.approx(summary.weights, abs=2e-4)
    same = {name: getattr(counted, name) for name in ("expected_accuracy", "weights", "provenance")}
    assert counted == replace(summary, **same)


@given(parts, st.sampled_from([0.0, 0.4]), st.data())
def test_repeated_renewals_keep_far_text_and_renew_near_text(document, min_confidence, data):
    record = restore(document, EXPERTS, min_confidence=min_confidence, **OPTIONS).record
    choices = {}
    for _ in range(3):
        spans = list_lost_spans(record.pieces)
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
        merged = renew(record, again.record, plan)
        check(record, merged, plan)
        assert {span.origin: span.text for span in list_lost_spans(merged.pieces) if span.is_fixed} == choices
        if not any(piece.unfilled for span in plan.unchanged for piece in span.pieces):
            assert merged.text == again.text
        record = merged


def check(before, after, plan):
    """Check that unchanged spans are equal, and that the result is a valid record."""
    after.check()
    assert Record.from_json(after.to_json()) == after
    new_spans = {span.origin: span for span in list_lost_spans(after.pieces)}
    for span in plan.unchanged:
        for old, new in zip(span.pieces, new_spans[span.origin].pieces, strict=True):
            assert replace(old, at=new.at) == new


def test_text_far_from_a_change_is_not_read():
    document = "".join(f"{MARK} {FAR_TEXT}" for _ in range(20))
    experts = [FakeExpert(0)]
    record = restore(document, experts, alternatives=2).record
    cost, last = experts[0].read, list_lost_spans(record.pieces)[-1]
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
    record = restore(document, EXPERTS, alternatives=3).record
    source = next(piece.sources for piece in record.pieces if piece.guess == "Tue")
    assert source == ((None, 3),) * 3
    plan = plan_renewal(record, [(3, 6, "\n\n")])
    merged = renew(record, restore(document, EXPERTS, alternatives=3, fixed=plan.fixed).record, plan)
    assert next(piece.sources for piece in merged.pieces if piece.guess == "Tue") == source
    fixed = next(piece for piece in merged.pieces if piece.fixed)
    assert fixed.alternatives == record.pieces[1].alternatives
    assert merged.summary.fixed == 1
    back = plan_renewal(merged, [])
    again = renew(merged, restore(document, EXPERTS, alternatives=3, fixed=back.fixed).record, back)
    assert again.text == record.text


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
    source = Document(document)
    spans = list_lost_spans(restore(source, EXPERTS, **OPTIONS).record.pieces)
    fixed = [(*span.origin, "text") for span in spans]
    restore(source, EXPERTS, fixed=fixed, **OPTIONS)
    for fixed_text in fixed:
        read_damaged(document, gap="[...]", fixed=[fixed_text])


@pytest.mark.parametrize(("start", "stop"), [(1, 3), (2, 6), (3, 7), (6, 9)])
def test_a_visible_character_of_several_bytes_is_not_replaced(start, stop):
    with pytest.raises(ConservatorError, match="is visible text"):
        restore(f"x\u00e9{MARK}\u20acy", EXPERTS, fixed=[(start, stop, "a")])


def test_fixed_text_without_loss_is_refused():
    record = restore(f"a{MARK}b", EXPERTS).record
    with pytest.raises(ConservatorError, match="nothing was lost at the bytes 0 to 1"):
        plan_renewal(record, [(0, 1, "a")])


def test_changed_visible_text_may_be_fixed_and_renewed():
    """With a channel that may overwrite any byte, a choice pins visible bytes, and changes far from it stay."""
    text = "the quick brown caf\u00e9 jumps over the lazy dog; " * 4
    data = bytearray(text.encode())
    near, far = 4, text.encode().rindex(b"\xa9")  # the latter is the second byte of a character
    data[near] = data[far] = ord("#")
    document, options = bytes(data), {"channel": "replacement:0.2", "encoding": "utf-8"}
    experts = [TextExpert(text), FakeExpert(0, 64)]
    first = restore(document, experts, **options)
    assert first.text == text
    plan = plan_renewal(first.record, [(near, near + 1, "Q")])
    update = restore(document, experts, fixed=plan.fixed, **options)
    renewed = renew(first.record, update.record, plan)
    assert renewed.text == text[:near] + "Q" + text[near + 1 :]
