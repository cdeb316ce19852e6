"""Models of characters: against a slow count of the same, taken back exactly, joined, and kept on disk."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator.errors import ConservatorError
from conservator.experts.char_ngram import CharNgramMixture, CharNgramModel, Trie, load_characters
from conservator.experts.char_ngram.model import code_points
from conservator.experts.char_ngram.storage import read_model, write_model
from conservator.experts.char_ngram.trie import DISCOUNT, UNIFORM, find_contexts, probability

ORDER = 3
WORDS = st.text(alphabet="abc ", max_size=40)


def slow_law(texts, history, character):
    """Kneser-Ney smoothing from its definition."""
    grams = [Counter() for _ in range(ORDER)]
    for text in texts:
        for place in range(len(text)):
            for back in range(min(ORDER - 1, place), -1, -1):
                gram = text[place - back : place + 1]
                grams[back][gram] += 1
                if grams[back][gram] > 1:  # a shorter context counts the longer ones in which a character was seen
                    break
    found = UNIFORM
    for back in range(min(ORDER - 1, len(history)) + 1):
        context = history[len(history) - back :]
        following = {gram: times for gram, times in grams[back].items() if gram[:-1] == context}
        if not following:
            break
        total = sum(following.values())
        own = max(following.get(context + character, 0) - DISCOUNT, 0.0)
        found = (own + DISCOUNT * len(following) * found) / total
    return found


def law(trie, history, character, root=0):
    path = np.zeros(trie.order, dtype=np.int64)
    count = find_contexts(trie, root, code_points(history), path)
    return probability(trie, path[:count], ord(character))


@settings(max_examples=40, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=4), WORDS)
def test_the_law_is_that_of_its_definition_and_sums_to_one(texts, history):
    trie = Trie.empty(order=ORDER)
    for text in texts:
        trie = trie.counting(code_points(text))
    for character in "abc z":
        assert law(trie, history, character) == pytest.approx(slow_law(texts, history, character), rel=1e-9)
    seen = sum(law(trie, history, one) for one in "abc ")
    assert seen + (1 / UNIFORM - 4) * law(trie, history, "z") == pytest.approx(1.0)


@settings(max_examples=40, deadline=None)
@given(WORDS, WORDS, WORDS)
def test_a_text_is_taken_back_as_it_was_counted(kept, other, history):
    trie = Trie.empty(order=ORDER).counting(code_points(kept))
    before = [law(trie, history, one) for one in "abc z"]
    trie = trie.counting(code_points(other))
    trie.take_back(code_points(other))
    assert [law(trie, history, one) for one in "abc z"] == pytest.approx(before, rel=1e-9)


def test_a_trie_that_becomes_full_grows():
    text = "".join(chr(97 + one % 26) + chr(97 + one % 7) for one in range(4000))
    small, large = Trie.empty(room=64).counting(code_points(text)), Trie.empty(room=1 << 16).counting(code_points(text))
    assert law(small, text[:20], "a") == pytest.approx(law(large, text[:20], "a"))


def test_a_joined_trie_keeps_every_model():
    models = [CharNgramModel.of("one", ["abab abab"]), CharNgramModel.of("two", ["cab cab", "bac"])]
    joined = CharNgramMixture.of(models)
    for number, model in enumerate(models):
        for history in ("", "\nab", "ca"):
            for character in "abc\n ":
                assert law(joined.trie, history, character, number) == law(model.trie, history, character)


def test_weights_follow_the_text():
    prose, code = (
        CharNgramModel.of("prose", ["the house of the king " * 5]),
        CharNgramModel.of("code", ["x = [0] * n\n" * 5]),
    )
    mixture = CharNgramMixture.of([prose, code])
    assert mixture.fitted("the king of the house").weights.argmax() == 0
    assert mixture.fitted("n = [0] * x").weights.argmax() == 1
    alone = [CharNgramMixture.of([one]).log_probs("the king").sum() for one in (prose, code)]
    assert alone[1] < mixture.log_probs("the king").sum() <= np.logaddexp(*alone)


def test_a_model_comes_back_from_disk(tmp_path):
    model = CharNgramModel.of(
        "fairy tales", ["once upon a time there was a king " * 20, "emoji \U0001f600 are left out"]
    )
    path = tmp_path / "model.gz"
    path.write_bytes(write_model(model, least=1))
    again = read_model(path)
    assert again.name == "fairy tales"
    for history in ("", "once upon a tim", "x", "a k"):
        for character in "eiz ":
            kept, found = law(model.trie, history, character), law(again.trie, history, character)
            assert found == pytest.approx(kept, rel=0.35, abs=1e-6)
    path.write_bytes(write_model(model, least=10**6))
    assert read_model(path).trie.used[1] < again.trie.used[1]


def test_a_file_that_is_no_model_is_named(tmp_path):
    path = tmp_path / "model.gz"
    whole = write_model(CharNgramModel.of("x", ["abc"]), 1)
    for data in (b"", b"text", whole[:-9], whole[:30] + bytes(20) + whole[50:]):
        path.write_bytes(data)
        with pytest.raises(ConservatorError, match=r"model\.gz is no character model"):
            read_model(path)


def test_those_of_the_package_know_their_kinds():
    models = load_characters()
    assert [one.name for one in models] == ["code", "config", "markdown", "math", "prose"]
    texts = {
        "prose": "The committee was appointed by the government in the following year, and its report was published.",
        "code": "    def __init__(self, name):\n        self.name = name\n        return None\n",
        "config": "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  ports:\n    - port: 80\n",
        "math": "Let $X$ be a smooth variety over $\\mathbb{C}$. \\begin{lemma}\\label{lem:a} Then $H^0(X)=0$.",
    }
    for name, text in texts.items():
        weights = CharNgramMixture.of(models).fitted(text).weights
        assert models[int(weights.argmax())].name == name
