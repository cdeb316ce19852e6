"""How often a batch reads its inputs, and what happens if an input changes between two readings."""

import builtins
import gzip
import io
import json
import random
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from conservator.batch import Batch, DocumentResult, Inputs
from conservator.batch.engine import RESTORED
from conservator.errors import ConservatorError

FORMATS = ("text", "jsonl", "jsonl.gz", "parquet", "tar", "tar.gz")
START_BYTES = 72 * 1024  # the start of a file or the metadata of a table, which is also read before any work
LOST, FOUND = b"l\xef\xbf\xbdst", b"last"


class Engine:
    """Restores documents in this process; fails after a number of them."""

    def __init__(self, most=1000):
        self.most = most

    def run(self, tasks):
        for done, task in enumerate(tasks):
            if done == self.most:
                raise InterruptedError
            yield task.number, DocumentResult(RESTORED, task.data.replace(LOST, FOUND), lost=1, restored=1)


def make_texts(number, seed):
    """Texts of 180 KB that cannot be compressed well."""
    return [f"l\ufffdst {random.Random(100 * seed + index).randbytes(90_000).hex()}" for index in range(number)]


def make_files(folder, kind, number, seed=0):
    """Write texts as files of a format."""
    folder.mkdir(exist_ok=True)
    texts = make_texts(number, seed)
    if kind == "text":
        for index, text in enumerate(texts):
            (folder / f"{index}.txt").write_text(text)
    elif kind.startswith("jsonl"):
        data = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
        (folder / f"t.{kind}").write_bytes(gzip.compress(data) if kind.endswith("gz") else data)
    elif kind == "parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        table = arrow.table({"text": texts, "other": texts[::-1]})
        parquet.write_table(table, folder / "t.parquet", row_group_size=2, compression="none")
    else:
        with tarfile.open(folder / f"t.{kind}", "w:gz" if kind.endswith("gz") else "w") as archive:
            for index, text in enumerate(texts):
                info = tarfile.TarInfo(f"{index}.txt")
                info.size = len(text.encode())
                archive.addfile(info, io.BytesIO(text.encode()))


def documents(out, kind):
    """The texts of the output files."""
    if kind == "text":
        return [path.read_text() for path in sorted(out.glob("*.txt"))]
    if kind == "parquet":
        return pytest.importorskip("pyarrow.parquet").read_table(out / "t.parquet")["text"].to_pylist()
    if kind.startswith("jsonl"):
        data = (out / f"t.{kind}").read_bytes()
        return [
            json.loads(line)["text"] for line in (gzip.decompress(data) if kind.endswith("gz") else data).splitlines()
        ]
    with tarfile.open(out / f"t.{kind}") as archive:
        return [archive.extractfile(member).read().decode() for member in archive]


def restored(texts):
    return [text.replace("\ufffd", "a") for text in texts]


def batch(tmp_path, engine=None, **others):
    (tmp_path / "out").mkdir(exist_ok=True)
    return Batch(Inputs([tmp_path / "in"], tmp_path / "out"), engine or Engine(), "", **others)


@pytest.fixture
def bytes_read(tmp_path, monkeypatch):
    """Bytes read from each input file; pyarrow opens files itself if it is given a path."""
    counts, original = Counter(), builtins.open

    class CountingFile(io.FileIO):
        def _count(self, size):
            counts[Path(self.name).name] += size

        def readinto(self, buffer):
            size = super().readinto(buffer)
            self._count(size)
            return size

        def read(self, size=-1):
            data = super().read(size)
            self._count(len(data))
            return data

        def readall(self):
            data = super().readall()
            self._count(len(data))
            return data

    def counting_open(file, mode="r", buffering=-1, *args, **options):
        if mode == "rb" and isinstance(file, str | Path) and Path(file).parent == tmp_path / "in":
            handle = CountingFile(file)
            return handle if buffering == 0 else io.BufferedReader(handle)
        return original(file, mode, buffering, *args, **options)

    monkeypatch.setattr(builtins, "open", counting_open)
    monkeypatch.setattr(io, "open", counting_open)
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.ParquetFile

    def open_table(source, **options):
        return table(counting_open(source, "rb") if isinstance(source, Path) else source, **options)

    monkeypatch.setattr(parquet, "ParquetFile", open_table)
    return counts


