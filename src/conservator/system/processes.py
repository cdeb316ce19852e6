"""Worker processes: spawned, with SIGINT blocked, and killed with their parent."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple, NoReturn

from conservator.errors import Advice, ConservatorError, OptionError

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
# A spawned process inherits os.environ, which multiprocessing cannot set per child: processes start one at a time.
START_LOCK = threading.Lock()


class Problem(NamedTuple):
    """A ConservatorError in the form that is sent between processes."""

    option: str | None
    problem: str
    advice: tuple[Advice, ...]

    @classmethod
    def of(cls, error: ConservatorError) -> "Problem":
        """Convert an error."""
        return cls(error.option if isinstance(error, OptionError) else None, error.problem, error.advice)

    def throw(self) -> NoReturn:
        """Raise the error in this process."""
        if self.option is not None:
            raise OptionError(self.option, self.problem)
        raise ConservatorError(self.problem, *self.advice)


@dataclass
class Worker:
    """A worker process and the pipe to it."""

    process: BaseProcess
    connection: Connection

    @classmethod
    def start(cls, serve: Callable[..., None], *arguments: Any, threads: int = 1) -> "Worker":
        """Start a process that calls ``serve(connection, *arguments)`` and uses ``threads`` threads."""
        context = get_context("spawn")
        parent_end, child_end = context.Pipe()
        process = context.Process(target=_run, args=(serve, child_end, *arguments), daemon=True)
        with START_LOCK, _child_environment(threads):
            process.start()
        child_end.close()
        return cls(process, parent_end)

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.join()
        self.connection.close()

    @property
    def exit_description(self) -> str:
        """Description of the exit of the process."""
        code = self.process.exitcode
        if code is not None and code < 0:
            with suppress(ValueError):
                return f"ended by {signal.Signals(-code).name}"
        return f"exit code {code}"


def available_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def find_factory(name: str) -> Any:
    """Return the function with the name ``module:function``."""
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)


def _run(serve: Callable[..., None], connection: Connection, *arguments: Any) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the parent has closed the pipe
        serve(connection, *arguments)


def _end_with_parent() -> None:
    """Exit immediately when the parent process ends."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _child_environment(threads: int) -> Iterator[None]:
    """Set the number of threads in the environment, and block SIGINT, while a process is started.

    This changes os.environ for the whole process, so START_LOCK must be held.
    """
    variables = {**dict.fromkeys(THREAD_VARIABLES, str(threads)), "OMP_WAIT_POLICY": "PASSIVE"}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    resource_tracker.ensure_running()  # starting this helper process later would unblock SIGINT
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]) if hasattr(signal, "pthread_sigmask") else None
    try:
        yield
    finally:
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
