"""Batches: throughput by workers, beside one process a file; and kills at random moments.

    python benchmarks/batch.py throughput --corpora PATH [--documents 2000] [--size 1000] [--jobs 1 2] [--ray 2]
        [--json FILE]
    python benchmarks/batch.py kills [--kills 200] [--documents 400] [--real] [--engine ray]

Throughput: documents are pieces of README files from ``train``, which has enough of them, of about ``--size`` bytes
each, a tenth of whose bytes are lost. ``conservator batch`` restores all of them with each number of ``--jobs``, then
with so many actors of Ray here, and ``conservator restore`` some of them, one process a file. Seconds are of the clock,
with the start of Python and the loading of experts; CPU seconds, of all processes, and the load of the machine are
given beside them, as other work may share the cores; on a machine with other work, seconds of the clock say little
about workers. The results have to be the same byte for byte. A batch of one document, whose kernels are compiled
already, says how long a batch takes to begin and to end; the seconds of every document are kept, for
``benchmarks/cluster.py``.

Kills: documents with marks, that a stand-in for the experts restores in some milliseconds each, so that most of the
time is spent in what is tested; with ``--real``, the built-in experts restore them. Workers and drivers are killed
(SIGKILL) at random moments, until there have been ``--kills``; a killed driver is started again, and a run that was
done begins anew. What is left must be what an undisturbed run of the local engine writes, and no other file.
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

RATE = 0.1
MARK = "\ufffd"
TABLES = ("overview.html", "summary.csv", "summary.parquet", NAME)


def make_documents(corpora: Path, number: int, size: int, seed: int) -> list[bytes]:
    """Damaged pieces of README files, taken from one after the other."""
    import torch

    from conservator.channels import MaskChannel
    from conservator.vocabularies import BYTES
    from conservator_studies.corpora import read_domain

    texts = read_domain(corpora, "readme", "train").documents
    pieces, place = [], 0
    while len(pieces) < number:
        fresh = [text[place : place + size].decode(errors="ignore").strip().encode() for text in texts]
        pieces += [piece for piece in fresh if len(piece) > size // 2]
        place += size
        if not any(fresh):
            raise SystemExit(f"the corpus has only {len(pieces)} such pieces; --size must be smaller")
    channel, generator = MaskChannel(BYTES.size, RATE), torch.Generator().manual_seed(seed)
    found = []
    for piece in pieces[:number]:
        tokens = channel.corrupt(torch.tensor([list(piece)]), generator).tokens[0].tolist()
        found.append(b"".join(MARK.encode() if one == BYTES.mask else bytes([one]) for one in tokens))
    return found


def timed(command: list[str]) -> tuple[float, float]:
    """The seconds that a command takes, and the CPU seconds of it and its processes."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, spent


