"""Calibration of OCR confidences, fitted to characters with known truth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import CharacterConfidence, calibration_of
from conservator.channels.ocr_calibration import GENERAL, read_calibrations, write_calibrations
from conservator.errors import ConservatorError
from conservator.training.ocr_calibration import fit_calibration, fit_curve, label_characters, label_gaps


def draw_line(generator, size=4000):
    """Draw a line with accuracy confidence ** 2, whose most confident alternative is correct."""
    confidences = generator.random(size)
    correct = generator.random(size) < confidences**2
    observed = "".join("a" if is_correct else "b" for is_correct in correct)
    return (
        observed,
        "a" * size,
        [CharacterConfidence(float(value), alternatives=(("c", 0.1), ("a", 0.8))) for value in confidences],
    )


def test_a_curve_gives_the_accuracy_of_a_confidence():
    calibration = fit_calibration([draw_line(np.random.default_rng(0), 20_000)])
    for confidence in (0.2, 0.5, 0.8):
        assert calibration.glyphs(confidence) == pytest.approx(confidence**2, abs=0.07)
    assert calibration.accuracy == pytest.approx(1 / 3, abs=0.02)
    (first, second), *_ = [calibration.alternative_probs((("c", 0.1), ("a", 0.8)))]
    assert (first[0], second[0]) == ("a", "c")
    assert first[1] > 0.9 > 0.1 > second[1]
    assert first[1] + second[1] < 1


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=300))
def test_a_curve_is_monotone(pairs):
    confidences, labels = zip(*pairs, strict=True)
    curve = fit_curve(confidences, labels)
    assert list(curve.probabilities) == sorted(curve.probabilities)
    assert all(0 < curve(confidence) < 1 for confidence in confidences)


def test_the_confidence_likelihood_is_normalised():
    calibration = fit_calibration([draw_line(np.random.default_rng(1))])
    ocr_confidence = calibration.ocr_confidence(
        [CharacterConfidence(0.9), CharacterConfidence(), CharacterConfidence(0.1, alternatives=(("c", 0.3),))]
    )
    assert ocr_confidence.correct[0] > 0 > ocr_confidence.wrong[0]
    assert ocr_confidence.correct[1] == ocr_confidence.wrong[1] == 0
    assert ocr_confidence.correct[2] < 0 < ocr_confidence.wrong[2]
    assert [text for text, _ in ocr_confidence.alternatives[2]] == ["c"]
    both = calibration.accuracy * np.exp(ocr_confidence.correct) + (1 - calibration.accuracy) * np.exp(
        ocr_confidence.wrong
    )
    assert both == pytest.approx(np.ones(3))
    assert len(ocr_confidence.part(1, 3)) == 2
    assert len(ocr_confidence.part(1, 3).deletion) == 3


def test_characters_and_gaps_are_labelled():
    confidences = [CharacterConfidence(0.1 * number) for number in range(4)]
    assert [truth for _, truth in label_characters("abxd", "abcd", confidences)] == [None, None, "c", None]
    assert [truth for _, truth in label_characters("abxy", "abz", confidences)].count(None) == 2
    assert list(label_gaps("ab", "acb", confidences[1:3])) == [
        (pytest.approx(0.1), True),
        (pytest.approx(0.1), False),
        (pytest.approx(0.2), True),
    ]


def test_a_calibration_is_written_and_read():
    calibration = fit_calibration([draw_line(np.random.default_rng(2))])
    loaded = read_calibrations(write_calibrations({GENERAL: calibration}, "a test"))
    assert loaded[GENERAL].accuracy == pytest.approx(calibration.accuracy, abs=1e-4)
    assert loaded[GENERAL].glyphs.probabilities == pytest.approx(calibration.glyphs.probabilities, abs=1e-4)
    for text in ("{", "[]", '{"format": "x"}', write_calibrations({"x": calibration}, ""), "[" * 100_000):
        with pytest.raises(ConservatorError, match="not a calibration"):
            read_calibrations(text)
    with pytest.raises(ConservatorError, match="no character has an OCR confidence"):
        fit_calibration([("a", "a", [CharacterConfidence()])])


def test_engines_have_different_calibrations():
    tesseract, other = calibration_of("tesseract 5.3.0"), calibration_of("ABBYY")
    assert calibration_of(None) == other != tesseract
    assert tesseract.glyphs(0.9) < 0.8 < tesseract.glyphs(0.999)
    general, specific = (
        calibration.ocr_confidence([CharacterConfidence(0.3, of_word=True)]) for calibration in (other, tesseract)
    )
    assert 0 < general.wrong[0] < specific.wrong[0]
