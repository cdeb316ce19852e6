"""Handlers for worker pools that report progress, crash, sleep or fail on command of the task."""

import os
import signal
import sys
import time
from contextlib import closing
from pathlib import Path

from conservator.errors import Advice, ConservatorError, OptionError
from conservator.execution import WorkerPool

FACTORY = "support.pool_stub:make"


def make(config):
    """Make a handler; ``config`` is None, a folder, or the problem of the start-up."""
    if config == "bad":
        raise OptionError("mark", "a bad mark")
    if config == "dead":
        os._exit(7)
    if isinstance(config, Path) and (config / "failures").exists():  # a character for each failure
        failures = (config / "failures").read_text()
        (config / "failures").write_text(failures[1:])
        if failures:
            os._exit(8)

    def handle(task, on_progress):
        name, argument = task if isinstance(task, tuple) else (task, None)
        if name == "environment":
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
            return os.environ["OMP_NUM_THREADS"], os.environ["OMP_WAIT_POLICY"], signal.SIGINT in blocked
        if name == "progress":
            on_progress("first", 0.5)
            on_progress("second", 1.0)
        if name == "hold":  # reporting progress, which raises if the task is stopped
            while True:
                on_progress("holding", 0.0)
                time.sleep(0.005)
        if name == "sleep":
            on_progress("sleeping", 0.0)
            time.sleep(1000)
        if name == "kill":
            with Path(argument).open("a") as log:
                log.write(f"{os.getpid()}\n")
            os.kill(os.getpid(), signal.SIGKILL)
        if name == "kill once" and not Path(argument).exists():
            Path(argument).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if name == "memory":
            allocated = bytearray(300 * 2**20)
            time.sleep(1000)
            return len(allocated)
        if name == "refuse":
            raise ConservatorError("refused", Advice("mark", "_", "helps"))
        if name == "fault":
            raise ZeroDivisionError("a fault")
        return os.getpid()

    handle.information = f"made from {config}"
    return handle


if __name__ == "__main__":  # a parent process to be killed: it writes the process of its worker
    with closing(WorkerPool(FACTORY, None)) as pool:
        print(pool.submit("process").result(), flush=True)
        pool.submit(sys.argv[1]).result()
