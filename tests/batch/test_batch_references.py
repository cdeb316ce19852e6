"""References of a batch: one index on disk, independent of the order, without the document itself."""

import hashlib

import numpy as np
import pytest

from conservator.batch import Inputs, Task
from conservator.batch.references import SharedReferences, build_references, gather_texts
from conservator.batch.work import restore_task
from conservator.errors import ConservatorError
from conservator.options import RestoreOptions
from conservator.pipelines.references import ReferenceTexts
from conservator.restorer import Restorer
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


def gather(corpus, *, reverse=False):
    input_files = list(Inputs([corpus], corpus / "out").input_files())
    return gather_texts([], input_files[::-1] if reverse else input_files, RestoreOptions())


def test_duplicate_texts_count_once_in_an_order_of_their_own(corpus):
    texts = gather(corpus)
    assert {data.decode() for _, data in texts.values()} == {*TEXTS.values(), "marked"}
    assert list(texts) == list(gather(corpus, reverse=True)) == sorted(texts)
    assert list(gather_texts([corpus / "a.txt"], [], RestoreOptions())) == [
        hashlib.sha256(TEXTS["a.txt"].encode()).hexdigest()
    ]


def test_the_index_on_disk_is_the_one_in_memory(corpus, tmp_path):
    texts = gather(corpus)
    build_references(texts, "\ufffd", tmp_path / "index")
    shared = SharedReferences.open(tmp_path / "index").texts
    built = ReferenceTexts(tuple((name, data.decode()) for name, data in texts.values())).index
    assert shared.names == built.names
    for actual, expected in zip([shared.begins, *shared.index], [built.begins, *built.index], strict=True):
        np.testing.assert_array_equal(actual, expected)
        assert type(actual) is type(expected)


def test_a_document_is_not_its_own_reference(corpus, tmp_path):
    build_references(gather(corpus), "\ufffd", tmp_path / "index")
    shared = SharedReferences.open(tmp_path / "index")
    before = shared.texts.index.text.copy()
    document = TEXTS["b.txt"].encode()
    experts = [FakeExpert(0), FakeExpert(1)]
    result = restore_task(Restorer(experts, references=shared.texts), Task(0, document), shared)
    np.testing.assert_array_equal(shared.texts.index.text, before)
    others = [(name, text) for name, text in [*TEXTS.items(), ("bom.txt", "marked")] if name not in ("b.txt", "d.txt")]
    others.sort(key=lambda named_text: hashlib.sha256(named_text[1].encode()).hexdigest())
    expected = restore_task(Restorer(experts, references=others), Task(0, document))
    assert result.data == expected.data
    assert result.expected_accuracy == expected.expected_accuracy
    assert result.weights == expected.weights
    with shared.without(hashlib.sha256(document).hexdigest()):
        hidden = shared.texts.index.text
        assert bytes(hidden[hidden >= 0].astype(np.uint8)).count(b"eve") == 1


def test_empty_references_are_an_error(tmp_path):
    with pytest.raises(ConservatorError, match="all references are empty"):
        build_references({}, "\ufffd", tmp_path / "index")
