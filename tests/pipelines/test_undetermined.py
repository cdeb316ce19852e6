"""Lost text that the visible text around it does not determine."""

import random

import numpy as np
import pytest
import torch

from conservator.channels import ReplacementChannel
from conservator.decoders import DecodedText
from conservator.documents import read_damaged
from conservator.experts import Cost
from conservator.pipelines.undetermined import find_mostly_lost, keep_observed

MARK = "\ufffd"
ENGLISH = (
    "The committee met on Tuesday in the old harbour hall, and voted. Nobody had expected that the proposal would pass "
    "at once, but the members were tired, and the rain had begun to come through the roof again. "
) * 3
RUSSIAN = (
    "Комитет собрался во вторник возле старого порта, голосование прошло быстро. Никто этого решения не ожидал, "
    "однако члены комитета устали, дождь снова начал проникать сквозь крышу. "
) * 3


def lose(text, probability, seed=0):
    """Return a text that lost each character with a probability that may depend on it."""
    draw = random.Random(seed)
    return "".join(MARK if draw.random() < probability(letter) else letter for letter in text)


def mostly_lost(document, mark=MARK):
    """Return the share of the lost bytes of a document that are mostly lost."""
    tokens = read_damaged(document, mark=mark).tokens
    return find_mostly_lost(tokens)[tokens == 256].mean()


def outside_ascii(letter):
    return not letter.isascii()


def test_text_that_lost_all_its_letters_is_mostly_lost():
    assert mostly_lost(lose(RUSSIAN, outside_ascii)) == 1.0
    assert mostly_lost(lose(RUSSIAN.replace("комитета", "Python"), outside_ascii)) == 1.0  # with some Latin words


def test_lost_text_beside_visible_text_is_mostly_lost_from_its_first_word_on():
    damaged = ENGLISH.replace("voted", f"vot{MARK}d")
    tokens = read_damaged(damaged + lose(RUSSIAN, outside_ascii) + damaged).tokens
    mostly, lost = find_mostly_lost(tokens), tokens == 256
    middle = np.zeros(len(tokens), dtype=bool)
    middle[len(ENGLISH) : -len(ENGLISH)] = True
    assert mostly[lost & middle].all()
    assert not mostly[~middle].any()


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7])
def test_text_that_lost_bytes_at_random_is_not_mostly_lost(share):
    assert mostly_lost(lose(ENGLISH, lambda letter: share)) == 0.0
    assert mostly_lost(lose(RUSSIAN, lambda letter: share)) == 0.0


@pytest.mark.parametrize(
    ("document", "mark"),
    [
        ("The quick bro\ufffdn fox", MARK),
        ("w_rd", "_"),
        ("the w___ of co__", "_"),
        (ENGLISH[:80] + 16 * MARK + ENGLISH[96:], MARK),
        (lose("Größere Bäume fällen müssen wir öfter, hätten Sie gesagt. " * 4, outside_ascii), MARK),
    ],
)
def test_words_with_visible_letters_are_not_mostly_lost(document, mark):
    assert mostly_lost(document, mark) == 0.0


def test_a_text_with_few_visible_bytes_is_mostly_lost():
    assert mostly_lost(30 * MARK) == 1.0
    document = ENGLISH[:300] + 300 * MARK + ENGLISH[300:]
    tokens = read_damaged(document).tokens
    mostly = find_mostly_lost(tokens)
    assert mostly[400:500].all()  # the middle of a long run, and not its ends
    assert not mostly[[300, 599]].any()


def decide(observed, decoded, confidence, min_confidence):
    """Return the text and the confidence after low-confidence changes of visible bytes were withdrawn."""
    observation = ReplacementChannel(256, 0.1).observe(torch.tensor([list(observed)]))
    observation = observation.with_hidden(torch.ones(1, len(observed), dtype=torch.bool))
    log_probs = torch.full((len(observed), 256), float(np.log(0.3))).half()
    text = DecodedText(np.array(list(decoded)), np.array(confidence), log_probs, np.zeros((len(decoded), 0)), Cost())
    remaining = keep_observed(observation, text, min_confidence)
    return remaining.tokens.tolist(), remaining.confidence.tolist()


def test_a_change_with_low_confidence_is_withdrawn():
    tokens, confidence = decide(b"abc", b"xbz", [0.4, 1.0, 0.9], 0.5)
    assert bytes(tokens) == b"abz"
    np.testing.assert_allclose(confidence, [0.3, 1.0, 0.9], rtol=1e-3)
    assert bytes(decide(b"abc", b"xbz", [0.4, 1.0, 0.9], 0.0)[0]) == b"xbz"


def test_a_character_is_withdrawn_as_a_whole_and_only_if_the_observed_bytes_are_valid():
    euro, cent = "\u20ac".encode(), "\u2040".encode()  # differ in the last two bytes
    assert bytes(decide(euro, cent, [1.0, 0.9, 0.1], 0.5)[0]) == euro
    assert bytes(decide(b"a\xff", b"ab", [1.0, 0.1], 0.5)[0]) == b"ab"


def test_lost_bytes_are_not_withdrawn():
    assert bytes(decide([97, 256], b"ab", [1.0, 0.1], 0.5)[0]) == b"ab"
