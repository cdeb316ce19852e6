"""Documents in editorial notation: restored lacunae are written into the notation, all other bytes stay."""

import json
import re

import pytest

from conservator import Restorer
from conservator.documents import splice
from conservator.errors import ConservatorError
from conservator.results import Record, plan_renewal, renew

REFERENCES = [("log.txt", "The harbour was quiet in the morning, and the old men sat on the stone wall.\n" * 8)]
LEIDEN = "The harb[...] was qu[i]et in the mor[n..]g, and (the) o\u0323ld men [c. 3] on the [---] wall."
GAP = '<gap reason="lost" quantity="{}" unit="character"/>'
EPIDOC = (
    '<TEI xmlns="http://www.tei-c.org/ns/1.0"><text><body><ab>The harb'
    + GAP.format(3)
    + " was quiet &amp; in the morn"
    + GAP.format(3)
    + " and <gap reason='lost' unit='character' extent='unknown'/></ab></body></text></TEI>"
)


@pytest.fixture(scope="module")
def restorer():
    return Restorer(references=REFERENCES)


def check(result, source):
    """The laws of every result."""
    assert result.observed == source.encode()
    assert result.data == splice(source.encode(), ((*edit.span, edit.written()) for edit in result.edits))
    assert result.record.text == result.text
    Record.from_dict(json.loads(result.to_json()))
    result.to_html()
    for gap in result.gaps:
        assert sum(probability for _, probability in result.proposals(gap)) <= 1 + 1e-6


def test_leiden(restorer):
    result = restorer.restore(LEIDEN, notation="leiden", alternatives=3)
    check(result, LEIDEN)
    assert result.text.startswith("The harb[our] was qu[i]et in the mor[nin]g, and (the) o\u0323ld men [sat] on the [")
    assert len(result.gaps) == 4
    assert [edit.text for edit in result.edits][:1] == ["our"]
    assert all(len(edit.alternatives) == 3 for edit in result.edits)


def test_lacunae_stay_if_they_are_improbable(restorer):
    result = restorer.restore(LEIDEN, notation="leiden", min_gap_confidence=1.0)
    check(result, LEIDEN)
    assert result.text == LEIDEN
    filled = restorer.restore(LEIDEN, notation="leiden", min_gap_confidence=0.0).text
    assert re.sub(r"\[.*?\]", "", filled) == re.sub(r"\[.*?\]", "", LEIDEN)
    assert "..." not in filled
    assert "---" not in filled


def test_epidoc_is_detected(restorer):
    result = restorer.restore(EPIDOC, min_gap_confidence=0.3)
    check(result, EPIDOC)
    supplied = '<supplied reason="lost" evidence="conjecture" resp="#conservator" cert="low">our</supplied>'
    assert result.text.startswith(EPIDOC.replace(GAP.format(3), supplied, 1)[:170])
    assert restorer.restore(EPIDOC, notation="plain").text == EPIDOC


def test_restored_text_is_written_as_xml(restorer):
    start = EPIDOC.index("<gap")
    fixed = [(start, start + len(GAP.format(3)), "<&>")]
    result = restorer.restore(EPIDOC, fixed=fixed)
    check(result, EPIDOC)
    assert ">&lt;&amp;&gt;</supplied> was quiet" in result.text


def test_fixed_text_must_be_lost(restorer):
    start = LEIDEN.index("...")
    result = restorer.restore(LEIDEN, notation="leiden", fixed=[(start, start + 3, "OUR")])
    check(result, LEIDEN)
    assert result.text.startswith("The harb[OUR] was")
    with pytest.raises(ConservatorError, match="visible text"):
        restorer.restore(LEIDEN, notation="leiden", fixed=[(0, 3, "Our")])
    with pytest.raises(ConservatorError, match="not a lacuna"):
        restorer.restore(LEIDEN, notation="leiden", fixed=[(start - 2, start + 3, "Our")])


def test_marks_and_other_channels_are_restored_after_the_lacunae(restorer):
    text = LEIDEN.replace("quiet", "qu\ufffdet").replace("stone", "st\ufffdne").replace("old", "\ufffdld")
    result = restorer.restore(text, notation="leiden")
    check(result, text)
    assert result.text.startswith("The harb[our] was qu[i]et")
    assert "\ufffd" not in result.text
    bad = LEIDEN.replace("and (the)", "adn the")
    result = restorer.restore(bad, notation="leiden", channel="ocr")
    check(result, bad)
    assert "harb[our]" in result.text


@pytest.mark.parametrize(
    ("source", "marker", "notation"), [(LEIDEN, "...", "leiden"), (EPIDOC, GAP.format(3), "epidoc")]
)
def test_a_choice_of_the_user_renews_the_record(restorer, source, marker, notation):
    record = restorer.restore(source, notation=notation, min_gap_confidence=0.0).record
    start = source.encode().index(marker.encode())
    plan = plan_renewal(record, [(start, start + len(marker), "OUR")])
    update = restorer.restore(source, notation=notation, fixed=plan.fixed, min_gap_confidence=0.0).record
    renewed = renew(record, update, plan)
    renewed.check()
    assert renewed.text == restorer.restore(source, notation=notation, fixed=plan.fixed, min_gap_confidence=0.0).text
    assert "OUR" in renewed.text


def test_the_time_limit_leaves_lacunae_unfilled():
    result = Restorer(references=REFERENCES).restore(LEIDEN, notation="leiden", max_seconds=1e-6)
    assert result.text == LEIDEN
    assert result.out_of_time == "decoding"


def test_invalid_combinations_are_errors(restorer):
    with pytest.raises(ConservatorError, match="characters in editorial notation"):
        restorer.restore(LEIDEN, notation="leiden", lost="bytes")
    with pytest.raises(ConservatorError, match="not well-formed"):
        restorer.restore(LEIDEN, notation="epidoc")
    result = restorer.restore("nothing lost here", notation="leiden")
    assert (result.text, result.edits) == ("nothing lost here", ())
    assert restorer.restore("", notation="leiden").text == ""
    assert restorer.restore("[...]", notation="leiden").text == "[...]"
