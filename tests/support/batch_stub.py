"""A stub worker for batches, which crashes, sleeps or fails on command of the document; and a driver to be killed."""

import os
import signal
import sys
import time
from pathlib import Path

from conservator.batch import Batch, Inputs, LocalEngine, WorkerConfig
from conservator.batch.engine import COPIED, RESTORED, UNDAMAGED, DocumentResult
from conservator.options import RestoreOptions

MARK = "\ufffd".encode()
LOG = "BATCH_LOG"  # environment variable: a file that gets a line for each processed document


def make(config):
    """Make a worker that replaces each mark by a letter, which depends on the seed."""
    if config.options.mark == "bad":
        from conservator.errors import OptionError

        raise OptionError("mark", "a bad mark")
    if config.options.mark == "dead":
        os._exit(7)

    def work(task, on_progress):
        letter = bytes([ord("a") + config.options.seed % 26])
        if log := os.environ.get(LOG):
            with Path(log).open("a") as handle:
                handle.write(f"{os.getpid()} {task.data[:40]!r}\n")
        time.sleep(float(os.environ.get("BATCH_SECONDS", "0")))
        if b"KILL" in task.data:
            os.kill(os.getpid(), signal.SIGKILL)
        if b"SLEEP" in task.data:
            time.sleep(1000)
        if b"MEMORY" in task.data:
            allocated = bytearray(400 * 2**20)
            time.sleep(1000)
            return DocumentResult(RESTORED, bytes(allocated))
        if b"BINARY" in task.data:
            return DocumentResult(COPIED, reason="binary data", binary=True)
        if b"REFUSED" in task.data:
            return DocumentResult(COPIED, reason="refused")
        if b"CONVERTED" in task.data:
            return DocumentResult(RESTORED, b"\xc3\xa4", "no place for it", encoding="windows-1252", written="utf-8")
        if b"NOTICED" in task.data:
            return DocumentResult(UNDAMAGED, notices={"unknown_language": "no model covers it"})
        lost = task.data.count(MARK)
        if not lost:
            return DocumentResult(UNDAMAGED)
        restored = task.data.replace(MARK, letter)
        return DocumentResult(
            RESTORED, restored, lost=lost, restored=lost, confident=lost, expected_accuracy=0.5, weights={"stub": 1.0}
        )

    return work


class InlineEngine:
    """An engine in this process, for tests that do not concern the workers: a worker process takes seconds to start."""

    def __init__(self, config):
        self.config = config

    def run(self, tasks):
        work = None
        for task in tasks:
            work = work or make(self.config)
            yield task.number, work(task, lambda *progress: None)


def batch(
    inputs, out, jobs=None, seed=0, mark="\ufffd", time_limit=None, memory_limit=None, config_hash="one", **others
):
    """Make a batch with stub workers, in this process if ``jobs`` is None."""
    out.mkdir(exist_ok=True)
    worker_config = WorkerConfig(RestoreOptions(seed=seed, mark=mark), factory="support.batch_stub:make")
    local = jobs is not None
    engine = LocalEngine(worker_config, jobs, time_limit, memory_limit) if local else InlineEngine(worker_config)
    input_options = {name: others.pop(name) for name in ("include", "ignore", "max_bytes") if name in others}
    paths = [inputs] if isinstance(inputs, Path) else inputs
    limits = f"{time_limit} {memory_limit}"
    return Batch(Inputs(paths, out, **input_options), engine, f"{config_hash} {seed}", limits, **others)


if __name__ == "__main__":
    totals = batch(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])).run()
    sys.exit(4 if totals.copied else 0)
