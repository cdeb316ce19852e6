"""Frequencies of words in a text of known languages."""

import pytest

from conservator.experts.word_ngram import WordFrequencies, count_word_ngrams

GERMAN = "Der Müller saß auf der Brücke, und die Frau war nicht mehr da. Er hat es ihr gesagt, aber sie kam nicht."


def test_words_of_the_language_the_text_and_the_references_have_a_probability():
    frequencies = WordFrequencies.of(GERMAN.encode(), count_word_ngrams([b"Xylander und Xylander"]))
    assert max(frequencies.languages, key=frequencies.languages.get) == "de"
    assert frequencies.prob(b"Haus") > 0  # in the list only
    assert frequencies.prob("Müller".encode()) > frequencies.prob("Müller".encode(), excluded=1)
    assert frequencies.reference_count(b"Xylander") == 2
    assert frequencies.prob(b"Xylander") > 0
    assert frequencies.prob(b"Qrstuvw") == 0


def test_probabilities_of_known_words_sum_to_one_without_lists():
    frequencies = WordFrequencies({}, {b"ab": 3, b"cd": 1}, count_word_ngrams([b"cd ef"]))
    assert sum(frequencies.prob(word) for word in (b"ab", b"cd", b"ef")) == pytest.approx(1)
