"""Reading documents from files, and errors for invalid files."""

import gzip
import json
import re
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.errors import ConservatorError
from conservator.training.corpus import Corpus, as_stream, draw_windows, hold_out, read_corpus
from conservator.training.strip import strip_python_comments


def lines(*texts):
    return "".join(json.dumps({"text": text, "id": 1}) + "\n" for text in texts).encode()


def test_documents_are_read_from_files_folders_and_json_lines(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "one.txt").write_text("één")
    (tmp_path / "a" / "b" / "two.md").write_text("two")
    (tmp_path / "a" / "picture.png").write_bytes(b"\0\1")
    (tmp_path / "a" / "__init__.py").touch()
    (tmp_path / "three.jsonl").write_bytes(lines("three", "four") + b"\n")
    (tmp_path / "five.jsonl.gz").write_bytes(gzip.compress(lines("five")))
    corpus = read_corpus([tmp_path / name for name in ("a", "three.jsonl", "five.jsonl.gz")])
    assert [document.decode() for document in corpus.documents] == ["two", "één", "three", "four", "five"]
    assert corpus.size == 21
    again = read_corpus([tmp_path / name for name in ("a", "three.jsonl", "five.jsonl.gz")])
    assert corpus.fingerprint == again.fingerprint
    assert corpus.fingerprint != read_corpus([tmp_path / "a"]).fingerprint


def test_documents_that_a_filter_rejects_are_counted(tmp_path):
    (tmp_path / "x.jsonl").write_bytes(lines("x = 1  # c", "def f(:", "# nothing else"))
    (tmp_path / "y.txt").write_text("# comment")
    paths = [tmp_path / "x.jsonl", tmp_path / "y.txt"]
    corpus = read_corpus(paths, {paths[0]: strip_python_comments})
    assert (corpus.documents, corpus.left_out) == ((b"x = 1", b"# comment"), 2)


def flipped(data, position):
    return data[:position] + bytes([data[position] ^ 255, data[position + 1] ^ 255]) + data[position + 2 :]


BAD = {
    "empty.txt": (b"", "is empty"),
    "blank.txt": (b" \n", "no text in"),
    "binary.txt": (b"ab\0c", "binary file: byte 2 is zero"),
    "latin.txt": (b"caf\xe9 ", "not UTF-8 text: byte 3 is 0xe9"),
    "x.docx": (b"PK", "the suffix '.docx' is not supported; accepted: folders"),
    "noextension": (b"text", "the suffix '' is not supported"),
    "x.jsonl": (b'{"text": "a"}\n{"body": "b"}\n', 'line 2: expected a JSON object with a field "text"'),
    "y.jsonl": (b"not json\n", "line 1: expected a JSON object"),
    "z.jsonl": (b'{"text": 1}\n', 'the field "text" must be a string'),
    "s.jsonl": (b'{"text": "\\ud800"}\n', "lone surrogate"),
    "l.jsonl": (b"[1]\n", "expected a JSON object"),
    "cut.jsonl.gz": (gzip.compress(lines("a" * 1000))[:-20], "cannot read"),
    "no.jsonl.gz": (b"plain", "cannot read"),
    "flipped.jsonl.gz": (flipped(gzip.compress(lines("".join(map(str, range(5000))))), 300), "cannot read"),
    "-": (b"", "standard input is not read here"),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_contain_the_file_and_the_reason(name, tmp_path):
    content, message = BAD[name]
    path = Path("-") if name == "-" else tmp_path / name
    if name != "-":
        path.write_bytes(content)
    with pytest.raises(ConservatorError, match=re.escape(message)) as error:
        read_corpus([path])
    assert name in str(error.value)


def test_folders_without_text_and_missing_files_are_reported(tmp_path):
    with pytest.raises(ConservatorError, match="contains no text files"):
        read_corpus([tmp_path])
    with pytest.raises(ConservatorError, match="cannot read a"):
        read_corpus([Path("a" * 300)])
    with pytest.raises(ConservatorError, match=r"the file or folder .*nothing does not exist"):
        read_corpus([tmp_path / "nothing"])


def test_too_much_text_is_rejected(tmp_path, monkeypatch):
    for module in ("conservator.training.corpus", "conservator.documents.texts"):
        monkeypatch.setattr(f"{module}.MAX_TEXT_BYTES", 100)
    (tmp_path / "bomb.jsonl.gz").write_bytes(gzip.compress(lines("a" * 60, "b" * 60)))
    with pytest.raises(ConservatorError, match="more than 100 bytes of text"):
        read_corpus([tmp_path / "bomb.jsonl.gz"])
    (tmp_path / "line.jsonl.gz").write_bytes(gzip.compress(lines("a" * 10, "b" * 120)))
    with pytest.raises(ConservatorError, match="line 2 has more than 100 bytes"):
        read_corpus([tmp_path / "line.jsonl.gz"])


def test_duplicates_and_hidden_folders_are_excluded(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config.txt").write_text("not this")
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone")  # with a byte order mark
    (tmp_path / "b.txt").write_text("one")
    corpus = read_corpus([tmp_path, tmp_path / "a.txt"])
    assert (corpus.documents, corpus.left_out) == ((b"one",), 2)


@given(sizes=st.lists(st.integers(1, 400), min_size=1, max_size=60), seed=st.integers(0, 9))
def test_a_twentieth_is_held_out_and_the_parts_are_disjoint(sizes, seed):
    documents = tuple(bytes([index % 256]) * size for index, size in enumerate(sizes))
    training, held = hold_out(Corpus(documents, 0, ""), seed)
    assert sorted(b"".join(training + held)) == sorted(b"".join(documents))
    size = sum(sizes)
    assert max(1, 0.02 * size - 1) <= sum(map(len, held)) <= 0.1 * size + 1
    assert hold_out(Corpus(documents, 0, ""), seed) == (training, held)
    if len(training) + len(held) == len(documents):
        assert set(training).isdisjoint(held)


def test_windows_are_parts_of_the_stream(generator):
    stream = as_stream([b"abc", b"defgh"])
    assert bytes(stream.tolist()) == b"abc\ndefgh"
    windows = draw_windows(stream, 200, 4, generator)
    assert windows.dtype == torch.int64
    assert {bytes(window) for window in windows.tolist()} == {b"abc\ndefgh"[start : start + 4] for start in range(6)}
