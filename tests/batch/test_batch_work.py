"""The work on one document: the counts of its result, and copies of documents that cannot be restored."""

from dataclasses import replace

import numpy as np
import pytest

from conservator.batch import Task, WorkerConfig, hash_configuration
from conservator.batch.estimate import estimate_cost
from conservator.batch.inputs import TextFile
from conservator.batch.work import restore_task
from conservator.document import open_document
from conservator.errors import OptionError
from conservator.options import RestoreOptions
from conservator.pages import ocr_confidence_of, read_pages
from conservator.restorer import Restorer
from conservator.results import Notice
from support.fakes import FakeExpert
from support.ocr_files import write_hocr

TEXT = "The st\ufffdtion records temp\ufffdrature every hour of the day. " * 3


@pytest.fixture
def restorer():
    return Restorer([FakeExpert(0), FakeExpert(1)])


def test_the_result_depends_only_on_the_document(restorer):
    first = restore_task(restorer, Task(0, TEXT.encode()))
    restore_task(restorer, Task(1, b"something \xef\xbf\xbd else"))
    again = restore_task(restorer, Task(7, TEXT.encode()))
    restoration = restorer.restore(TEXT)
    assert first.data == again.data == restoration.data
    assert (first.outcome, first.lost, first.restored) == ("restored", 6, 6)
    assert first.weights == again.weights
    assert set(first.weights) == set(restoration.experts)
    assert first.seconds > 0


def test_a_field_of_a_table_is_text_whatever_it_looks_like(restorer):
    data = "%PDF-1.4 is l\ufffdst".encode()
    assert restore_task(restorer, Task(0, data, is_text=True)).outcome == "restored"
    assert restore_task(restorer, Task(0, data + b"\0\1\2")).binary


def test_the_encoding_stays(restorer):
    data = "ein Stück, in dem ein _uchstabe fehlt, und größer ist er nicht".encode("utf-16")
    restorer.options = RestoreOptions(mark="_")
    result = restore_task(restorer, Task(0, data))
    assert result.data.decode("utf-16").startswith("ein Stück, in dem ein ")


@pytest.mark.parametrize(
    ("data", "outcome", "reason"),
    [
        (b"", "undamaged", ""),
        (b"nothing is lost", "undamaged", ""),
        (b"\x89PNG\r\n\x1a\n", "copied", "a PNG image"),
        ("dam\ufffdged, and s\u00f6 \u00e4\u00f6\u00fc".encode() + b"\xc3", "copied", "UTF-8"),
    ],
)
def test_undamaged_and_invalid_documents_are_unchanged(restorer, data, outcome, reason):
    result = restore_task(restorer, Task(0, data))
    assert (result.outcome, result.data) == (outcome, None)
    assert reason in result.reason


def test_an_unexpected_error_becomes_a_reason(restorer, monkeypatch):
    for error, reason in [(MemoryError(), "not enough memory"), (KeyError("x"), "unexpected KeyError: 'x'")]:
        monkeypatch.setattr(restorer, "restore", lambda *_, error=error, **__: (_ for _ in ()).throw(error))
        result = restore_task(restorer, Task(0, TEXT.encode()))
        assert result.gave_up
        assert reason in result.reason


def test_ocr_files_are_corrected():
    line = "The constable found tbe prisoner in the burning house in the morning"
    page = write_hocr([line.split()] * 3)
    result = restore_task(Restorer(options=RestoreOptions(channel="ocr")), Task(0, page))
    assert (result.outcome, result.lost) == ("restored", 3)
    assert result.data.count(b"data-original") == 3


def test_ocr_confidences_are_used_as_in_restore(monkeypatch):
    line = "The Judge said that the prisoner was found in tbe house in the morning, and that he bad been seen before."
    page = write_hocr([line.split()]).replace(b"x_wconf 50", b"x_wconf 99")
    restorer, document = Restorer(options=RestoreOptions(channel="ocr")), open_document(page)
    restoration = restorer.restore(document)
    received, restore = [], restorer.restore
    monkeypatch.setattr(restorer, "restore", lambda opened: received.append(opened) or restore(opened))
    result = restore_task(restorer, Task(0, page))
    assert result.data == document.encode(restoration)
    np.testing.assert_array_equal(received[0].ocr_confidence.correct, ocr_confidence_of(read_pages(page)).correct)


def test_a_document_that_no_longer_fits_its_encoding_is_reported(restorer):
    data = "Die Straße nach Köln ist gut, und gr_ßer ist sie nicht".encode("windows-1252")
    restorer.options = RestoreOptions(mark="_", encoding="windows-1252")
    result = restore_task(restorer, Task(0, data))
    assert (result.encoding, result.written, result.reason) == ("windows-1252", "windows-1252", "")
    restore = restorer.restore
    restorer.restore = lambda source: replace(restore(source), encoding="ascii")  # which has no umlauts
    result = restore_task(restorer, Task(0, data))
    assert (result.encoding, result.written) == ("ascii", "utf-8")
    assert result.reason == "a restored character does not exist in ascii"


@pytest.mark.parametrize("data", [TEXT.encode(), b"nothing is lost"])
def test_notices_of_a_restoration_are_kept(monkeypatch, restorer, data):
    notices, restore = (Notice("unknown_language", "no model covers it"),), restorer.restore
    monkeypatch.setattr(restorer, "restore", lambda document: replace(restore(document), notices=notices))
    assert restore_task(restorer, Task(0, data)).notices == {"unknown_language": "no model covers it"}


def test_every_setting_changes_the_configuration_hash(tmp_path):
    def hashed(texts=(), factory="stub:make", **changes):
        return hash_configuration(WorkerConfig(RestoreOptions(**changes), factory=factory), texts)

    for name in "ab":
        (tmp_path / f"{name}.json").write_text(name)
    hashes = [
        hashed(),
        hashed(seed=1),
        hashed(texts=["x"]),
        hashed(factory="other:make"),
        hashed(min_confidence=0.5),
        hashed(channel=str(tmp_path / "a.json")),
        hashed(channel=str(tmp_path / "b.json")),
    ]
    assert len(set(hashes)) == len(hashes)
    assert hashed() == hashes[0]
    by_experts = [hash_configuration(WorkerConfig(RestoreOptions(), names)) for names in (None, ("prose",), ("code",))]
    assert len(set(by_experts)) == 3


def test_the_cost_is_measured_on_a_sample(tmp_path, restorer):
    for number in range(9):
        (tmp_path / f"{number}.txt").write_text(TEXT + str(number))
    (tmp_path / "whole.txt").write_text("nothing lost")

    class Engine:
        def run(self, tasks):
            return ((task.number, restore_task(restorer, task)) for task in tasks)

    input_files = [TextFile(path, path.name, True, 10**6) for path in sorted(tmp_path.iterdir())]
    cost = estimate_cost(input_files, RestoreOptions(), Engine)
    assert (cost.documents, cost.damaged, cost.lost, cost.measured) == (10, 9, 54, 5)
    assert cost.seconds > 0


def test_results_must_not_depend_on_the_speed_of_the_machine():
    with pytest.raises(OptionError, match="speed"):
        WorkerConfig(RestoreOptions(max_seconds=1.0))
