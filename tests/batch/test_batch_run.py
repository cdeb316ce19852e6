"""Invariants of a batch: order, workers, retries and kills change no result; finished work is not repeated."""

import csv
import gzip
import importlib.util
import io
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tarfile
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from conservator.batch.ledger import NAME, Ledger
from conservator.batch.output_folder import PARTS, locked
from conservator.errors import ConservatorError, OptionError
from support.batch_stub import LOG, batch

TABLES = {"overview.html", "summary.csv", "summary.parquet"}


def make_inputs(folder, number=6):
    """Texts, a table and an archive."""
    (folder / "sub").mkdir(parents=True)
    for index in range(number):
        (folder / "sub" / f"{index}.txt").write_text(f"document {index} has l\ufffdst s\ufffdme")
    (folder / "whole.txt").write_text("nothing is lost")
    (folder / "empty.txt").write_text("")
    lines = [json.dumps({"id": index, "text": f"row {index} is d\ufffdmaged"}) for index in range(number)]
    (folder / "rows.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    with tarfile.open(folder / "all.tar", "w") as archive:
        archive.add(folder / "sub", "sub")
    return folder


def contents(out):
    """The output files without the tables, which contain times; checks that there are no other files."""
    files = {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert NAME in files
    assert not {name for name in files if name.startswith(".") and name != NAME}
    return {name: data for name, data in files.items() if name != NAME and name not in TABLES}


@pytest.fixture
def log(tmp_path, monkeypatch):
    """The processed documents, one line for each."""
    path = tmp_path / "log"
    path.touch()
    monkeypatch.setenv(LOG, str(path))
    return lambda: path.read_text().splitlines()


def test_order_and_workers_change_no_byte(tmp_path):
    inputs = make_inputs(tmp_path / "in")
    totals = batch(inputs, tmp_path / "one").run()
    assert totals.outcomes == {"restored": 18, "undamaged": 2}
    first = contents(tmp_path / "one")
    assert first["sub/3.txt"] == b"document 3 has last same"
    assert [json.loads(line) for line in gzip.decompress(first["rows.jsonl.gz"]).splitlines()][4] == {
        "id": 4,
        "text": "row 4 is damaged",
    }
    parts = [inputs / name for name in ("whole.txt", "sub", "rows.jsonl.gz", "empty.txt", "all.tar")]
    batch(parts[::-1], tmp_path / "turned", jobs=2).run()
    assert contents(tmp_path / "turned") == first


def test_finished_work_is_not_repeated(tmp_path, log):
    inputs, out = make_inputs(tmp_path / "in"), tmp_path / "out"
    batch(inputs, out).run()
    first, number = contents(out), len(log())
    assert number == 6 + 6 + 2  # the archive holds what the folder does
    again = batch(inputs, out)
    assert again.run().outcomes == {"restored": 18, "undamaged": 2}
    assert (len(log()), again.processed) == (number, 0)
    (inputs / "sub" / "3.txt").write_text("an\ufffdther")
    (inputs / "new.txt").write_text("n\ufffdw")
    (out / "sub" / "5.txt").unlink()
    batch(inputs, out).run()
    assert len(log()) == number + 3
    assert contents(out) == first | {"sub/3.txt": b"anather", "new.txt": b"naw"}
    batch(inputs, out, seed=1).run()
    assert contents(out)["new.txt"] == b"nbw"


def test_files_of_the_user_are_not_overwritten(tmp_path):
    inputs, out = make_inputs(tmp_path / "in", 1), tmp_path / "out"
    out.mkdir()
    (out / "whole.txt").write_text("mine")
    with pytest.raises(ConservatorError, match=r"whole\.txt: the file was not written by this batch"):
        batch(inputs, out).run()
    assert contents(out) == {"whole.txt": b"mine"}
    batch(inputs, out, force=True).run()
    assert contents(out)["whole.txt"] == b"nothing is lost"
    (out / "sub" / "0.txt").write_text("edited by hand")
    second = batch(inputs, out)
    second.run()
    assert (second.protected_files, contents(out)["sub/0.txt"]) == (1, b"edited by hand")
    with pytest.raises(ConservatorError, match="changed since"):
        batch(inputs, out, seed=1).run()
    batch(inputs, out, force=True).run()
    assert contents(out)["sub/0.txt"] == b"document 0 has last same"


def test_inputs_are_not_overwritten_and_output_names_do_not_clash(tmp_path):
    make_inputs(tmp_path / "in", 1)
    with pytest.raises(ConservatorError, match="would overwrite the input"):
        batch(tmp_path / "in" / "whole.txt", tmp_path / "in", force=True).run()
    make_inputs(tmp_path / "other" / "in", 1)
    with pytest.raises(ConservatorError, match="have the same output file"):
        batch([tmp_path / "in", tmp_path / "other" / "in"], tmp_path / "out").run()
    (tmp_path / "none").mkdir()
    with pytest.raises(ConservatorError, match="no documents"):
        batch(tmp_path / "none", tmp_path / "out").run()


def test_documents_that_cannot_be_restored_are_copied_or_excluded(tmp_path, log):
    inputs, out = make_inputs(tmp_path / "in", 1), tmp_path / "out"
    (inputs / "refused.txt").write_text("REFUSED \ufffd")
    (inputs / "binary.png").write_text("BINARY \ufffd")
    (inputs / "torn.tar").write_bytes((inputs / "all.tar").read_bytes()[:700])
    (inputs / "torn.jsonl.gz").write_bytes((inputs / "rows.jsonl.gz").read_bytes()[:-6])
    (inputs / "script.sh").write_text("\ufffd")
    (inputs / "script.sh").chmod(0o755)
    totals = batch(inputs, out).run()
    assert (totals.copied, totals.excluded) == (3, 1)
    outputs = contents(out)
    assert "binary.png" not in outputs
    for name in ("refused.txt", "torn.tar", "torn.jsonl.gz"):
        assert outputs[name] == (inputs / name).read_bytes()
    assert (out / "script.sh").stat().st_mode & 0o777 == 0o755
    number = len(log())
    assert batch(inputs, out).run().copied == 3
    assert len(log()) <= number + 2  # a document of a truncated file, whose result is not kept


def test_deleted_inputs_do_not_stop_the_rest(tmp_path):
    inputs, out = make_inputs(tmp_path / "in", 2), tmp_path / "out"
    task = batch(inputs, out)
    task.prepare = lambda: [path.unlink() for path in (inputs / "sub").iterdir()]  # after the outputs were checked
    totals = task.run()
    assert totals.outcomes["restored"] == 4  # of the table and the archive
    assert (totals.copied, "sub/0.txt" in contents(out)) == (0, False)


def test_an_input_that_is_deleted_before_the_output_is_written_is_excluded(tmp_path):
    inputs, out = make_inputs(tmp_path / "in", 2), tmp_path / "out"
    task = batch(inputs, out)
    receive = task._receive

    def receive_later(ledger, number, result):
        (inputs / "sub" / "1.txt").unlink(missing_ok=True)
        receive(ledger, number, result)

    task._receive = receive_later
    task.run()
    assert "sub/1.txt" not in contents(out)
    assert contents(out)["sub/0.txt"] == b"document 0 has last same"


def test_a_named_table_without_the_field_is_an_error(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"body": "x"}')
    with pytest.raises(ConservatorError, match="--field selects the field"):
        batch(tmp_path / "rows.jsonl", tmp_path / "out").run()


def make_archive(path, mode="w", number=4):
    with tarfile.open(path, mode) as archive:
        for index in range(number):
            noise = (
                random.Random(index).randbytes(9000).hex()
            )  # incompressible: the cut is in the content, not a header
            info, data = tarfile.TarInfo(f"{index}.txt"), f"{index} is l\ufffdst. {noise}".encode()
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


@pytest.mark.parametrize("from_folder", [True, False])
@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2"])
def test_a_truncated_archive_does_not_stop_the_rest(tmp_path, mode, from_folder):
    inputs, out = tmp_path / "in", tmp_path / "out"
    inputs.mkdir()
    make_archive(tmp_path / "whole", mode)
    whole = (tmp_path / "whole").read_bytes()
    (inputs / "cut.tar").write_bytes(whole[: len(whole) // 3])
    (inputs / "z.txt").write_text("l\ufffdst")
    paths = inputs if from_folder else sorted(inputs.iterdir())
    for _ in range(2):  # another run does the same
        totals = batch(paths, out).run()
        assert totals.outcomes == {"restored": 1, "copied": 1}
        assert [reason.partition(":")[0] for reason in totals.reasons] == [f"cannot read {inputs / 'cut.tar'}"]
        assert contents(out) == {"cut.tar": (inputs / "cut.tar").read_bytes(), "z.txt": b"last"}


def test_text_in_a_table_that_is_not_utf_8_does_not_stop_the_rest(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    texts = arrow.array([b"l\xff\xef\xbf\xbdst", "l\ufffdst".encode()], type=arrow.binary())
    (tmp_path / "in").mkdir()
    parquet.write_table(arrow.table({"text": texts.view(arrow.string())}), tmp_path / "in" / "rows.parquet")
    (tmp_path / "in" / "z.txt").write_text("l\ufffdst")
    for _ in range(2):
        totals = batch(tmp_path / "in", tmp_path / "out").run()
        assert totals.outcomes == {"restored": 2, "copied": 1}
        assert list(totals.reasons) == ["invalid UTF-8: invalid start byte at byte 1"]
        written = parquet.read_table(tmp_path / "out" / "rows.parquet")["text"].chunk(0).view(arrow.binary())
        assert written.to_pylist() == [b"l\xff\xef\xbf\xbdst", b"last"]


def test_an_archive_that_was_written_wrongly_is_copied(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    make_archive(tmp_path / "in" / "a.tar")
    monkeypatch.setattr("conservator.batch.tar.header_of", lambda info, size: info.tobuf(tarfile.GNU_FORMAT))
    totals = batch(tmp_path / "in", tmp_path / "out").run()
    assert contents(tmp_path / "out") == {"a.tar": (tmp_path / "in" / "a.tar").read_bytes()}
    assert "'0.txt' would be damaged" in next(iter(totals.reasons))


def test_changes_of_encoding_are_counted_and_shown(tmp_path, monkeypatch):
    monkeypatch.setattr("conservator.batch.summary.find_spec", lambda name: None)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("CONVERTED")
    (tmp_path / "in" / "b.txt").write_text("l\ufffdst")
    for _ in range(2):
        totals = batch(tmp_path / "in", tmp_path / "out").run()
        assert totals.converted == {("windows-1252", "utf-8"): 1}
        (row, _) = csv.DictReader((tmp_path / "out" / "summary.csv").read_text(encoding="utf-8").splitlines())
        assert (row["encoding"], row["written"], row["reason"]) == ("windows-1252", "utf-8", "no place for it")
        page = (tmp_path / "out" / "overview.html").read_text()
        assert "restored, read as windows-1252, written as utf-8: no place for it" in page
        assert "<dt>encoding changed</dt><dd>1" in page


def test_notices_are_counted_and_shown(tmp_path, monkeypatch):
    monkeypatch.setattr("conservator.batch.summary.find_spec", lambda name: None)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("l\ufffdst")
    for name in "bc":
        (tmp_path / "in" / f"{name}.txt").write_text(f"NOTICED {name}")
    for _ in range(2):
        totals = batch(tmp_path / "in", tmp_path / "out").run()
        assert totals.notices == {"unknown_language": 2}
        assert totals.messages == {"unknown_language": "no model covers it"}
        rows = csv.DictReader((tmp_path / "out" / "summary.csv").read_text(encoding="utf-8").splitlines())
        assert [row["notices"] for row in rows] == ["", "unknown_language", "unknown_language"]
        page = (tmp_path / "out" / "overview.html").read_text()
        assert "<dt>unknown language</dt><dd>2" in page
        assert "undamaged; unknown language: no model covers it" in page
        assert page.index("c.txt") < page.index("a.txt")


def test_a_system_without_locks(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    spec = importlib.util.find_spec("conservator.batch.output_folder")
    folder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(folder)
    assert folder.fcntl is None
    with folder.locked(tmp_path), folder.locked(tmp_path):
        pass


def interfere(task, act):
    """Call ``act`` while a document is being restored, as another user would."""
    receive = task._receive

    def receive_later(*args):
        act()
        receive(*args)

    task._receive = receive_later
    return task


def test_files_that_the_user_creates_or_changes_during_a_run_are_not_overwritten(tmp_path):
    inputs, out = tmp_path / "in", tmp_path / "out"
    inputs.mkdir()
    for name in ("a.txt", "b.txt"):
        (inputs / name).write_text(f"{name} is l\ufffdst")
    task = interfere(batch(inputs, out), lambda: (out / "b.txt").write_text("mine"))
    totals = task.run()
    assert contents(out) == {"a.txt": b"a.txt is last", "b.txt": b"mine"}
    assert (task.protected_files, totals.outcomes) == (1, {"restored": 1, "copied": 1})
    (reason,) = totals.reasons
    assert reason.startswith(f"{out / 'b.txt'} was created or changed during the run and was not overwritten")
    again = batch(inputs, out)
    assert again.run().outcomes == totals.outcomes
    assert (again.protected_files, contents(out)["b.txt"]) == (1, b"mine")
    (out / "b.txt").unlink()
    assert batch(inputs, out).run().outcomes == {"restored": 2}
    assert contents(out)["b.txt"] == b"b.txt is last"
    task = interfere(batch(inputs, out, seed=1), lambda: (out / "b.txt").write_text("corrected by hand"))
    task.run()
    assert (task.protected_files, contents(out)) == (1, {"a.txt": b"a.txt is lbst", "b.txt": b"corrected by hand"})
    task = interfere(batch(inputs, out, seed=2, force=True), lambda: (out / "b.txt").write_text("mine"))
    assert task.run().outcomes == {"restored": 2}
    assert contents(out)["b.txt"] == b"b.txt is lcst"


def test_tables_that_the_user_changes_during_a_run_are_not_overwritten(tmp_path):
    inputs, out = make_inputs(tmp_path / "in", 1), tmp_path / "out"
    task = interfere(batch(inputs, out), lambda: (out / "overview.html").write_text("mine"))
    task.run()
    assert (task.protected_files, (out / "overview.html").read_text()) == (1, "mine")


def test_names_that_are_not_unicode_or_control_a_terminal(tmp_path):
    (tmp_path / "in").mkdir()
    for name in (b"\xff\xfe.txt", b"\x1b[31m.txt"):
        Path(os.fsdecode(os.fsencode(tmp_path / "in") + b"/" + name)).write_text("l\ufffdst")
    totals = batch(tmp_path / "in", tmp_path / "out").run()
    assert totals.outcomes == {"restored": 2}
    assert (tmp_path / "out" / "\x1b[31m.txt").read_bytes() == b"last"
    assert Path(os.fsdecode(os.fsencode(tmp_path / "out") + b"/\xff\xfe.txt")).read_bytes() == b"last"
    assert batch(tmp_path / "in", tmp_path / "out").run().outcomes == {"restored": 2}
    page = (tmp_path / "out" / "overview.html").read_text()
    assert "\x1b" not in page


@pytest.mark.parametrize(
    ("text", "limits", "reason"),
    [
        ("KILL \ufffd", {}, "3 workers crashed on this document: ended by SIGKILL"),
        ("SLEEP \ufffd", {"time_limit": 0.3}, "took longer than the time limit of 0.3 s"),
        ("MEMORY \ufffd", {"memory_limit": 200 * 2**20}, "used more memory than the limit of 200 MB"),
    ],
)
def test_a_poison_document_does_not_stop_the_rest(tmp_path, log, text, limits, reason):
    """A retry is the same for every reason; that of a time limit needs the fewest workers."""
    inputs, out = make_inputs(tmp_path / "in", 2), tmp_path / "out"
    (inputs / "aaa.txt").write_text(text)
    lines = [json.dumps({"text": line}) for line in ("a\ufffd", text, "b\ufffd")]
    (inputs / "poison.jsonl").write_text("\n".join(lines))
    totals = batch(inputs, out, jobs=2, **limits).run()
    assert totals.reasons == {reason: 2}
    outputs = contents(out)
    assert outputs["aaa.txt"] == text.encode()
    assert outputs["poison.jsonl"].decode() == "\n".join(
        [lines[0].replace("\\ufffd", "a"), lines[1], lines[2].replace("\\ufffd", "a")]
    )
    assert outputs["sub/1.txt"] == b"document 1 has last same"
    number = len(log())
    assert batch(inputs, out, jobs=2, **limits).run().copied == 2
    assert len(log()) == number
    if "time_limit" in limits:
        again = batch(inputs, out, jobs=2, retry=True, **limits)
        assert again.run().copied == 2
        assert again.processed == 2  # only the poison document, as a file and as a table row
    assert contents(out) == outputs


def test_an_invalid_configuration_is_an_error(tmp_path):
    inputs = make_inputs(tmp_path / "in", 1)
    with pytest.raises(OptionError, match="a bad mark"):
        batch(inputs, tmp_path / "out", mark="bad", jobs=1).run()
    with pytest.raises(ConservatorError, match=r"5 workers in a row stopped during start-up \(exit code 7\)"):
        batch(inputs, tmp_path / "out", mark="dead", jobs=1).run()


def test_two_drivers_do_not_share_a_folder(tmp_path):
    inputs, out = make_inputs(tmp_path / "in", 1), tmp_path / "out"
    out.mkdir()
    with locked(out), pytest.raises(ConservatorError, match="another run is writing"):
        batch(inputs, out).run()
    batch(inputs, out).run()


def test_a_ledger_of_another_version_is_rejected(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.connection.execute("PRAGMA user_version=99")
    ledger.close()
    with pytest.raises(ConservatorError, match="another version"):
        Ledger(tmp_path)
    (tmp_path / NAME).write_bytes(b"no database" * 100)
    with pytest.raises(ConservatorError, match="cannot use"):
        Ledger(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE documents SET shares = '[1'",
        'UPDATE documents SET shares = \'{"a": "b"}\'',
        "UPDATE documents SET shares = x'00ff'",
        "UPDATE documents SET notices = '{\"kind\": 1}'",
        "UPDATE documents SET outcome = x'00ff'",
        "UPDATE documents SET lost = 'many'",
        "UPDATE documents SET reason = cast(x'ff' AS TEXT)",
        "UPDATE places SET name = x'00ff'",
        "UPDATE places SET size = 'text'",
        "UPDATE files SET written = x'00ff', gave_up = NULL",
        "DROP TABLE places",
    ],
)
def test_a_damaged_ledger_is_an_error_with_advice(tmp_path, damage):
    inputs, out = make_inputs(tmp_path / "in", 1), tmp_path / "out"
    batch(inputs, out).run()
    before = contents(out)
    with closing(sqlite3.connect(out / NAME)) as base, base:
        base.execute(damage)
    (inputs / "sub" / "0.txt").write_text("an\ufffdther")  # needs the ledger
    message = r"sqlite: the file is damaged .*; choose another --out, or delete this file and run once with --force"
    with pytest.raises(ConservatorError, match=message):
        batch(inputs, out).run()
    assert contents(out).keys() == before.keys()


def test_damaged_data_in_a_ledger_is_an_error(tmp_path):
    inputs, out = make_inputs(tmp_path / "in", 1), tmp_path / "out"
    ledger_data = "UPDATE documents SET data = x'00ff', changed = 1"

    def act():
        with closing(sqlite3.connect(out / NAME)) as base, base:
            base.execute(ledger_data)

    with pytest.raises(ConservatorError, match="the file is damaged"):
        interfere(batch(inputs, out), act).run()


def drive(inputs, out, log, jobs=2):
    """Start a driver in a separate process, which can be killed."""
    paths = os.pathsep.join([str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, LOG: str(log), "BATCH_SECONDS": "0.05", "PYTHONPATH": paths}
    return subprocess.Popen([sys.executable, "-m", "support.batch_stub", inputs, out, str(jobs)], env=environment)


def test_kills_at_random_moments_lose_nothing_and_leave_nothing(tmp_path):
    inputs, out, log = make_inputs(tmp_path / "in", 40), tmp_path / "out", tmp_path / "log"
    batch(inputs, tmp_path / "calm").run()
    log.touch()
    moments, kills = random.Random(0), 0
    while kills < 4:
        driver = drive(inputs, out, log)
        seen = len(log.read_text().splitlines()) + moments.randrange(1, 12)
        while driver.poll() is None and len(log.read_text().splitlines()) < seen:
            time.sleep(0.002)
        if driver.poll() is not None:
            break
        victim = driver.pid if kills % 2 else int(log.read_text().splitlines()[-1].split()[0])
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
        kills += 1
        driver.kill()  # after the kill of a worker, the driver is killed, too
        driver.wait()
    assert kills > 1
    assert drive(inputs, out, log).wait() == 0
    assert contents(out) == contents(tmp_path / "calm")
    assert not (out / PARTS).exists()
    # Each kill may repeat, for two workers, the current document and the previous one if it was not recorded.
    assert len(log.read_text().splitlines()) <= 40 + 40 + 2 + 4 * kills


def test_workers_end_with_their_driver(tmp_path):
    inputs, log = tmp_path / "in", tmp_path / "log"
    inputs.mkdir()
    (inputs / "a.txt").write_text("SLEEP")
    log.touch()
    driver = drive(inputs, tmp_path / "out", log)
    while not log.read_text().endswith("\n"):
        time.sleep(0.01)
    driver.kill()
    driver.wait()
    worker = int(log.read_text().split()[0])
    while True:
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            break
        if Path(f"/proc/{worker}/stat").is_file() and Path(f"/proc/{worker}/stat").read_text().split()[2] == "Z":
            break
        time.sleep(0.01)
