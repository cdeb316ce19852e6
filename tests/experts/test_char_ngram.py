"""Character n-gram models: comparison with a direct implementation, joining, and storage."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator.errors import ConservatorError
from conservator.experts.char_ngram import CharNgramMixture, CharNgramModel, Trie, load_char_ngram_models
from conservator.experts.char_ngram.model import code_points
from conservator.experts.char_ngram.storage import read_model, write_model
from conservator.experts.char_ngram.trie import DISCOUNT, UNIFORM, find_contexts, probability

ORDER = 3
WORDS = st.text(alphabet="abc ", max_size=40)


def direct_probability(texts, history, character):
    """Kneser-Ney smoothing from its definition."""
    grams = [Counter() for _ in range(ORDER)]
    for text in texts:
        for position in range(len(text)):
            for back in range(min(ORDER - 1, position), -1, -1):
                gram = text[position - back : position + 1]
                grams[back][gram] += 1
                if grams[back][gram] > 1:  # a shorter context counts the longer contexts in which a character occurs
                    break
    prob = UNIFORM
    for back in range(min(ORDER - 1, len(history)) + 1):
        context = history[len(history) - back :]
        following = {gram: count for gram, count in grams[back].items() if gram[:-1] == context}
        if not following:
            break
        total = sum(following.values())
        discounted = max(following.get(context + character, 0) - DISCOUNT, 0.0)
        prob = (discounted + DISCOUNT * len(following) * prob) / total
    return prob


def trie_probability(trie, history, character, root=0):
    path = np.zeros(trie.order, dtype=np.int64)
    count = find_contexts(trie, root, code_points(history), path)
    return probability(trie, path[:count], ord(character))


@settings(max_examples=40, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=4), WORDS)
def test_probabilities_agree_with_the_definition_and_sum_to_one(texts, history):
    trie = Trie.empty(order=ORDER)
    for text in texts:
        trie = trie.add_text(code_points(text))
    for character in "abc z":
        expected = direct_probability(texts, history, character)
        assert trie_probability(trie, history, character) == pytest.approx(expected, rel=1e-9)
    observed = sum(trie_probability(trie, history, character) for character in "abc ")
    assert observed + (1 / UNIFORM - 4) * trie_probability(trie, history, "z") == pytest.approx(1.0)


@settings(max_examples=40, deadline=None)
@given(WORDS, WORDS, WORDS)
def test_adding_a_text_changes_the_counts_of_its_root_only(text, other, history):
    recounted = [Trie.empty(order=ORDER).add_text(code_points(content)) for content in (text, other)]
    trie = Trie.empty(roots=2, order=ORDER)
    trie = trie.add_text(code_points(text), root=0)
    trie = trie.add_text(code_points(other), root=1)
    for root, expected in enumerate(recounted):
        probs = [trie_probability(trie, history, character, root) for character in "abc z"]
        assert probs == pytest.approx([trie_probability(expected, history, char) for char in "abc z"], rel=1e-9)


def test_a_trie_that_becomes_full_grows():
    text = "".join(chr(97 + index % 26) + chr(97 + index % 7) for index in range(4000))
    small = Trie.empty(capacity=64).add_text(code_points(text))
    large = Trie.empty(capacity=1 << 16).add_text(code_points(text))
    assert trie_probability(small, text[:20], "a") == pytest.approx(trie_probability(large, text[:20], "a"))


def test_a_joined_trie_preserves_every_model():
    models = [CharNgramModel.of("one", ["abab abab"]), CharNgramModel.of("two", ["cab cab", "bac"])]
    joined = CharNgramMixture.of(models)
    for root, model in enumerate(models):
        for history in ("", "\nab", "ca"):
            for character in "abc\n ":
                expected = trie_probability(model.trie, history, character)
                assert trie_probability(joined.trie, history, character, root) == expected


def test_weights_adapt_to_the_text():
    prose, code = (
        CharNgramModel.of("prose", ["the house of the king " * 5]),
        CharNgramModel.of("code", ["x = [0] * n\n" * 5]),
    )
    mixture = CharNgramMixture.of([prose, code])
    assert mixture.fit_weights("the king of the house").weights.argmax() == 0
    assert mixture.fit_weights("n = [0] * x").weights.argmax() == 1
    single = [CharNgramMixture.of([model]).log_probs("the king").sum() for model in (prose, code)]
    assert single[1] < mixture.log_probs("the king").sum() <= np.logaddexp(*single)


def test_a_model_is_stored_and_loaded(tmp_path):
    model = CharNgramModel.of(
        "fairy tales", ["once upon a time there was a king " * 20, "emoji \U0001f600 are left out"]
    )
    path = tmp_path / "model.gz"
    path.write_bytes(write_model(model, min_count=1))
    loaded = read_model(path)
    assert loaded.name == "fairy tales"
    for history in ("", "once upon a tim", "x", "a k"):
        for character in "eiz ":
            expected = trie_probability(model.trie, history, character)
            assert trie_probability(loaded.trie, history, character) == pytest.approx(expected, rel=0.35, abs=1e-6)
    path.write_bytes(write_model(model, min_count=10**6))
    assert read_model(path).trie.used[1] < loaded.trie.used[1]


def test_an_error_names_the_invalid_file(tmp_path):
    path = tmp_path / "model.gz"
    valid = write_model(CharNgramModel.of("x", ["abc"]), 1)
    for data in (b"", b"text", valid[:-9], valid[:30] + bytes(20) + valid[50:]):
        path.write_bytes(data)
        with pytest.raises(ConservatorError, match=r"model\.gz is not a character n-gram model"):
            read_model(path)


def test_the_shipped_models_recognise_their_domains():
    models = load_char_ngram_models()
    assert [model.name for model in models] == ["code", "config", "markdown", "math", "prose"]
    texts = {
        "prose": "The committee was appointed by the government in the following year, and its report was published.",
        "code": "    def __init__(self, name):\n        self.name = name\n        return None\n",
        "config": "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  ports:\n    - port: 80\n",
        "math": "Let $X$ be a smooth variety over $\\mathbb{C}$. \\begin{lemma}\\label{lem:a} Then $H^0(X)=0$.",
    }
    for name, text in texts.items():
        weights = CharNgramMixture.of(models).fit_weights(text).weights
        assert models[int(weights.argmax())].name == name
