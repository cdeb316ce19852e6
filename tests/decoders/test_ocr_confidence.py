"""OCR confidences and marks in the beam over edits: against enumeration of all texts."""

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
WIDE = Beam(width=10_000, prune_nats=500.0, lm_weight=0.8)
distributions = st.lists(st.floats(0.05, 1.0), min_size=3, max_size=3).map(
    lambda values: np.array(values) / sum(values)
)


def exact_confidence(line, posteriors, channel):
    """The OCR confidence of an engine with the given posteriors of characters and a uniform prior."""
    correct = np.array([probs[ALPHABET.index(observed)] for observed, probs in zip(line, posteriors, strict=True)])
    others = tuple(
        tuple(
            (character, probs[at] / (1 - probs[ALPHABET.index(observed)]))
            for at, character in enumerate(ALPHABET)
            if character != observed
        )
        for observed, probs in zip(line, posteriors, strict=True)
    )
    return OcrConfidence(
        np.log(correct / channel.default_keep_prob),
        np.log((1 - correct) / (1 - channel.default_keep_prob)),
        np.zeros(len(line) + 1),
        others,
    )


def normalise(texts):
    """Return the log of the sum of scores, and the probability of each text."""
    total = np.logaddexp.reduce(list(texts.values()))
    return total, {text: float(np.exp(score - total)) for text, score in texts.items()}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(ALPHABET), distributions), min_size=1, max_size=4), st.floats(0.05, 0.95))
def test_exact_ocr_confidences_give_the_exact_posterior(read, stay):
    line, posteriors = "".join(observed for observed, _ in read), [probs for _, probs in read]
    channel = EditChannel({}, {}, stay)
    arcs = ArcTable(channel).of(line, exact_confidence(line, posteriors, channel))
    texts = {}
    for letters in itertools.product(ALPHABET, repeat=len(line)):
        text = "".join(letters)
        likelihood = sum(
            np.log(probs[ALPHABET.index(character)]) for character, probs in zip(text, posteriors, strict=True)
        )
        texts[text] = likelihood + WIDE.lm_weight * MIXTURE.log_probs(text).sum()
    total, probabilities = normalise(texts)
    lattice = WIDE.search(MIXTURE, arcs, "\n")
    assert lattice.beta[0] == pytest.approx(total)
    edits = sum(
        probability * sum(character != observed for character, observed in zip(text, line, strict=True))
        for text, probability in probabilities.items()
    )
    assert expected_edits(lattice, arcs) == pytest.approx(edits)
    best = list(line)
    for change in find_changes(line, lattice, arcs):
        best[change.start : change.stop] = change.text
        same = sum(
            probability
            for text, probability in probabilities.items()
            if text[change.start : change.stop] == change.text
        )
        keep_probability = sum(
            probability
            for text, probability in probabilities.items()
            if text[change.start : change.stop] == change.seen
        )
        assert change.probability == pytest.approx(same)
        assert change.log_odds == pytest.approx(np.log(same / keep_probability))
    assert probabilities["".join(best)] == pytest.approx(max(probabilities.values()))


@given(st.text(alphabet="abc d", max_size=8))
def test_without_ocr_confidences_the_arcs_are_unchanged(line):
    table = ArcTable(CHANNEL)
    for with_confidence, without in zip(
        table.of(line), table.of(line, OcrConfidence.uninformative(len(line))), strict=True
    ):
        assert np.array_equal(with_confidence, without)


def test_low_confidence_moves_probability_from_keep_to_edits():
    uncertain = OcrConfidence(np.log([0.5]), np.log([4.0]), np.log([1.0, 3.0]), ((("c", 0.25), ("a", 0.5)),))
    plain, arcs = (ArcTable(CHANNEL).of("b", ocr_confidence) for ocr_confidence in (None, uncertain))
    texts = ["".join(map(chr, text[:size])) for text, size in zip(arcs.texts.tolist(), arcs.lengths, strict=True)]
    assert texts == ["a", "b", "c"]
    before, after = np.exp(plain.log_probs), np.exp(arcs.log_probs)
    assert after[1] == pytest.approx(0.5 * before[1])
    assert after[0] == pytest.approx(4 * (0.25 * before[0] + 0.1 * 0.5))
    assert after[2] == pytest.approx(4 * 0.1 * 0.25)


def likelihood_of(observed, clean):
    """P(observed | clean), with ``_`` for any single character, summed over all paths."""
    if not observed or not clean:
        return float(observed == clean)
    if observed[0] == "_":
        return likelihood_of(observed[1:], clean[1:])
    total = CHANNEL.keep_prob(observed[0]) * likelihood_of(observed[1:], clean[1:]) if observed[0] == clean[0] else 0.0
    for (before, after), probability in CHANNEL.edits.items():
        if observed.startswith(after) and clean.startswith(before):
            total += probability * likelihood_of(observed[len(after) :], clean[len(before) :])
    return total


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet="abc_", min_size=1, max_size=4), st.sampled_from(["_", "\ufffd", "[?]"]))
def test_only_the_prior_decides_at_a_mark(pattern, mark):
    line = pattern.replace("_", mark)
    arcs = ArcTable(CHANNEL, mark, ALPHABET).of(line)
    texts = {}
    for size in range(len(pattern), 2 * len(pattern) + 1):
        for letters in itertools.product(ALPHABET, repeat=size):
            text = "".join(letters)
            likelihood = likelihood_of(pattern, text)
            if likelihood:
                texts[text] = np.log(likelihood) + WIDE.lm_weight * MIXTURE.log_probs(text).sum()
    total, _ = normalise(texts)
    lattice = WIDE.search(MIXTURE, arcs, "\n")
    assert lattice.beta[0] == pytest.approx(total)
    changes = find_changes(line, lattice, arcs)
    filled = [change for change in changes if change.seen == mark]
    assert len(filled) == pattern.count("_")
    assert all(change.text in ALPHABET and change.log_odds == np.inf for change in filled)
    assert not any(mark in change.seen for change in changes if change not in filled)
    if "_" not in pattern:
        assert np.array_equal(arcs.log_probs, ArcTable(CHANNEL).of(line).log_probs)


def test_a_mark_among_known_characters_has_the_posterior_of_the_prior():
    arcs = ArcTable(EditChannel({}, {}, 0.9), "_", ALPHABET).of("a_ba")
    (change,) = find_changes("a_ba", WIDE.search(MIXTURE, arcs, "\n"), arcs)
    scores = {character: WIDE.lm_weight * MIXTURE.log_probs(f"a{character}ba").sum() for character in ALPHABET}
    _, probabilities = normalise(scores)
    assert change.probability == pytest.approx(probabilities[change.text])
    assert probabilities[change.text] == max(probabilities.values())
