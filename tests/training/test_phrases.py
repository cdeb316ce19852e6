"""The phrases of many documents: what is kept, and that the list is what the memory reads."""

import gzip
import json
from unittest import mock

import numpy as np
import pytest

from conservator.experts.memory import phrases as shipped
from conservator.experts.memory.references import index_texts
from conservator.training import phrases
from conservator.training.phrases import find_phrases


def test_only_what_several_documents_share_is_kept():
    many = [" the common phrase, name() = 1\n"] * 10 + [" a rare phrase\n"] * 4
    found = find_phrases(many)
    assert {" the ", " common ", " phrase,", " the common ", " common phrase,"} <= set(found)
    assert " rare " not in found
    assert any("name(" in one for one in found)
    assert found == sorted(found)
    assert all(len(one) <= phrases.LONGEST for one in found)


def test_a_list_is_made_by_one_command(tmp_path):
    data, out = tmp_path / "texts.jsonl", tmp_path / "phrases.gz"
    data.write_text("".join(json.dumps({"text": f"so one of number {number}"}) + "\n" for number in range(40)))
    with mock.patch("sys.argv", ["phrases", "--data", str(data), "--out", str(out)]):
        phrases.main()
    assert b" one of " in gzip.decompress(out.read_bytes()).split(shipped.END)


def test_the_shipped_list_is_read_once():
    index = shipped.load_phrases()
    assert index is shipped.load_phrases()
    assert b" the " in bytes(index.text[index.text >= 0].astype("uint8").tolist())


@pytest.fixture
def few_phrases(tmp_path, monkeypatch):
    """A short list of phrases, an empty cache, and a function that loads the index as a new process does."""
    packed = tmp_path / "phrases.gz"
    packed.write_bytes(gzip.compress(shipped.END.join([b" the quick ", b"", b" brown fox ", b"import os\n"])))
    monkeypatch.setattr(shipped, "PHRASES", packed)
    monkeypatch.setenv("CONSERVATOR_HOME", str(tmp_path / "home"))
    return shipped.load_phrases.__wrapped__


def assert_same(one, other):
    counts = other.starts[:, -1]
    assert one.bits == other.bits
    for name in ("text", "offsets", "sizes", "starts"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for ours, theirs, count in zip(one.places, other.places, counts, strict=True):
        np.testing.assert_array_equal(ours[:count], theirs[:count])


def test_the_index_is_built_once_and_mapped_afterwards(few_phrases):
    listed = gzip.decompress(shipped.PHRASES.read_bytes()).split(shipped.END)
    expected = index_texts([np.frombuffer(one, dtype=np.uint8).astype(np.int16) for one in listed])
    assert_same(few_phrases(), expected)
    with mock.patch.object(shipped, "build_index", side_effect=AssertionError("it was built again")):
        assert_same(few_phrases(), expected)


@pytest.mark.parametrize("harm", [lambda path: path.write_bytes(path.read_bytes()[:-8]), lambda path: path.unlink()])
def test_a_broken_cache_is_built_again(few_phrases, tmp_path, harm):
    expected = few_phrases()
    for path in sorted((tmp_path / "home").rglob("*.npy")):
        harm(path)
        assert_same(few_phrases(), expected)


def test_a_cache_that_cannot_be_written_is_no_error(few_phrases, tmp_path):
    (tmp_path / "home").write_text("a file, not a folder")
    assert few_phrases().bits == 8


def test_a_user_without_a_home_has_no_cache(few_phrases):
    with mock.patch.object(shipped, "cache_home", side_effect=RuntimeError("Could not determine home directory.")):
        assert few_phrases().bits == 8
