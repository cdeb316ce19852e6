"""Phrases of many documents: selection, and the index of the memory."""

import gzip
import json
from unittest import mock

import numpy as np
import pytest

from conservator.experts.memory import phrases as shipped
from conservator.experts.memory.references import index_texts
from conservator.training import phrases
from conservator.training.phrases import find_phrases


def test_only_phrases_of_several_documents_are_selected():
    documents = [" the common phrase, name() = 1\n"] * 10 + [" a rare phrase\n"] * 4
    result = find_phrases(documents)
    assert {" the ", " common ", " phrase,", " the common ", " common phrase,"} <= set(result)
    assert " rare " not in result
    assert any("name(" in phrase for phrase in result)
    assert result == sorted(result)
    assert all(len(phrase) <= phrases.MAX_SEQUENCE_CHARACTERS for phrase in result)


def test_phrases_are_written_by_the_command(tmp_path):
    data, out = tmp_path / "texts.jsonl", tmp_path / "phrases.gz"
    data.write_text("".join(json.dumps({"text": f"so one of number {number}"}) + "\n" for number in range(40)))
    with mock.patch("sys.argv", ["phrases", "--data", str(data), "--out", str(out)]):
        phrases.main()
    assert b" one of " in gzip.decompress(out.read_bytes()).split(shipped.END)


def test_the_shipped_phrases_are_loaded_once():
    index = shipped.load_phrases()
    assert index is shipped.load_phrases()
    assert b" the " in bytes(index.text[index.text >= 0].astype("uint8").tolist())


@pytest.fixture
def few_phrases(tmp_path, monkeypatch):
    """Return a function that loads a short list of phrases as a new process does, with an empty cache."""
    packed = tmp_path / "phrases.gz"
    packed.write_bytes(gzip.compress(shipped.END.join([b" the quick ", b"", b" brown fox ", b"import os\n"])))
    monkeypatch.setattr(shipped, "PHRASES", packed)
    monkeypatch.setenv("CONSERVATOR_HOME", str(tmp_path / "home"))
    return shipped.load_phrases.__wrapped__


def assert_same(index, expected):
    counts = expected.starts[:, -1]
    assert index.bits == expected.bits
    for name in ("text", "offsets", "sizes", "starts"):
        np.testing.assert_array_equal(getattr(index, name), getattr(expected, name))
    for positions, expected_positions, count in zip(index.positions, expected.positions, counts, strict=True):
        np.testing.assert_array_equal(positions[:count], expected_positions[:count])


def test_the_index_is_built_once_and_mapped_afterwards(few_phrases):
    listed_phrases = gzip.decompress(shipped.PHRASES.read_bytes()).split(shipped.END)
    expected = index_texts([np.frombuffer(phrase, dtype=np.uint8).astype(np.int16) for phrase in listed_phrases])
    assert_same(few_phrases(), expected)
    with mock.patch.object(shipped, "build_index", side_effect=AssertionError("it was built again")):
        assert_same(few_phrases(), expected)


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(path.read_bytes()[:-8]), lambda path: path.unlink()])
def test_an_invalid_cache_is_built_again(few_phrases, tmp_path, damage):
    expected = few_phrases()
    for path in sorted((tmp_path / "home").rglob("*.npy")):
        damage(path)
        assert_same(few_phrases(), expected)


def test_a_cache_that_cannot_be_written_is_ignored(few_phrases, tmp_path):
    (tmp_path / "home").write_text("a file, not a folder")
    assert few_phrases().bits == 8


def test_a_user_without_a_home_has_no_cache(few_phrases):
    with mock.patch.object(shipped, "cache_home", side_effect=RuntimeError("Could not determine home directory.")):
        assert few_phrases().bits == 8
