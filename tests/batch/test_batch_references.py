"""Texts like the documents: one index on disk, in no order, without the document itself."""

import hashlib

import numpy as np
import pytest

from conservator.batch import Inputs, Task
from conservator.batch.references import SharedReferences, build_references, gather_texts
from conservator.batch.work import restore_one
from conservator.errors import ConservatorError
from conservator.options import RestoreOptions
from conservator.restorer import Restorer, read_references
from support.fakes import FakeExpert

TEXTS = {
    "a.txt": "The station records temperature, wind and rain every hour of the day.",
    "b.txt": "The station rec\ufffdrds temperature, w\ufffdnd and rain eve\ufffdy hour.",
    "c.txt": "Nothing of that kind is here; only a list of names and of dates.",
    "d.txt": "The station records temperature, wind and rain every hour of the day.",
}


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "in").mkdir()
    for name, text in TEXTS.items():
        (tmp_path / "in" / name).write_text(text)
    (tmp_path / "in" / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "in" / "bom.txt").write_bytes(b"\xef\xbb\xbfmarked")
    (tmp_path / "in" / "torn.tar").write_bytes(b"?" * 600)
    return tmp_path / "in"


def gather(corpus, *, turned=False):
    input_files = list(Inputs([corpus], corpus / "out").input_files())
    return gather_texts([], input_files[::-1] if turned else input_files, RestoreOptions())


def test_texts_count_once_in_no_order(corpus):
    texts = gather(corpus)
    assert {data.decode() for _, data in texts.values()} == {*TEXTS.values(), "marked"}
    assert list(texts) == list(gather(corpus, turned=True)) == sorted(texts)
    assert list(gather_texts([corpus / "a.txt"], [], RestoreOptions())) == [
        hashlib.sha256(TEXTS["a.txt"].encode()).hexdigest()
    ]


def test_the_index_on_disk_is_the_one_in_memory(corpus, tmp_path):
    texts = gather(corpus)
    build_references(texts, "\ufffd", tmp_path / "index")
    shared = SharedReferences.open(tmp_path / "index").texts
    built = read_references([(name, data.decode()) for name, data in texts.values()], "\ufffd")
    assert shared.names == built.names
    for one, other in zip([shared.begins, *shared.index], [built.begins, *built.index], strict=True):
        np.testing.assert_array_equal(one, other)
        assert type(one) is type(other)


def test_a_document_is_no_reference_of_itself(corpus, tmp_path):
    build_references(gather(corpus), "\ufffd", tmp_path / "index")
    shared = SharedReferences.open(tmp_path / "index")
    before = shared.texts.index.text.copy()
    own = TEXTS["b.txt"].encode()
    restorer = Restorer([FakeExpert(0), FakeExpert(1)])
    restorer.reference_index = shared.texts
    found = restore_one(restorer, Task(0, own), shared)
    np.testing.assert_array_equal(shared.texts.index.text, before)
    others = [(name, text) for name, text in [*TEXTS.items(), ("bom.txt", "marked")] if name not in ("b.txt", "d.txt")]
    others.sort(key=lambda one: hashlib.sha256(one[1].encode()).hexdigest())
    restorer.reference_index = read_references(others, "\ufffd")
    expected = restore_one(restorer, Task(0, own))
    assert found.data == expected.data
    assert found.expected == expected.expected
    assert found.shares == expected.shares
    with shared.without(hashlib.sha256(own).hexdigest()):
        hidden = shared.texts.index.text
        assert bytes(hidden[hidden >= 0].astype(np.uint8)).count(b"eve") == 1


def test_nothing_to_refer_to(tmp_path):
    with pytest.raises(ConservatorError, match="all are empty"):
        build_references({}, "\ufffd", tmp_path / "index")