def contents(out: Path) -> dict[str, bytes]:
    """The files of a folder of results, but for the tables, in which seconds stand."""
    files = (path for path in out.rglob("*") if path.is_file() and path.name not in TABLES)
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def measure(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Restore the documents in every way."""
    inputs = folder / "in"
    inputs.mkdir()
    for number, data in enumerate(make_documents(options.corpora, options.documents, options.size, options.seed)):
        (inputs / f"{number:05}.md").write_bytes(data)
    conservator, rows, first = [sys.executable, "-m", "conservator"], [], None
    one = str(inputs / "00000.md")
    for name in ("compiled", "alone"):  # kernels are compiled once
        began = timed([*conservator, "batch", one, "--out", str(folder / name), "--jobs", "1", "--lost", "bytes"])
    own = float(document_seconds(folder / "alone"))
    rows.append({"way": "begin and end", "seconds": round(began[0] - own, 2), "cpu_seconds": round(began[1] - own, 2)})
    print(rows[-1], flush=True)
    ways = [("local", jobs) for jobs in options.jobs] + [("ray", jobs) for jobs in options.ray]
    for engine, jobs in ways:
        out = folder / f"{engine}{jobs}"
        command = [*conservator, "batch", str(inputs), "--out", str(out), "--jobs", str(jobs), "--lost", "bytes"]
        seconds, spent = timed([*command, "--engine", engine])
        found = contents(out)
        first = first or found
        if found != first:
            raise SystemExit(f"the results of {engine} with {jobs} jobs are others than those of the first run")
        with sqlite3.connect(out / NAME) as base:
            query = "SELECT sum(seconds), sum(cpu_seconds), max(peak_bytes) FROM documents"
            within, cpu, peak = base.execute(query).fetchone()
        rows.append(describe(f"{engine}, jobs {jobs}", len(found), seconds, spent, within, cpu))
        rows[-1]["most_megabytes_of_a_worker"] = round(peak / 2**20)
        rows[-1]["ledger_bytes"] = (out / NAME).stat().st_size
        print(rows[-1], flush=True)
        rows[-1]["document_seconds"] = document_seconds(out)
    seconds = spent = 0.0
    alone = sorted(inputs.iterdir())[:: max(1, options.documents // options.alone)][: options.alone]
    for path in alone:
        out = folder / "alone.md"
        took = timed(
            [*conservator, "restore", str(path), "-o", str(out), "--force", "--lost", "bytes", "--threads", "1"]
        )
        seconds, spent = seconds + took[0], spent + took[1]
        if first is not None and out.read_bytes() != first[path.name]:
            raise SystemExit("the results differ from those of one process a file")
    rows.append(describe("one process a file", len(alone), seconds, spent, None, None))
    print(rows[-1], flush=True)
    return rows


def document_seconds(out: Path) -> str:
    """The seconds of each document, in the order of their names; a text, so that a record of them can be read."""
    with sqlite3.connect(out / NAME) as base:
        found = base.execute("SELECT seconds FROM places JOIN documents USING (key) ORDER BY name").fetchall()
    return " ".join(f"{one:.3f}" for (one,) in found)


def describe(
    way: str, documents: int, seconds: float, spent: float, within: float | None, cpu: float | None
) -> dict[str, Any]:
    """A row: what was done, and how quickly."""
    return {
        "way": way,
        "documents": documents,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(spent, 2),
        "documents_a_second": round(documents / seconds, 4),
        "documents_a_cpu_second": round(documents / spent, 4),
        "load": round(os.getloadavg()[0], 1),
        "seconds_in_workers": within and round(within, 2),
        "cpu_seconds_in_workers": cpu and round(cpu, 2),
    }


def make_quick(setup: WorkerConfig) -> Callable[[Task], DocumentResult]:
    """A stand-in for a restorer, which takes some milliseconds."""

    def work(task: Task) -> DocumentResult:
        time.sleep(0.02)
        lost = task.data.count(MARK.encode())
        return DocumentResult(
            RESTORED, task.data.replace(MARK.encode(), b"x"), lost=lost, restored=lost, confident=lost
        )

    return work


def drive(inputs: Path, out: Path, *, real: bool, engine: str) -> None:
    """A batch with two workers, which have the built-in experts or the stand-in."""
    out.mkdir(exist_ok=True)
    setup = (
        WorkerConfig(RestoreOptions(lost="bytes"))
        if real
        else WorkerConfig(RestoreOptions(), factory="batch:make_quick")
    )
    workers = LocalEngine(setup, 2) if engine == "local" else RayEngine(setup, 2)
    Batch(Inputs([inputs], out), workers, hash_configuration(setup)).run()


def workers_of(process: int, engine: str) -> list[int]:
    """The workers that a driver has started and that still run."""
    if engine == "ray":
        found = [path.parent for path in Path("/proc").glob("[0-9]*/cmdline")]
        return [int(path.name) for path in found if is_actor(path / "cmdline")]
    try:
        found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        return [int(one) for one in found if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]
    except OSError:
        return []


def is_actor(path: Path) -> bool:
    """Whether the command line of a process is that of an actor of ours."""
    try:
        return path.read_bytes().startswith(b"ray::Worker")
    except OSError:
        return False


def kill_at_random(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Kill workers and drivers, and compare what is left with an undisturbed run."""
    inputs, out, calm = folder / "in", folder / "out", folder / "calm"
    (inputs / "sub").mkdir(parents=True)
    drawn = random.Random(options.seed)
    half = options.documents // 2
    for number in range(half):
        (inputs / "sub" / f"{number:05}.txt").write_text(f"document {number} has l\ufffdst something")
    lines = (json.dumps({"id": number, "text": f"row {number} is d\ufffdmaged"}) for number in range(half))
    (inputs / "rows.jsonl").write_text("\n".join(lines))
    drive(inputs, calm, real=options.real, engine="local")
    how = (["--real"] if options.real else []) + ["--engine", options.engine]
    killed, starts, rounds, allow_invalid_utf8 = {"worker": 0, "driver": 0}, 0, 0, 0
    driver: subprocess.Popen[bytes] | None = None
    while sum(killed.values()) < options.kills:
        if driver is None or driver.poll() is not None:
            if driver is not None and driver.returncode == 0:  # it was done before there were enough kills
                allow_invalid_utf8 += compare(out, calm)
                shutil.rmtree(out)
                rounds += 1
            driver = subprocess.Popen([sys.executable, __file__, "drive", str(inputs), str(out), *how])
            starts += 1
            while (
                drawn.random() < options.later and driver.poll() is None and not workers_of(driver.pid, options.engine)
            ):
                time.sleep(0.01)  # most kills are for those at work, some for those that are just beginning
        time.sleep(drawn.uniform(0.0, options.pause))
        found = workers_of(driver.pid, options.engine)
        whom = drawn.choice(("worker", "driver"))
        victim = drawn.choice(found) if whom == "worker" and found else driver.pid
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            continue
        killed["driver" if victim == driver.pid else "worker"] += 1
        if victim == driver.pid:
            driver.wait()
        if sum(killed.values()) % 20 == 0:
            print(killed, "starts", starts, "rounds", rounds, flush=True)
    if driver is not None:
        driver.wait()
    drive(inputs, out, real=options.real, engine="local")
    allow_invalid_utf8 += compare(out, calm)
    return [{"killed": killed, "starts": starts, "rounds": rounds + 1, "stray_files": allow_invalid_utf8}]


def compare(out: Path, calm: Path) -> int:
    """Check that the results are those of an undisturbed run; return how many other files there are."""
    found, right = contents(out), contents(calm)
    for name, data in right.items():
        if found.get(name) != data:
            raise SystemExit(f"{name} is {'lost' if name not in found else 'another'}")
    with sqlite3.connect(out / NAME) as base:
        (twice,) = base.execute("SELECT count(*) - count(DISTINCT key) FROM documents").fetchone()
        (copied,) = base.execute("SELECT count(*) FROM documents WHERE outcome = 'copied'").fetchone()
    if twice or copied:
        raise SystemExit(f"{twice} documents stand twice in the ledger, {copied} were given up")
    return len(found) - len(right)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ways = parser.add_subparsers(dest="way", required=True)
    one = ways.add_parser("throughput")
    one.add_argument("--corpora", type=Path, required=True, help="the folder with readme.train.jsonl.gz")
    one.add_argument("--size", type=int, default=1000, help="bytes of a document")
    one.add_argument("--jobs", nargs="+", type=int, default=[1, 2])
    one.add_argument("--ray", nargs="*", type=int, default=[], help="numbers of actors of Ray")
    one.add_argument("--alone", type=int, default=5, help="documents that get a process each")
    two = ways.add_parser("kills")
    two.add_argument("--kills", type=int, default=200)
    two.add_argument("--later", type=float, default=0.9995, help="how likely it is to wait 10 ms more for workers")
    two.add_argument("--pause", type=float, default=2.0, help="the longest time between two kills")
    for way, number in ((one, 2000), (two, 400)):
        way.add_argument("--documents", type=int, default=number)
        way.add_argument("--seed", type=int, default=0)
        way.add_argument("--json", type=Path)
    driven = ways.add_parser("drive")
    driven.add_argument("inputs", type=Path)
    driven.add_argument("out", type=Path)
    for way in (two, driven):
        way.add_argument("--real", action="store_true", help="with the built-in experts")
        way.add_argument("--engine", choices=("local", "ray"), default="local")
    options = parser.parse_args()
    if options.way == "drive":
        drive(options.inputs, options.out, real=options.real, engine=options.engine)
        return
    with tempfile.TemporaryDirectory(prefix="conservator.") as folder:
        run = measure if options.way == "throughput" else kill_at_random
        rows = run(options, Path(folder))
    record = {"commit": commit(), "versions": versions(), "seed": options.seed, "cores": os.cpu_count(), "rows": rows}
    print(json.dumps([{key: row[key] for key in row if key != "document_seconds"} for row in rows], indent=2))
    if options.json:
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
