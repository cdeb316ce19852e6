"""Marks that stand for one character of any kind: their unit, their widths, and marks that are undamaged text."""

import numpy as np
import pytest

from conservator import restore
from conservator.documents import read_damaged
from conservator.errors import ConservatorError
from conservator.pipelines.character_widths import infer_loss_rates, infer_widths, neighbour_probs, unit_of_marks
from conservator.pipelines.references import ReferenceTexts
from support.fakes import FakeExpert

MARK = "\ufffd"
RUSSIAN = "Комитет собрался во вторник возле старого порта. Никто этого решения не ожидал, однако члены устали. "
GERMAN = "Herr Müller fährt über die Brücke nach Köln. Die Straße ist für größere Fahrzeuge gesperrt. "


def references():
    return ReferenceTexts.of(None, MARK, ())


def damage(text, step):
    return "".join(MARK if index % step == step - 1 else letter for index, letter in enumerate(text))


@pytest.mark.parametrize(
    ("document", "lost", "unit"),
    [
        ("a lost l\ufffdtter", "auto", "any"),
        ("a lost l\ufffdtter", "any", "any"),
        ("a lost l\ufffdtter", "bytes", "bytes"),
        (b"a lost l\xef\xbf\xbdtter \xd0", "auto", "bytes"),  # part of a character is visible
        ("\ufffd[...]", "auto", "any"),
        ("no mark", "auto", "bytes"),
    ],
)
def test_the_unit_of_marks_is_decided_from_the_document(document, lost, unit):
    damaged = read_damaged(document, mark=MARK, gap="[...]")
    assert unit_of_marks(damaged, lost, is_uncertain=False) == unit


def test_characters_need_valid_text_between_the_marks():
    with pytest.raises(ConservatorError, match="must be UTF-8 between its marks"):
        unit_of_marks(read_damaged(b"\xd0 \xef\xbf\xbd", mark=MARK), "any", is_uncertain=False)


@pytest.mark.parametrize(("text", "width"), [(GERMAN.replace("ü", "u"), 1), (RUSSIAN * 2, 2)])
@pytest.mark.parametrize("use_words", [False, True])
def test_widths_are_those_of_the_neighbours_or_of_words(text, width, use_words):
    damaged = read_damaged(damage(text, 9), mark=MARK)
    widths = infer_widths(damaged, references(), use_words=use_words)
    clean = [len(letter.encode()) for index, letter in enumerate(text) if index % 9 == 8]
    assert (widths.widths == clean).mean() >= (0.9 if use_words or width == 1 else 0.75)
    assert ((widths.probability > 0) & (widths.probability <= 1)).all()
    assert len(damaged.with_widths(widths.widths).tokens) == len(damaged.tokens) + (widths.widths - 1).sum()


def test_words_of_another_language_do_not_decide_the_widths():
    text = (
        "委员会于星期二在旧港口附近举行会议讨论新的计划 The new house of the city and the old one 没有人预料到这个决定"
    )
    damaged = read_damaged(damage(text, 4), mark=MARK)
    widths = infer_widths(damaged, references(), use_words=True).widths
    clean = np.array([len(letter.encode()) for index, letter in enumerate(text) if index % 4 == 3])
    assert (widths == clean).mean() > 0.8


def test_codes_without_a_character_have_no_mass():
    widths = infer_widths(read_damaged("a\ufffdb", mark=MARK), references(), use_words=True)
    assert widths.widths.tolist() == [1]


def test_widths_of_neighbours_are_probabilities():
    probs = neighbour_probs(np.array([1, 0, 1, 2, 0, 2, 2, 2, 1, 1, 1]), np.array([1, 4]))
    np.testing.assert_allclose(probs.sum(axis=1), 1)
    assert probs.argmax(axis=1).tolist() == [0, 1]


def test_a_wrong_encoding_loses_only_characters_outside_ascii():
    distributions = np.zeros((40, 256))
    distributions[:, 200], distributions[:, 97] = 0.9, 0.1
    widths = np.where(np.arange(256) < 128, 1, 2)
    rates = infer_loss_rates(distributions, widths, np.tile([0] + [1] * 10, 40), "")
    assert (rates[97] < 0.01) & (rates[200] > 0.99)
    distributions[:, [97, 200]] = [0.9, 0.1]
    rates = infer_loss_rates(distributions, widths, np.tile([0, 2, *[1] * 8], 40), "")
    assert rates[97] == pytest.approx(rates[200]) == pytest.approx(0.1)


def test_a_mark_may_be_undamaged_text():
    for text in ("Wo ist Herr Müller?", "Die Müllerin ging über die Brücke. Wo ist Herr Müller? Wer weiß das?"):
        observed = "".join(letter if letter.isascii() else "?" for letter in text)
        result = restore(observed, mark="?")
        assert result.text == text
        assert len(result.changes) == sum(not letter.isascii() for letter in text)  # a kept mark is no edit


@pytest.mark.parametrize("options", [{}, {"alternatives": 3}, {"gap": "[...]"}])
def test_a_character_is_restored_as_a_whole(options):
    observed = damage(RUSSIAN, 8) + "[...]"
    result = restore(observed, [FakeExpert(1)], **options)
    assert result.unit == "character"
    assert result.record.text == result.text
    assert result.summary.lost >= observed.count(MARK)
    if "gap" not in options:
        assert len(result.text) == len(observed)
        assert all(left in (MARK, right) for left, right in zip(observed, result.text, strict=True))
