"""Batches: throughput by number of workers, compared with one process per file; and kills at random times.

    python benchmarks/batch.py throughput --corpora PATH [--documents 2000] [--size 1000] [--jobs 1 2] [--ray 2]
        [--alone 5] [--json FILE]
    python benchmarks/batch.py kills [--kills 200] [--documents 400] [--real] [--engine ray]

Throughput: documents are pieces of README files from ``train`` of about ``--size`` bytes; a tenth of their bytes is
lost. ``conservator batch`` restores all of them with each number of ``--jobs``, then with each number of ``--ray``
actors on this machine. ``conservator restore`` restores ``--alone`` of them, one process per file. Wall-clock seconds
include the start of Python and the loading of experts. CPU seconds of all processes and the load of the machine are
also reported, because wall-clock seconds mean little on a machine with other work. All results must be equal byte for
byte. A batch of one document, with compiled kernels, measures the time to start and to end a batch. The seconds of
every document are recorded for ``benchmarks/cluster.py``.

Kills: a stub restores each document in 20 ms, so that most of the time is spent in the tested code; with ``--real``,
the built-in experts restore them. Workers and drivers are killed (SIGKILL) at random times, ``--kills`` times in all. A
killed driver is restarted, and a finished run is started from the beginning. The output must equal the output of an
undisturbed run with the local engine, without additional files.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conservator.batch import (
    Batch,
    DocumentResult,
    Inputs,
    LocalEngine,
    RayEngine,
    Task,
    WorkerConfig,
    hash_configuration,
)
from conservator.batch.engine import RESTORED
from conservator.batch.ledger import NAME
from conservator.evaluation.provenance import commit, versions
from conservator.options import RestoreOptions
from conservator.system.files import write_atomically

RATE = 0.1  # probability that a byte is lost
MARK = "\ufffd"
SUMMARY_FILES = ("overview.html", "summary.csv", "summary.parquet", NAME)


def make_documents(corpora: Path, number: int, size: int, seed: int) -> list[bytes]:
    """Cut README files into pieces and damage them; the first pieces of all files come first."""
    import torch

    from conservator.channels import MaskChannel
    from conservator.vocabularies import BYTES
    from conservator_studies.corpora import read_domain

    texts = read_domain(corpora, "readme", "train").documents
    pieces: list[bytes] = []
    offset = 0
    while len(pieces) < number:
        candidates = [text[offset : offset + size].decode(errors="ignore").strip().encode() for text in texts]
        pieces += [piece for piece in candidates if len(piece) > size // 2]
        offset += size
        if not any(candidates):
            raise SystemExit(f"expected {number} pieces, the corpus has {len(pieces)}; use a smaller --size")
    channel, generator = MaskChannel(BYTES.size, RATE), torch.Generator().manual_seed(seed)
    documents = []
    for piece in pieces[:number]:
        tokens = channel.corrupt(torch.tensor([list(piece)]), generator).tokens[0].tolist()
        documents.append(b"".join(MARK.encode() if token == BYTES.mask else bytes([token]) for token in tokens))
    return documents


def timed(command: list[str]) -> tuple[float, float]:
    """Run a command; return its wall-clock seconds and the CPU seconds of all its processes."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, cpu_seconds


