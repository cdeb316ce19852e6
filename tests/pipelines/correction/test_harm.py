"""Correction does not change text without coverage: other languages, numbers, addresses, identifiers and codes."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import conservator
from conservator.channels import EditChannel
from conservator.decoders.edits import Change
from conservator.experts.char_ngram import CharNgramMixture, CharNgramModel
from conservator.pipelines.correction import Corrector
from conservator.pipelines.correction.confidence import KIND_BIAS, calibrate, kind_of
from conservator.pipelines.correction.coverage import COVERAGE, Coverage
from conservator.pipelines.correction.protection import is_code, is_name, token_span
from conservator.pipelines.references import find_tokens

ENGLISH = (
    "The prisoner was brought before the magistrate in the morning, and the constable said that he had been found in "
    "the burning house. He was remanded, and the house was burnt to the ground before the morning came again.\n"
)
OTHER_LANGUAGES = {
    "German": "In der Stadt war es ruhig, und die Bürger mußten warten, bis der Magistrat am Abend die Thore öffnen "
    "ließ. Er schüttelte den Kopf und sagte, daß niemand das Haus verlassen dürfe.",
    "French": "Ils ont signé la Déclaration pendant que les habitants de la ville attendaient sur la place. Le maire "
    "avait promis de revenir avant la nuit, mais personne ne le croyait plus.",
    "Arabic": "ولد في مدينة صغيرة على ساحل البحر ودرس في المدرسة القديمة ثم سافر إلى العاصمة ليعمل في الجريدة.",
    "Latin": "Gallia est omnis divisa in partes tres, quarum unam incolunt Belgae, aliam Aquitani, tertiam qui ipsorum "
    "lingua Celtae, nostra Galli appellantur.",
}
CODES = {
    "prices": "Received of Mr. Clark, 31l. 7s. 2d.; of Mrs. Hill, 4l. 10s., and for vol. ii. of the report @ 8s. each.",
    "table": "17,Clark,2019-03-04,0.5512,,ok,Al\n18,Hill,2019-11-05,0.1023,,ok,Bl",
    "address": "The report is at https://www.exumple33.org/a1l/index.htm and the office at info@rnail.exarnple.net.",
    "numbers": "The order AB-01774-OI has the number 978-3-161-48410-0, and the account is DE89370400440532013000.",
    "formulas": "The plant makes sugar, C6H12O6, from water, H2O, and the gas CO2, as the old book on plants says.",
}
CHANNEL = EditChannel({("l", "1"): 0.02, ("rn", "m"): 0.05, ("h", "b"): 0.02, ("s", "8"): 0.02}, {}, 0.97)


@pytest.mark.parametrize("text", OTHER_LANGUAGES.values(), ids=OTHER_LANGUAGES)
def test_a_language_without_a_model_is_left_unchanged_with_a_notice(text):
    result = conservator.restore(text, channel="ocr")
    assert result.text == text
    assert not result.changes
    assert [notice.kind for notice in result.notices] == ["unknown_language"]


@pytest.mark.parametrize("text", CODES.values(), ids=CODES)
def test_numbers_addresses_and_codes_are_unchanged(text):
    assert conservator.restore(text, channel="ocr").text == text


def test_english_is_still_corrected():
    observed = ENGLISH.replace("he magistrate", "he rnagistrate").replace("the house", "tbe house")
    result = conservator.restore(observed, channel="ocr")
    assert result.text == ENGLISH
    assert not result.notices


def test_curly_quotation_marks_are_not_errors():
    text = "\u201cIt is late,\u201d said the magistrate. \u201cWe don\u2019t sit in the evening.\u201d\n" * 3
    result = conservator.restore(text.replace("the magistrate", "tbe magistrate", 1), channel="ocr")
    assert result.text == text


def test_a_part_in_another_language_is_left_unchanged():
    observed = ENGLISH.replace("the house", "tbe house") * 4
    foreign = (OTHER_LANGUAGES["German"] + "\n") * 8
    result = conservator.restore(observed + foreign, channel="ocr")
    assert result.text.endswith(foreign)
    assert result.text.startswith(ENGLISH)
    (notice,) = result.notices
    assert notice.kind == "unknown_language"
    assert "% of this text" in notice.message


def test_reference_texts_make_corrections_possible():
    observed = OTHER_LANGUAGES["German"].replace("Bürger", "Burger")
    channel = EditChannel({("ü", "u"): 0.05}, {}, 0.97)
    assert conservator.restore(observed, channel=channel).text == observed
    result = conservator.restore(observed, channel=channel, references=[("book", OTHER_LANGUAGES["German"] * 30)])
    assert result.text == OTHER_LANGUAGES["German"]
    assert not result.notices


def test_reference_texts_in_another_language_change_nothing():
    result = conservator.restore(OTHER_LANGUAGES["French"], channel="ocr", references=[("court", ENGLISH * 30)])
    assert result.text == OTHER_LANGUAGES["French"]
    assert [notice.kind for notice in result.notices] == ["unknown_language"]


def test_a_number_is_changed_only_if_a_reference_text_has_the_result():
    text = ("He paid 31l. for the burning house. " + ENGLISH) * 20
    prior = CharNgramMixture.of([CharNgramModel.of("court", [text])])
    observed = "He paid 311. for the buming house. " + ENGLISH
    assert Corrector(CHANNEL, prior).correct(observed).text == observed.replace("buming", "burning")
    with_tokens = Corrector(CHANNEL, prior, reference_tokens=find_tokens([text])).correct(observed)
    assert with_tokens.text == "He paid 31l. for the burning house. " + ENGLISH


@pytest.mark.parametrize(
    "token",
    [
        "31l.",
        "1842",
        "C6H12O6",
        "https://a.org",
        "www.a.org",
        "me@a.org",
        "usr/lib/x",
        "a_b",
        "f()",
        "a::b",
        "x=y",
        "a,b,c",
    ],
)
def test_protected_tokens(token):
    assert is_name(token) or is_code(token)


@pytest.mark.parametrize("token", ["house,", "tl^e", "and/or", "O'Brien", '"moming"', "well-known", "McDonald", "Mr."])
def test_words_with_errors_are_not_protected(token):
    assert not is_name(token)
    assert not is_code(token)


@given(st.text(alphabet="ab \n1", max_size=30), st.data())
def test_a_token_span_has_blanks_around_it_and_contains_the_range(text, data):
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, len(text)))
    first, last = token_span(text, start, stop)
    assert first <= start <= stop <= last
    assert not text[first - 1 : first].strip()
    assert not text[last : last + 1].strip()


def test_the_local_surprisal_is_the_mean_over_the_window():
    mixture = CharNgramMixture.of([CharNgramModel.of("court", [ENGLISH])])
    text = ENGLISH * 3
    coverage = Coverage(text, mixture)
    clipped = np.minimum(-mixture.log_probs(text), COVERAGE.max_surprisal)
    for position in (0, 1, COVERAGE.radius, 250, len(text) - 1):
        window = clipped[max(0, position - COVERAGE.radius) : position + COVERAGE.radius + 1]
        assert np.isclose(coverage.surprisal[position], window.mean())
    assert coverage.covered.all()
    assert coverage.uncovered_share(text) == 0
    assert not Coverage("zq" * 200, mixture).covered.any()
    assert Coverage("", mixture).uncovered_share("") == 0


def test_marks_do_not_count_as_unknown_text():
    mixture = CharNgramMixture.of([CharNgramModel.of("court", [ENGLISH * 5])])
    observed = ENGLISH.replace("e", "\ufffd")
    marks = [match.span() for match in re.finditer("\ufffd", observed)]
    assert Coverage(observed, mixture, marks).surprisal.mean() < Coverage(observed, mixture).surprisal.mean()


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from(sorted(KIND_BIAS)), st.floats(0, 1))
def test_a_calibrated_probability_is_monotonic(probability, surprisal, kind, references):
    result = calibrate(probability, surprisal, kind, references)
    assert 0 <= result <= 1
    assert result <= calibrate(min(1.0, probability + 0.1), surprisal, kind, references) + 1e-12
    assert result >= calibrate(probability, surprisal + 0.5, kind, references) - 1e-12
    assert calibrate(probability, surprisal, kind, 1.0) == probability


def test_kinds_of_changes():
    kinds = {
        ("a", "o"): "letters",
        ("C", "c"): "case",
        (" ", ""): "space",
        (",", "."): "punctuation",
        ("", "-"): "punctuation",
    }
    for (observed, text), kind in kinds.items():
        assert kind_of(Change(0, len(observed), observed, text, 0.9, 3.0)) == kind
