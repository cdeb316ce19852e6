"""The work on one document: what came of it in numbers, and copies where it cannot be restored."""

from dataclasses import replace

import numpy as np
import pytest

from conservator.batch import Task, WorkerConfig, hash_configuration
from conservator.batch.estimate import estimate
from conservator.batch.files import TextFile
from conservator.batch.work import restore_one
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


def test_the_result_depends_on_the_document_alone(restorer):
    first = restore_one(restorer, Task(0, TEXT.encode()))
    restore_one(restorer, Task(1, b"something \xef\xbf\xbd else"))
    again = restore_one(restorer, Task(7, TEXT.encode()))
    found = restorer.restore(TEXT)
    assert first.data == again.data == found.data
    assert (first.outcome, first.lost, first.restored) == ("restored", 6, 6)
    assert first.shares == again.shares
    assert set(first.shares) == set(found.experts)
    assert first.seconds > 0


def test_a_field_of_a_table_is_text_whatever_it_looks_like(restorer):
    data = "%PDF-1.4 is l\ufffdst".encode()
    assert restore_one(restorer, Task(0, data, is_text=True)).outcome == "restored"
    assert restore_one(restorer, Task(0, data + b"\0\1\2")).binary


def test_the_encoding_stays(restorer):
    data = "ein Stück, in dem ein _uchstabe fehlt, und größer ist er nicht".encode("utf-16")
    restorer.options = RestoreOptions(mark="_")
    done = restore_one(restorer, Task(0, data))
    assert done.data.decode("utf-16").startswith("ein Stück, in dem ein ")


@pytest.mark.parametrize(
    ("data", "outcome", "reason"),
    [
        (b"", "nothing lost", ""),
        (b"nothing is lost", "nothing lost", ""),
        (b"\x89PNG\r\n\x1a\n", "copied", "a PNG image"),
        ("dam\ufffdged, and s\u00f6 \u00e4\u00f6\u00fc".encode() + b"\xc3", "copied", "UTF-8"),
    ],
)
def test_what_stays_as_it_was(restorer, data, outcome, reason):
    done = restore_one(restorer, Task(0, data))
    assert (done.outcome, done.data) == (outcome, None)
    assert reason in done.reason


def test_a_fault_is_a_reason_not_an_end(restorer, monkeypatch):
    for error, reason in [(MemoryError(), "not enough memory"), (KeyError("x"), "unexpected KeyError: 'x'")]:
        monkeypatch.setattr(restorer, "restore", lambda *_, error=error, **__: (_ for _ in ()).throw(error))
        done = restore_one(restorer, Task(0, TEXT.encode()))
        assert done.gave_up
        assert reason in done.reason


def test_files_of_ocr_engines_are_corrected_as_such():
    line = "The constable found tbe prisoner in the burning house in the morning"
    page = write_hocr([line.split()] * 3)
    done = restore_one(Restorer(options=RestoreOptions(channel="ocr")), Task(0, page))
    assert (done.outcome, done.lost) == ("restored", 3)
    assert done.data.count(b"data-original") == 3


def test_confidences_of_ocr_engines_count_as_in_restore(monkeypatch):
    line = "The Judge said that the prisoner was found in tbe house in the morning, and that he bad been seen before."
    page = write_hocr([line.split()]).replace(b"x_wconf 50", b"x_wconf 99")
    restorer, transcript = Restorer(options=RestoreOptions(channel="ocr")), read_pages(page)
    ocr_confidence = ocr_confidence_of(transcript)
    found = restorer.restore(transcript.text, ocr_confidence=ocr_confidence)
    given, restore = [], restorer.restore
    monkeypatch.setattr(
        restorer, "restore", lambda *one, **more: given.append(more["ocr_confidence"]) or restore(*one, **more)
    )
    done = restore_one(restorer, Task(0, page))
    changes = transcript.word_changes((one.start, one.stop, one.text, one.probability) for one in found.changes)
    assert done.data == transcript.apply_changes(changes)
    np.testing.assert_array_equal(given[0].right, ocr_confidence.right)


def test_a_document_that_no_longer_fits_its_encoding_is_reported(restorer):
    data = "Die Stra\u00dfe nach _\u00f3d\u017a, und gr\u00f6\u00dfer ist sie nicht".replace("\u017a", "z").encode(
        "windows-1252"
    )
    restorer.options = RestoreOptions(mark="_", encoding="windows-1252")
    done = restore_one(restorer, Task(0, data))
    assert (done.encoding, done.written, done.reason) == ("windows-1252", "windows-1252", "")
    restore = restorer.restore
    restorer.restore = lambda source: replace(restore(source), encoding="ascii")  # which has no umlauts
    done = restore_one(restorer, Task(0, data))
    assert (done.encoding, done.written) == ("ascii", "utf-8")
    assert done.reason == "a restored character does not exist in ascii"


@pytest.mark.parametrize("data", [TEXT.encode(), b"nothing is lost"])
def test_notices_of_a_restoration_are_kept(monkeypatch, restorer, data):
    notices = (Notice("unknown_language", "no model covers it"),)
    monkeypatch.setattr("conservator.results.Restoration.notices", notices)
    assert restore_one(restorer, Task(0, data)).notices == {"unknown_language": "no model covers it"}


def test_whatever_matters_changes_the_configuration(tmp_path):
    def hashed(texts=(), factory="stub:make", **changes):
        return hash_configuration(WorkerConfig(RestoreOptions(**changes), factory=factory), texts)

    for name in "ab":
        (tmp_path / f"{name}.json").write_text(name)
    ways = [
        hashed(),
        hashed(seed=1),
        hashed(texts=["x"]),
        hashed(factory="other:make"),
        hashed(min_confidence=0.5),
        hashed(channel=str(tmp_path / "a.json")),
        hashed(channel=str(tmp_path / "b.json")),
    ]
    assert len(set(ways)) == len(ways)
    assert hashed() == ways[0]
    named = [hash_configuration(WorkerConfig(RestoreOptions(), one)) for one in (None, ("prose",), ("code",))]
    assert len(set(named)) == 3


def test_the_cost_is_measured_on_a_few(tmp_path, restorer):
    for number in range(9):
        (tmp_path / f"{number}.txt").write_text(TEXT + str(number))
    (tmp_path / "whole.txt").write_text("nothing lost")

    class Engine:
        def run(self, tasks):
            return ((task.number, restore_one(restorer, task)) for task in tasks)

    input_files = [TextFile(path, path.name, True, 10**6) for path in sorted(tmp_path.iterdir())]
    cost = estimate(input_files, RestoreOptions(), Engine)
    assert (cost.documents, cost.damaged, cost.lost, cost.measured) == (10, 9, 54, 5)
    assert cost.seconds > 0


def test_results_must_not_depend_on_the_speed_of_a_machine():
    with pytest.raises(OptionError, match="speed"):
        WorkerConfig(RestoreOptions(max_seconds=1.0))