def check_reads(tmp_path, counts, kind, number, times):
    """Each input was read at most ``times`` times, apart from its start; for JSON lines, that is the first line."""
    for path in (tmp_path / "in").iterdir():
        size = path.stat().st_size
        start = size // number + START_BYTES if kind.startswith("jsonl") else START_BYTES
        assert 0 < counts[path.name] <= times * size + start, (path.name, counts[path.name] / size)
    counts.clear()


@pytest.mark.parametrize("number", [1, 2, 5])
@pytest.mark.parametrize("kind", FORMATS)
def test_an_input_is_read_at_most_twice(tmp_path, bytes_read, kind, number):
    make_files(tmp_path / "in", kind, number)
    with pytest.raises(InterruptedError):
        batch(tmp_path, Engine(number - 1)).run()
    bytes_read.clear()
    batch(tmp_path).run()  # some documents are done, but their file is not
    check_reads(tmp_path, bytes_read, kind, number, 2)
    assert documents(tmp_path / "out", kind) == restored(make_texts(number, 0))
    batch(tmp_path).run()  # all is done
    check_reads(tmp_path, bytes_read, kind, number, 1)
    make_files(tmp_path / "in", kind, number, seed=1)
    batch(tmp_path).run()  # the inputs have changed
    check_reads(tmp_path, bytes_read, kind, number, 2)
    assert documents(tmp_path / "out", kind) == restored(make_texts(number, 1))


@pytest.mark.parametrize("kind", FORMATS)
def test_an_output_does_not_mix_two_versions_of_its_input(tmp_path, kind):
    make_files(tmp_path / "in", kind, 2)
    task = batch(tmp_path)
    write = task._write_or_copy

    def write_later(*args):
        make_files(tmp_path / "in", kind, 2, seed=1)
        return write(*args)

    task._write_or_copy = write_later
    totals = task.run()
    assert totals.reasons.keys() == {"the file changed during the run; run the batch again"}
    assert documents(tmp_path / "out", kind)[0] == make_texts(2, 1)[0]
    make_files(tmp_path / "in", kind, 2, seed=0)  # the version that was read first
    assert batch(tmp_path).run().outcomes == {"restored": 2}
    assert documents(tmp_path / "out", kind) == restored(make_texts(2, 0))


@pytest.mark.parametrize(("kind", "total"), [("text", 3), ("parquet", 3), ("jsonl", None), ("tar", None)])
def test_progress_has_no_total_until_it_is_known(tmp_path, kind, total):
    make_files(tmp_path / "in", kind, 3)
    progress = []
    batch(tmp_path, on_progress=lambda *numbers: progress.append(numbers)).run()
    assert progress[0] == (1, total)
    assert progress[-1][0] == 3
    again = []
    batch(tmp_path, on_progress=lambda *numbers: again.append(numbers)).run()
    assert again[-1] == (3, total)


@pytest.mark.parametrize(
    ("name", "data"),
    [("t.jsonl", b"\n \n"), ("t.jsonl.gz", gzip.compress(b"\n", mtime=0)), ("t.tar", bytes(10240)), ("t.tar", None)],
)
def test_inputs_without_documents_are_reported_before_any_work(tmp_path, name, data):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(data or b"")
    if data is None:
        with tarfile.open(tmp_path / "in" / name, "w") as archive:
            info = tarfile.TarInfo("folder")
            info.type = tarfile.DIRTYPE
            archive.addfile(info)
    with pytest.raises(ConservatorError, match="no documents in"):
        batch(tmp_path).run()


def test_a_failed_preparation_stops_the_run(tmp_path):
    make_files(tmp_path / "in", "text", 1)

    def prepare():
        raise ConservatorError("all references are empty")

    with pytest.raises(ConservatorError, match="all references are empty"):
        batch(tmp_path, prepare=prepare).run()
