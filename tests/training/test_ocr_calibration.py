"""What confidences mean, fitted to characters of which the truth is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import CharacterConfidence, calibration_of
from conservator.channels.ocr_calibration import GENERAL, read_calibrations, write_calibrations
from conservator.errors import ConservatorError
from conservator.training.ocr_calibration import fit_calibration, fit_curve, judge, judge_places


def draw_line(generator, size=4000):
    """A line whose reader is right as often as the square of its confidence, and whose first other reading is right."""
    confidences = generator.random(size)
    right = generator.random(size) < confidences**2
    seen = "".join("a" if one else "b" for one in right)
    return (
        seen,
        "a" * size,
        [CharacterConfidence(float(one), alternatives=(("c", 0.1), ("a", 0.8))) for one in confidences],
    )


def test_a_curve_says_how_often_a_confidence_is_right():
    found = fit_calibration([draw_line(np.random.default_rng(0), 20_000)])
    for confidence in (0.2, 0.5, 0.8):
        assert found.glyphs(confidence) == pytest.approx(confidence**2, abs=0.07)
    assert found.accuracy == pytest.approx(1 / 3, abs=0.02)
    (first, second), *_ = [found.alternative_probs((("c", 0.1), ("a", 0.8)))]
    assert (first[0], second[0]) == ("a", "c")
    assert first[1] > 0.9 > 0.1 > second[1]
    assert first[1] + second[1] < 1


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=300))
def test_a_curve_never_falls(pairs):
    confidences, holds = zip(*pairs, strict=True)
    found = fit_curve(confidences, holds)
    assert list(found.probabilities) == sorted(found.probabilities)
    assert all(0 < found(one) < 1 for one in confidences)


def test_trust_is_a_likelihood():
    found = fit_calibration([draw_line(np.random.default_rng(1))])
    ocr_confidence = found.ocr_confidence(
        [CharacterConfidence(0.9), CharacterConfidence(), CharacterConfidence(0.1, alternatives=(("c", 0.3),))]
    )
    assert ocr_confidence.correct[0] > 0 > ocr_confidence.wrong[0]
    assert ocr_confidence.correct[1] == ocr_confidence.wrong[1] == 0
    assert ocr_confidence.correct[2] < 0 < ocr_confidence.wrong[2]
    assert [text for text, _ in ocr_confidence.alternatives[2]] == ["c"]
    both = found.accuracy * np.exp(ocr_confidence.correct) + (1 - found.accuracy) * np.exp(ocr_confidence.wrong)
    assert both == pytest.approx(np.ones(3))
    assert len(ocr_confidence.part(1, 3)) == 2
    assert len(ocr_confidence.part(1, 3).deletion) == 3


def test_what_is_judged():
    said = [CharacterConfidence(0.1 * number) for number in range(4)]
    assert [truth for _, truth in judge("abxd", "abcd", said)] == [None, None, "c", None]
    assert [truth for _, truth in judge("abxy", "abz", said)].count(None) == 2
    assert list(judge_places("ab", "acb", said[1:3])) == [
        (pytest.approx(0.1), True),
        (pytest.approx(0.1), False),
        (pytest.approx(0.2), True),
    ]


def test_a_file_comes_back():
    found = fit_calibration([draw_line(np.random.default_rng(2))])
    again = read_calibrations(write_calibrations({GENERAL: found}, "a test"))
    assert again[GENERAL].accuracy == pytest.approx(found.accuracy, abs=1e-4)
    assert again[GENERAL].glyphs.probabilities == pytest.approx(found.glyphs.probabilities, abs=1e-4)
    for text in ("{", "[]", '{"format": "x"}', write_calibrations({"x": found}, ""), "[" * 100_000):
        with pytest.raises(ConservatorError, match="not a calibration"):
            read_calibrations(text)
    with pytest.raises(ConservatorError, match="no character"):
        fit_calibration([("a", "a", [CharacterConfidence()])])


def test_engines_have_calibrations_of_their_own():
    tesseract, other = calibration_of("tesseract 5.3.0"), calibration_of("ABBYY")
    assert calibration_of(None) == other != tesseract
    assert tesseract.glyphs(0.9) < 0.8 < tesseract.glyphs(0.999)
    sure, unsure = (one.ocr_confidence([CharacterConfidence(0.3, of_word=True)]) for one in (other, tesseract))
    assert 0 < sure.wrong[0] < unsure.wrong[0]
