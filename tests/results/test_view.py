"""The record and the report of a restoration."""

import html
import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator import restore
from conservator.results.config import RESULTS
from conservator.results.html import as_page, asset
from support.fakes import FakeExpert

EXPERTS = [FakeExpert(0), FakeExpert(1)]
MARK = "\ufffd"
parts = st.sampled_from([MARK, 2 * MARK, "a", "é", "日本", "\r\n", "word ", "</script>", "[...]", "😀"])


@settings(max_examples=40)
@given(st.lists(parts, max_size=12).map("".join), st.sampled_from([0.0, 0.4]), st.integers(0, 2), st.booleans())
def test_the_pieces_are_the_document(document, min_confidence, alternatives, lose_more):
    data = document.encode()
    if lose_more and data:  # half a character beside a mark
        data = MARK.encode() + data[1:]
    result = restore(
        data, EXPERTS, gap="[...]", max_gap=3, min_confidence=min_confidence, alternatives=alternatives, lost="invalid"
    )
    record = result.record
    assert record.text == result.text
    edges = [piece.at for piece in record.pieces]
    assert [start for start, _ in edges[1:]] == [stop for _, stop in edges[:-1]]
    restored = [piece for piece in record.pieces if piece.origin is not None]
    covered = np.zeros(len(result.tokens), dtype=bool)
    for piece in restored:
        covered[slice(*piece.at)] = True
        assert len(piece.confidence) == len(piece.guess)
        assert piece.unfilled or piece.text == piece.guess
    assert (covered >= result.changed).all()
    assert json.loads(result.to_json())["text"] == result.text


def test_an_alternative_of_half_a_character_is_shown_whole():
    piece = restore(b"caf\xef\xbf\xbd\xa9", EXPERTS, alternatives=2).record.pieces[-1]
    assert piece.text == piece.alternatives[0].text
    assert piece.origin == (3, 7)


def test_curves_are_sampled_and_stop_where_nothing_was_read():
    document = "a" + MARK + "b" * 3000
    record = restore(document, EXPERTS, evidence_radius=10).record
    assert len(record.field.lost_fraction) == RESULTS.max_curve_bins
    assert record.field.weights[0][0] is not None
    assert record.field.weights[0][-1] is None
    assert record.pieces[-1].expert is None


def test_text_never_becomes_markup():
    nasty = "<script>alert(1)</script><img src=x onerror=alert(2)> &amp; ]]> --> \u2028 "
    page = restore(nasty + MARK, EXPERTS, alternatives=1).to_html(nasty)
    assert page.count("<script") == 2  # the record, and the view
    assert page.count("</script>") == 2
    assert "<img" not in page
    data = re.search(r'id="record">(.*?)</script>', page, re.DOTALL).group(1)
    assert "".join(piece["text"] for piece in json.loads(data)["pieces"]).startswith(nasty)


def test_the_report_is_self_contained():
    page = as_page(restore("a" + MARK, EXPERTS).record, "title")
    assert not re.findall(r"(?:src|href)=|url\(|@import|fetch\(|XMLHttp", page)
    assert "default-src &#x27;none&#x27;" in page
    for name in ("view.js", "view.css"):
        assert asset(name) in page


def test_a_notebook_shows_it_in_a_frame():
    frame = restore("a" + MARK, EXPERTS)._repr_html_()
    assert frame.startswith('<iframe sandbox="allow-scripts" srcdoc="')
    assert html.unescape(re.search('srcdoc="(.*?)"', frame, re.DOTALL).group(1)).startswith("<!doctype html>")


def test_names_of_references_never_become_markup():
    line = "The committee met on Tuesday, and voted.\n"
    result = restore(line.replace("sd", 2 * MARK), EXPERTS, references=[("</script><img src=x>", line), ("empty", "")])
    assert result.text == line
    page = result.to_html()
    assert page.count("</script>") == 2
    assert "<img" not in page


@pytest.mark.parametrize("references", [[], [("empty", "")], [("upper", "ONE, TWO, THREE")], [("marks", MARK * 9)]])
def test_references_change_no_visible_byte(references):
    document = f"one, tw{MARK}, three {MARK}"
    result = restore(document, EXPERTS, references=references)
    assert [result.text[position] for position in range(14)] == [*"one, tw", result.text[7], *", thre"]
    assert result.record.experts[-1] == "memory"


@pytest.mark.parametrize("document", ["", "nothing lost"])
def test_documents_without_damage_have_a_report(document):
    assert restore(document, EXPERTS).to_html()
