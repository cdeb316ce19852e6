"""What the reader said, and marks, in the beam over edits: against enumeration of all texts."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator.channels import EditChannel, OcrConfidence
from conservator.decoders.edits import ArcTable, Beam, find_changes
from conservator.decoders.edits.changes import expected_edits
from conservator.experts.char_ngram import CharNgramMixture, CharNgramModel

ALPHABET = "abc"
CHANNEL = EditChannel({("ab", "c"): 0.2, ("a", "b"): 0.1}, {"a": 0.8}, 0.9)
MIXTURE = CharNgramMixture.of([CharNgramModel.of("tiny", ["abbacab", "baabc", "cab"], order=3)])
WIDE = Beam(width=10_000, margin=500.0, scale=0.8)
laws = st.lists(st.floats(0.05, 1.0), min_size=3, max_size=3).map(lambda one: np.array(one) / sum(one))


def exact_trust(line, posteriors, channel):
    """What a reader says whose posterior of each character, all alike before, is this."""
    own = np.array([law[ALPHABET.index(seen)] for seen, law in zip(line, posteriors, strict=True)])
    others = tuple(
        tuple((one, law[at] / (1 - law[ALPHABET.index(seen)])) for at, one in enumerate(ALPHABET) if one != seen)
        for seen, law in zip(line, posteriors, strict=True)
    )
    return OcrConfidence(
        np.log(own / channel.default_keep_prob),
        np.log((1 - own) / (1 - channel.default_keep_prob)),
        np.zeros(len(line) + 1),
        others,
    )


def mass_of(texts):
    """The log of the sum of scores, and the probability of each text."""
    total = np.logaddexp.reduce(list(texts.values()))
    return total, {text: float(np.exp(one - total)) for text, one in texts.items()}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(ALPHABET), laws), min_size=1, max_size=4), st.floats(0.05, 0.95))
def test_a_reader_that_says_its_posterior_is_taken_at_its_word(said, stay):
    line, posteriors = "".join(seen for seen, _ in said), [law for _, law in said]
    channel = EditChannel({}, {}, stay)
    steps = ArcTable(channel).of(line, exact_trust(line, posteriors, channel))
    texts = {}
    for letters in itertools.product(ALPHABET, repeat=len(line)):
        text = "".join(letters)
        likelihood = sum(np.log(law[ALPHABET.index(one)]) for one, law in zip(text, posteriors, strict=True))
        texts[text] = likelihood + WIDE.scale * MIXTURE.log_probs(text).sum()
    total, chances = mass_of(texts)
    lattice = WIDE.search(MIXTURE, steps, "\n")
    assert lattice.behind[0] == pytest.approx(total)
    edits = sum(
        chance * sum(one != seen for one, seen in zip(text, line, strict=True)) for text, chance in chances.items()
    )
    assert expected_edits(lattice, steps) == pytest.approx(edits)
    best = list(line)
    for change in find_changes(line, lattice, steps):
        best[change.start : change.stop] = change.text
        same = sum(chance for text, chance in chances.items() if text[change.start : change.stop] == change.text)
        kept = sum(chance for text, chance in chances.items() if text[change.start : change.stop] == change.seen)
        assert change.probability == pytest.approx(same)
        assert change.log_odds == pytest.approx(np.log(same / kept))
    assert chances["".join(best)] == pytest.approx(max(chances.values()))


@given(st.text(alphabet="abc d", max_size=8))
def test_a_reader_that_says_nothing_changes_nothing(line):
    table = ArcTable(CHANNEL)
    for one, other in zip(table.of(line), table.of(line, OcrConfidence.uninformative(len(line))), strict=True):
        assert np.array_equal(one, other)


def test_what_staying_loses_edits_gain():
    uncertain = OcrConfidence(np.log([0.5]), np.log([4.0]), np.log([1.0, 3.0]), ((("c", 0.25), ("a", 0.5)),))
    plain, steps = (ArcTable(CHANNEL).of("b", ocr_confidence) for ocr_confidence in (None, uncertain))
    texts = ["".join(map(chr, text[:size])) for text, size in zip(steps.texts.tolist(), steps.sizes, strict=True)]
    assert texts == ["a", "b", "c"]
    before, after = np.exp(plain.chances), np.exp(steps.chances)
    assert after[1] == pytest.approx(0.5 * before[1])
    assert after[0] == pytest.approx(4 * (0.25 * before[0] + 0.1 * 0.5))
    assert after[2] == pytest.approx(4 * 0.1 * 0.25)


def ways(seen, clean):
    """P(seen | clean) with ``_`` for any one character, over all ways."""
    if not seen or not clean:
        return float(seen == clean)
    if seen[0] == "_":
        return ways(seen[1:], clean[1:])
    found = CHANNEL.keep_prob(seen[0]) * ways(seen[1:], clean[1:]) if seen[0] == clean[0] else 0.0
    for (before, after), chance in CHANNEL.edits.items():
        if seen.startswith(after) and clean.startswith(before):
            found += chance * ways(seen[len(after) :], clean[len(before) :])
    return found


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet="abc_", min_size=1, max_size=4), st.sampled_from(["_", "\ufffd", "[?]"]))
def test_at_a_mark_the_prior_alone_decides(pattern, mark):
    line = pattern.replace("_", mark)
    steps = ArcTable(CHANNEL, mark, ALPHABET).of(line)
    texts = {}
    for size in range(len(pattern), 2 * len(pattern) + 1):
        for letters in itertools.product(ALPHABET, repeat=size):
            text = "".join(letters)
            likelihood = ways(pattern, text)
            if likelihood:
                texts[text] = np.log(likelihood) + WIDE.scale * MIXTURE.log_probs(text).sum()
    total, _ = mass_of(texts)
    lattice = WIDE.search(MIXTURE, steps, "\n")
    assert lattice.behind[0] == pytest.approx(total)
    changes = find_changes(line, lattice, steps)
    filled = [change for change in changes if change.seen == mark]
    assert len(filled) == pattern.count("_")
    assert all(change.text in ALPHABET and change.log_odds == np.inf for change in filled)
    assert not any(mark in change.seen for change in changes if change not in filled)
    if "_" not in pattern:
        assert np.array_equal(steps.chances, ArcTable(CHANNEL).of(line).chances)


def test_a_mark_among_sure_characters_has_the_posterior_of_the_prior():
    steps = ArcTable(EditChannel({}, {}, 0.9), "_", ALPHABET).of("a_ba")
    (change,) = find_changes("a_ba", WIDE.search(MIXTURE, steps, "\n"), steps)
    scores = {one: WIDE.scale * MIXTURE.log_probs(f"a{one}ba").sum() for one in ALPHABET}
    _, chances = mass_of(scores)
    assert change.probability == pytest.approx(chances[change.text])
    assert chances[change.text] == max(chances.values())
