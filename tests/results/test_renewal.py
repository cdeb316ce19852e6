"""A choice is read with its surroundings: what is far stays, what is near is what a whole reading would give."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator import restore
from conservator.documents import InputText, read_damaged
from conservator.errors import ConservatorError
from conservator.results import as_record, plan_renewal, renew
from conservator.results.renewal import list_places, summarise
from support.fakes import FakeExpert

MARK = "\ufffd"
EXPERTS = [FakeExpert(0), FakeExpert(1)]
NEAR = 24  # instead of a number that makes long documents
FAR = "some words that are far away. "
parts = st.lists(st.sampled_from([MARK, 2 * MARK, "a", "é", "\n", "[...]", "word ", FAR]), max_size=10).map("".join)
texts = st.sampled_from(["x", "é", "two\nlines", MARK, "[...]"])
OPTIONS = {"gap": "[...]", "max_gap": 3, "alternatives": 2, "lost": "invalid"}


@pytest.fixture(autouse=True)
def evidence_radius():
    with mock.patch("conservator.results.renewal.NEAR", NEAR):
        yield


def text_of(record):
    return "".join(piece["text"] for piece in record["pieces"])


@given(parts, st.data())
def test_known_text_takes_the_place_of_signs(document, data):
    places = list_places(as_record(restore(document, EXPERTS, **OPTIONS)))
    chosen = [place for place in places if data.draw(st.booleans())]
    fixed = [(*place.origin, data.draw(texts)) for place in chosen]
    damaged = read_damaged(document, gap="[...]", fixed=fixed)
    assert [tuple(damaged.spans[one]) for one in damaged.fixed] == [place.origin for place in chosen]
    for one, (start, stop, text) in zip(damaged.fixed, fixed, strict=True):
        first = damaged.positions[one]
        stretch = np.arange(first, first + damaged.lengths[one])
        assert bytes(damaged.tokens[stretch].tolist()).decode() == text
        assert {tuple(origin) for origin in damaged.origins(stretch)} == {(start, stop)}
    found = restore(document, EXPERTS, fixed=fixed, **OPTIONS)
    record = as_record(found)
    assert [(one.origin, one.text) for one in list_places(record) if one.chosen] == [
        ((start, stop), text) for start, stop, text in fixed
    ]
    assert text_of(record) == found.text
    counted = summarise(record["pieces"], found.length)
    assert counted.pop("expected_accuracy") == pytest.approx(record["summary"].pop("expected_accuracy"), abs=2e-4)
    assert counted == record["summary"] | {"remembered": counted["remembered"]}


@given(parts, st.sampled_from([0.0, 0.4]), st.data())
def test_choices_in_turn_keep_what_is_far_and_renew_what_is_near(document, least, data):
    record = as_record(restore(document, EXPERTS, min_confidence=least, **OPTIONS))
    choices = {}
    for _ in range(3):
        places = list_places(record)
        if not places:
            return
        for place in data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=2)):
            if place.chosen and data.draw(st.booleans()):
                choices.pop(place.origin, None)  # undone
            else:
                choices[place.origin] = data.draw(texts)
        fixed = sorted((*origin, text) for origin, text in choices.items())
        plan = plan_renewal(record, fixed)
        again = restore(document, EXPERTS, fixed=plan.fixed, min_confidence=least, **OPTIONS)
        merged = renew(record, as_record(again), plan)
        check(record, merged, plan)
        assert {place.origin: place.text for place in list_places(merged) if place.chosen} == choices
        if least == 0:
            assert text_of(merged) == again.text
        record = merged


def check(before, after, plan):
    """What was kept is as it was, and the whole is a record."""
    edges = [piece["at"] for piece in after["pieces"]]
    assert [start for start, _ in edges[1:]] == [stop for _, stop in edges[:-1]]
    assert (edges[-1][1] if edges else 0) == after["summary"]["bytes"]
    assert len(after["field"]["edges"]) == len(after["field"]["lost"]) + 1
    now = {place.origin: place for place in list_places(after)}
    for place in plan.kept:
        for old, new in zip(place.pieces, now[place.origin].pieces, strict=True):
            assert {**old, "at": None} == {**new, "at": None}


def test_what_is_far_costs_nothing():
    document = "".join(f"{MARK} {FAR}" for _ in range(20))
    experts = [FakeExpert(0)]
    record = as_record(restore(document, experts, alternatives=2))
    cost, last = experts[0].read, list_places(record)[-1]
    plan = plan_renewal(record, [(0, 3, "x")])
    assert plan.cuts == ((0, 1),)
    restore(document, experts, alternatives=2, fixed=plan.fixed)
    assert experts[0].read == cost  # nothing near it is lost
    two = plan_renewal(record, [(0, 3, "x"), (*last.origin, "y")])
    assert len(two.cuts) == 2
    assert len(two.fixed) == 20


def test_a_choice_keeps_what_it_was_chosen_from_and_line_numbers_count_the_damaged_document():
    line = "The committee met on Tuesday in the old harbour hall, and voted.\n"
    document = f"one{MARK}two{MARK}three\n\n{line}{line.replace('Tue', 3 * MARK)}"
    record = as_record(restore(document, EXPERTS, alternatives=3))
    source = next(piece["from"] for piece in record["pieces"] if piece.get("guess") == "Tue")
    assert source == [[None, 3]] * 3
    plan = plan_renewal(record, [(3, 6, "\n\n")])
    merged = renew(record, as_record(restore(document, EXPERTS, alternatives=3, fixed=plan.fixed)), plan)
    assert next(piece["from"] for piece in merged["pieces"] if piece.get("guess") == "Tue") == source
    chosen = next(piece for piece in merged["pieces"] if "chosen" in piece)
    assert chosen["fills"] == record["pieces"][1]["fills"]
    assert merged["summary"]["chosen"] == 1
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
def test_known_text_that_does_not_fit_is_said(fixed, message):
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
def test_a_lost_place_may_have_bytes_beside_its_marks(document, fixed, text):
    assert restore(document, EXPERTS, fixed=[fixed], gap="[...]", lost="invalid", encoding="utf-8").text == text


pieces = st.lists(st.sampled_from([MARK.encode(), b"[...]", b"a", "\u00e9\u20ac".encode()]) | st.binary(max_size=5))


@given(pieces.map(b"".join))
def test_every_lost_place_of_a_record_may_be_chosen(document):
    source = InputText(document)
    places = list_places(as_record(restore(source, EXPERTS, **OPTIONS)))
    fixed = [(*place.origin, "chosen") for place in places]
    restore(source, EXPERTS, fixed=fixed, **OPTIONS)
    for one in fixed:
        read_damaged(document, gap="[...]", fixed=[one])


@pytest.mark.parametrize(("start", "stop"), [(1, 3), (2, 6), (3, 7), (6, 9)])
def test_a_visible_character_of_several_bytes_is_not_replaced(start, stop):
    with pytest.raises(ConservatorError, match="is visible text"):
        restore(f"x\u00e9{MARK}\u20acy", EXPERTS, fixed=[(start, stop, "a")])


def test_choices_where_nothing_was_lost_are_said():
    record = as_record(restore(f"a{MARK}b", EXPERTS))
    with pytest.raises(ConservatorError, match="nothing was lost at the bytes 0 to 1"):
        plan_renewal(record, [(0, 1, "a")])
    with pytest.raises(ConservatorError, match="known: text is known of marked gaps"):
        restore(f"a{MARK}b", EXPERTS, channel="replacement:0.1", fixed=[(1, 4, "x")])
