"""The word expert: predictions on small examples, and independence of hidden bytes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator import Restorer
from conservator.channels import MaskChannel, TokenDependentMaskChannel
from conservator.errors import ConservatorError
from conservator.experts import Context
from conservator.experts.word_ngram import HIDDEN_BYTE, WordModel, count_word_ngrams, identify_languages
from conservator.experts.word_ngram import expert as word_expert
from conservator.experts.word_ngram.counts import Dictionary
from conservator.experts.word_ngram.expert import CONFIG, ContextScorer, DamagedWord
from conservator.experts.word_ngram.lists import WordList, count_words, read_word_list, write_word_list
from conservator.vocabularies import BYTES

TEXT = "the king is dead\nlong live the king\nthe queen will sing and the king will ride\n"
WORDS = WordModel.of([TEXT])


def observe(text):
    return MaskChannel(BYTES.size, 0.5).observe(
        torch.tensor([[BYTES.mask if char == "?" else ord(char) for char in text]])
    )


def probabilities(words, text, hidden=None):
    """Return the probabilities (n, V) at the hidden positions of a text, in which ? is a lost byte."""
    document = observe(text)
    masked = document.hidden if hidden is None else torch.tensor(hidden)[None] | document.hidden
    at = masked[0].nonzero()[:, 0]
    context = Context(document.readable, masked, start=torch.tensor([0]))
    return words.condition(document).predict(context, (torch.zeros_like(at), at)).exp()


@pytest.mark.parametrize(
    ("text", "letter"),
    [("the k?ng is", "i"), ("long ?ive", "l"), ("the quee? will", "n"), ("the?king", " ")],
)
def test_a_matching_word_is_predicted(text, letter):
    assert int(probabilities(WORDS, text)[0].argmax()) == ord(letter)


def test_neighbours_decide_between_words():
    words = WordModel.of(["red car, blue cat, red car, blue cat, "])
    assert [chr(int(probabilities(words, text)[0].argmax())) for text in ("red ca?,", "blue ca?,")] == ["r", "t"]


def test_words_of_the_document_are_counted():
    assert int(probabilities(WORDS, "Prospxro and Prosp?ro")[0].argmax()) == ord("x")


def test_words_are_counted_and_no_pair_extends_over_the_end_of_a_text():
    word_counts = count_word_ngrams([b"a b a", b"b a"])
    ids = np.array([word_counts.ids[b"a"], word_counts.ids[b"b"]])
    assert word_counts.tables.unigrams(ids).tolist() == [3, 2]
    assert word_counts.tables.bigrams.counts.sum() == 3
    assert word_counts.total == 5


@settings(deadline=None, max_examples=60)
@given(
    st.text("ab' .\n", min_size=6, max_size=24),
    st.lists(st.booleans(), min_size=24, max_size=24),
    st.text("ab' .\n", min_size=24, max_size=24),
)
def test_hidden_bytes_do_not_change_predictions(text, holes, other):
    holes = holes[: len(text)]
    changed = "".join(new if hole else old for old, new, hole in zip(text, other, holes, strict=False))
    words = replace(WordModel.of(["ab ab' a.b\nba"]), lists=False)  # languages are identified from the whole document
    torch.testing.assert_close(probabilities(words, text, holes), probabilities(words, changed, holes))


@settings(deadline=None, max_examples=40)
@given(st.text("ab' .\n?", min_size=1, max_size=24))
def test_distributions_are_normalised(text):
    probs = probabilities(WORDS, text)
    torch.testing.assert_close(probs.sum(-1), torch.ones(len(probs)))
    assert (probs > 0).all()


def test_an_empty_reference_gives_finite_probabilities():
    assert torch.isfinite(probabilities(WordModel.of([]), "a?c")).all()


def test_the_word_expert_needs_one_complete_document():
    with pytest.raises(ConservatorError, match=r"one complete document of shape \(1, L\), got \(2, 3\)"):
        WORDS.condition(MaskChannel(BYTES.size, 0.5).observe(torch.zeros(2, 3, dtype=torch.long)))


def test_a_restorer_accepts_a_word_model_as_an_expert():
    result = Restorer([WORDS]).restore("the qu\ufffden will s\ufffdng", lost="bytes")
    assert result.text == "the queen will sing"
    assert "words" in result.experts


def test_letters_with_a_higher_loss_rate_are_preferred():
    words = WordModel.of(["a cat and a car and "])
    rates = torch.full((BYTES.size,), 1e-4)
    for letter in "tr":
        rates[ord(letter)] = 0.2
        channel = TokenDependentMaskChannel(rates)
        result = Restorer([words]).restore(
            "a ca\ufffd and", lost="bytes", channel=channel, memory=False, alternatives=2
        )
        assert result.text == f"a ca{letter} and"
        assert result.edits[0].alternatives[0].data == letter.encode()
        rates[ord(letter)] = 1e-4


@given(st.lists(st.text("abc", min_size=1, max_size=5), max_size=30), st.text("abc?", min_size=1, max_size=5))
def test_a_dictionary_finds_the_words_that_agree_with_a_pattern(words, pattern):
    if "?" not in pattern:
        return
    expected = {
        word
        for word in words
        if len(word) == len(pattern) and all(a in ("?", b) for a, b in zip(pattern, word, strict=True))
    }
    values = {word.encode(): float(number) for number, word in enumerate(words)}
    matches = Dictionary(values).match(pattern.encode().replace(b"?", bytes([HIDDEN_BYTE])))
    if matches is None:
        assert not expected
        return
    assert dict(zip(matches.words(), matches.values.tolist(), strict=True)) == {
        word.encode(): values[word.encode()] for word in expected
    }
    for offset in range(len(pattern)):
        mass = np.zeros(BYTES.size)
        for word in expected:
            mass[ord(word[offset])] += values[word.encode()]
        np.testing.assert_allclose(matches.mass(offset), mass)


def score_by_enumeration(word, splits):
    """Sum the scores of all splits of a damaged word: the product of its segments and separators, byte by byte."""
    hidden, total = word.hidden, np.zeros((len(word.hidden), BYTES.size))
    before, after = word.scorer.edge_factors(word.begin, word.end)
    at_line_end = hidden[-1] == len(word.pattern) - 1 and word.scorer.ends_line(word.end)
    separators = word.scorer.separators
    for chosen in splits:
        bounds = [0, *(index + 1 for index in chosen), len(hidden) + 1]
        segments = [(bounds[n], bounds[n + 1] - 1) for n in range(len(bounds) - 1)]
        scored = [(word.segment(i, j).score, word.letters(word.segment(i, j))) for i, j in segments]
        sizes = [int(word.edges(*segment)[1] > word.edges(*segment)[0]) for segment in segments]
        tables = [separators[sizes[n], sizes[n + 1]] for n in range(len(chosen))]
        if sizes[-1] == 0 and at_line_end:
            tables[-1] = tables[-1].sum() * word.scorer.line_ends
        score = np.prod([value for value, _ in scored]) * np.prod([table.sum() for table in tables])
        score *= before[sizes[0]] * after[sizes[-1]]
        for (i, j), (value, letters) in zip(segments, scored, strict=True):
            total[i:j] += score / value * letters
        for index, table in zip(chosen, tables, strict=True):
            if table.sum():
                total[index] += score / table.sum() * table
    return total


@pytest.mark.parametrize("pattern", ["a?b", "?", "a??", "k?ng?is?", "th?king?", "a?\n", "a?, b"])
def test_marginals_of_a_damaged_word_are_sums_over_its_splits(pattern, monkeypatch):
    data = pattern.encode().replace(b"?", bytes([HIDDEN_BYTE]))
    document = MaskChannel(BYTES.size, 0.5).observe(
        torch.tensor([[BYTES.mask if byte == HIDDEN_BYTE else byte for byte in data]])
    )
    expert = replace(WORDS, lists=False).condition(document)
    hidden = expert.hidden_tables(document.hidden[0].numpy(), 0)
    word = DamagedWord(ContextScorer(expert, np.frombuffer(data, np.uint8), hidden, 0), 0)
    count = len(word.hidden)
    splits = [[n for n in range(count) if bits >> n & 1] for bits in range(2**count)]
    expected = score_by_enumeration(word, splits)
    np.testing.assert_allclose(word.marginals(), expected, atol=CONFIG.min_segment_prob * expected.sum())
    monkeypatch.setattr(word_expert, "CONFIG", replace(CONFIG, min_segment_prob=0.0))
    np.testing.assert_allclose(word.marginals(), expected, rtol=1e-9, atol=1e-300)


def test_a_word_list_is_written_and_read():
    counts, separators = count_words([b"the cat, the dog", b"The cat and the dog"], min_documents=2)
    assert set(counts) == {b"the", b"cat", b"dog"}
    word_list = read_word_list(write_word_list(counts, separators))
    assert word_list.probs[b"the"] == pytest.approx(3 / 7)
    assert word_list.probs[b"Dog"] == pytest.approx(WordList.of(counts, separators).probs[b"Dog"])
    assert word_list.separators[1, 1, ord(" ")] == pytest.approx(6 / 7)
    assert word_list.separators[1, 0, ord(",")] == pytest.approx(1 / 7)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "It was one of those days on which nobody wanted to go out of the house."),
        ("de", "Es war einer jener Tage, an denen niemand aus dem Haus gehen wollte und alle froren."),
        ("pl", "Nikt nie chcia\u0142 wychodzi\u0107 z domu, a wszyscy si\u0119 nudzili."),
        (
            "ru",
            "\u041d\u0438\u043a\u0442\u043e \u043d\u0435 \u0445\u043e\u0442\u0435\u043b "
            "\u0432\u044b\u0445\u043e\u0434\u0438\u0442\u044c",
        ),
    ],
)
def test_the_language_of_a_text_is_identified(language, text):
    languages = identify_languages(text.encode())
    assert max(languages, key=languages.get) == language
    assert sum(languages.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("text", "language"), [("a qui?k fox", "en"), ("Bonjour le mon?e", "fr"), ("Der M?nn ist da", "de")]
)
def test_all_words_of_a_short_text_identify_its_language(text, language):
    languages = identify_languages(text.encode().replace(b"?", bytes([HIDDEN_BYTE])))
    assert max(languages, key=languages.__getitem__) == language


def test_a_text_without_frequent_words_has_no_language():
    assert identify_languages(b"x1 = qwv(zzk) + 17; vbn[3]") == {}


def test_word_lists_decide_where_other_experts_know_nothing():
    damaged = "The quick brown fox jumps over the la\ufffdy dog."
    assert Restorer().restore(damaged).text == damaged.replace("\ufffd", "z")