def contents(out: Path) -> dict[str, bytes]:
    """Read the files of an output folder, except those that contain timings."""
    files = (path for path in out.rglob("*") if path.is_file() and path.name not in SUMMARY_FILES)
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def measure(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Restore the documents with every method."""
    inputs = folder / "in"
    inputs.mkdir()
    for number, data in enumerate(make_documents(options.corpora, options.documents, options.size, options.seed)):
        (inputs / f"{number:05}.md").write_bytes(data)
    conservator = [sys.executable, "-m", "conservator"]
    rows: list[dict[str, Any]] = []
    expected: dict[str, bytes] | None = None
    first_document = str(inputs / "00000.md")
    for name in ("compiled", "alone"):  # the first run compiles the kernels
        arguments = [first_document, "--out", str(folder / name), "--jobs", "1", "--lost", "bytes"]
        seconds, cpu_seconds = timed([*conservator, "batch", *arguments])
    restoring = float(document_seconds(folder / "alone"))
    overhead = {"seconds": round(seconds - restoring, 2), "cpu_seconds": round(cpu_seconds - restoring, 2)}
    rows.append({"way": "begin and end", **overhead})
    print(rows[-1], flush=True)
    runs = [("local", jobs) for jobs in options.jobs] + [("ray", jobs) for jobs in options.ray]
    for engine, jobs in runs:
        out = folder / f"{engine}{jobs}"
        command = [*conservator, "batch", str(inputs), "--out", str(out), "--jobs", str(jobs), "--lost", "bytes"]
        seconds, cpu_seconds = timed([*command, "--engine", engine])
        files = contents(out)
        expected = expected or files
        if files != expected:
            raise SystemExit(f"the results of {engine} with {jobs} jobs differ from those of the first run")
        with sqlite3.connect(out / NAME) as ledger:
            query = "SELECT sum(seconds), sum(cpu_seconds), max(peak_bytes) FROM documents"
            worker_seconds, worker_cpu_seconds, peak = ledger.execute(query).fetchone()
        method = f"{engine}, jobs {jobs}"
        rows.append(describe(method, len(files), seconds, cpu_seconds, worker_seconds, worker_cpu_seconds))
        rows[-1]["most_megabytes_of_a_worker"] = round(peak / 2**20)
        rows[-1]["ledger_bytes"] = (out / NAME).stat().st_size
        print(rows[-1], flush=True)
        rows[-1]["document_seconds"] = document_seconds(out)
    seconds = cpu_seconds = 0.0
    sample = sorted(inputs.iterdir())[:: max(1, options.documents // options.alone)][: options.alone]
    for path in sample:
        out = folder / "alone.md"
        elapsed = timed(
            [*conservator, "restore", str(path), "-o", str(out), "--force", "--lost", "bytes", "--threads", "1"]
        )
        seconds, cpu_seconds = seconds + elapsed[0], cpu_seconds + elapsed[1]
        if expected is not None and out.read_bytes() != expected[path.name]:
            raise SystemExit(f"{path.name}: the result of a process of its own differs from that of the batch")
    rows.append(describe("one process a file", len(sample), seconds, cpu_seconds, None, None))
    print(rows[-1], flush=True)
    return rows


def document_seconds(out: Path) -> str:
    """Return the seconds of each document, ordered by name, as one string: JSON puts it on a single line."""
    with sqlite3.connect(out / NAME) as ledger:
        rows = ledger.execute("SELECT seconds FROM places JOIN documents USING (key) ORDER BY name").fetchall()
    return " ".join(f"{seconds:.3f}" for (seconds,) in rows)


def describe(
    method: str,
    documents: int,
    seconds: float,
    cpu_seconds: float,
    worker_seconds: float | None,
    worker_cpu_seconds: float | None,
) -> dict[str, Any]:
    """Make the row of a method."""
    return {
        "way": method,
        "documents": documents,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu_seconds, 2),
        "documents_a_second": round(documents / seconds, 4),
        "documents_a_cpu_second": round(documents / cpu_seconds, 4),
        "load": round(os.getloadavg()[0], 1),
        "seconds_in_workers": worker_seconds and round(worker_seconds, 2),
        "cpu_seconds_in_workers": worker_cpu_seconds and round(worker_cpu_seconds, 2),
    }


def make_stub(config: WorkerConfig) -> Callable[[Task, object], DocumentResult]:
    """Make a stub of a restorer that takes 20 ms per document."""

    def work(task: Task, on_progress: object) -> DocumentResult:
        time.sleep(0.02)
        lost = task.data.count(MARK.encode())
        return DocumentResult(
            RESTORED, task.data.replace(MARK.encode(), b"x"), lost=lost, restored=lost, confident=lost
        )

    return work


def drive(inputs: Path, out: Path, *, real: bool, engine: str) -> None:
    """Run a batch with two workers, with the built-in experts or the stub."""
    out.mkdir(exist_ok=True)
    config = (
        WorkerConfig(RestoreOptions(lost="bytes"))
        if real
        else WorkerConfig(RestoreOptions(), factory="batch:make_stub")
    )
    workers = LocalEngine(config, 2) if engine == "local" else RayEngine(config, 2)
    Batch(Inputs([inputs], out), workers, hash_configuration(config)).run()


def workers_of(process: int, engine: str) -> list[int]:
    """List the running workers of a driver."""
    if engine == "ray":
        return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if is_actor(path)]
    try:
        threads = Path(f"/proc/{process}/task").glob("*/children")  # every worker was started by a thread of its own
        children = [child for path in threads for child in path.read_text().split()]
        return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]
    except OSError:
        return []


def is_actor(path: Path) -> bool:
    """Return whether a process is a Ray actor of Conservator, by its command line."""
    try:
        return path.read_bytes().startswith(b"ray::TaskRunner")
    except OSError:
        return False


def kill_at_random(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Kill workers and drivers, and compare the output with that of an undisturbed run."""
    inputs, out, undisturbed = folder / "in", folder / "out", folder / "undisturbed"
    (inputs / "sub").mkdir(parents=True)
    generator = random.Random(options.seed)
    half = options.documents // 2
    for number in range(half):
        (inputs / "sub" / f"{number:05}.txt").write_text(f"document {number} has l\ufffdst something")
    lines = (json.dumps({"id": number, "text": f"row {number} is d\ufffdmaged"}) for number in range(half))
    (inputs / "rows.jsonl").write_text("\n".join(lines))
    drive(inputs, undisturbed, real=options.real, engine="local")
    arguments = (["--real"] if options.real else []) + ["--engine", options.engine]
    killed, starts, runs, stray_files = {"worker": 0, "driver": 0}, 0, 0, 0
    driver: subprocess.Popen[bytes] | None = None
    while sum(killed.values()) < options.kills:
        if driver is None or driver.poll() is not None:
            if driver is not None and driver.returncode == 0:  # the run finished before enough kills
                stray_files += compare(out, undisturbed)
                shutil.rmtree(out)
                runs += 1
            driver = subprocess.Popen([sys.executable, __file__, "drive", str(inputs), str(out), *arguments])
            starts += 1
            while (
                generator.random() < options.later
                and driver.poll() is None
                and not workers_of(driver.pid, options.engine)
            ):
                time.sleep(0.01)  # most kills hit running workers, some hit a starting driver
        time.sleep(generator.uniform(0.0, options.pause))
        workers = workers_of(driver.pid, options.engine)
        target = generator.choice(("worker", "driver"))
        victim = generator.choice(workers) if target == "worker" and workers else driver.pid
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            continue
        killed["driver" if victim == driver.pid else "worker"] += 1
        if victim == driver.pid:
            driver.wait()
        if sum(killed.values()) % 20 == 0:
            print(killed, "starts", starts, "runs", runs, flush=True)
    if driver is not None:
        driver.wait()
    drive(inputs, out, real=options.real, engine="local")
    stray_files += compare(out, undisturbed)
    return [{"killed": killed, "starts": starts, "runs": runs + 1, "stray_files": stray_files}]


def compare(out: Path, undisturbed: Path) -> int:
    """Check that the output equals that of an undisturbed run; return the number of additional files."""
    files, expected = contents(out), contents(undisturbed)
    for name, data in expected.items():
        if files.get(name) != data:
            raise SystemExit(f"{name} is missing" if name not in files else f"{name} differs")
    with sqlite3.connect(out / NAME) as ledger:
        (duplicates,) = ledger.execute("SELECT count(*) - count(DISTINCT key) FROM documents").fetchone()
        (copied,) = ledger.execute("SELECT count(*) FROM documents WHERE outcome = 'copied'").fetchone()
    if duplicates or copied:
        raise SystemExit(f"{duplicates} documents are twice in the ledger, {copied} were copied without restoration")
    return len(files) - len(expected)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    throughput = commands.add_parser("throughput")
    throughput.add_argument("--corpora", type=Path, required=True, help="folder with readme.train.jsonl.gz")
    throughput.add_argument("--size", type=int, default=1000, help="bytes per document")
    throughput.add_argument("--jobs", nargs="+", type=int, default=[1, 2], help="numbers of local workers")
    throughput.add_argument("--ray", nargs="*", type=int, default=[], help="numbers of Ray actors")
    throughput.add_argument("--alone", type=int, default=5, help="documents restored in a process of their own")
    kills = commands.add_parser("kills")
    kills.add_argument("--kills", type=int, default=200, help="number of kills")
    kills.add_argument("--later", type=float, default=0.9995, help="probability to wait 10 ms more for workers")
    kills.add_argument("--pause", type=float, default=2.0, help="maximum seconds between two kills")
    for command, documents in ((throughput, 2000), (kills, 400)):
        command.add_argument("--documents", type=int, default=documents, help="number of documents")
        command.add_argument("--seed", type=int, default=0)
        command.add_argument("--json", type=Path)
    driver = commands.add_parser("drive", help="internal: run one batch")
    driver.add_argument("inputs", type=Path)
    driver.add_argument("out", type=Path)
    for command in (kills, driver):
        command.add_argument("--real", action="store_true", help="use the built-in experts")
        command.add_argument("--engine", choices=("local", "ray"), default="local")
    options = parser.parse_args()
    if options.command == "drive":
        drive(options.inputs, options.out, real=options.real, engine=options.engine)
        return
    with tempfile.TemporaryDirectory(prefix="conservator.") as folder:
        run = measure if options.command == "throughput" else kill_at_random
        rows = run(options, Path(folder))
    record = {"commit": commit(), "versions": versions(), "seed": options.seed, "cores": os.cpu_count(), "rows": rows}
    print(json.dumps([{key: row[key] for key in row if key != "document_seconds"} for row in rows], indent=2))
    if options.json:
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
