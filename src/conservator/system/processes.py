"""Processes that work for this one: they share no threads with it, do not hear Ctrl-C, and end when it ends."""

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

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
# A spawned process inherits os.environ, which multiprocessing cannot replace for one child: one is started at a time.
STARTING = threading.Lock()


class Problem(NamedTuple):
    """A ConservatorError as it is sent from one process to another."""

    option: str | None
    problem: str
    advice: tuple[Advice, ...]

    @classmethod
    def of(cls, error: ConservatorError) -> "Problem":
        """What an error says."""
        return cls(error.option if isinstance(error, OptionError) else None, error.problem, error.advice)

    def throw(self) -> NoReturn:
        """Raise the error here."""
        if self.option is not None:
            raise OptionError(self.option, self.problem)
        raise ConservatorError(self.problem, *self.advice)


@dataclass
class Worker:
    """A process that works for this one, and the pipe to it."""

    process: BaseProcess
    connection: Connection

    @classmethod
    def start(cls, serve: Callable[..., None], *given: Any, threads: int = 1) -> "Worker":
        """Start a process that calls ``serve(connection, *given)``, and computes with so many threads."""
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_begin, args=(serve, theirs, *given), daemon=True)
        with STARTING, _for_children(threads):
            process.start()
        theirs.close()
        return cls(process, ours)

    def end(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.join()
        self.connection.close()

    @property
    def how_it_ended(self) -> str:
        """How a process has ended, in words."""
        code = self.process.exitcode
        if code is not None and code < 0:
            with suppress(ValueError):
                return f"ended by {signal.Signals(-code).name}"
        return f"exit code {code}"


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def find_factory(name: str) -> Any:
    """The function that ``module:function`` names."""
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)


def _begin(serve: Callable[..., None], connection: Connection, *given: Any) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the parent has closed the pipe
        serve(connection, *given)


def _end_with_parent() -> None:
    """End this process at once when its parent has ended, however it did, and whatever is being computed."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _for_children(threads: int) -> Iterator[None]:
    """While a process is started: so many threads for it, and Ctrl-C is not for it but for this one.

    This changes os.environ for the whole process, so STARTING must be held.
    """
    wanted = {**dict.fromkeys(THREADS, str(threads)), "OMP_WAIT_POLICY": "PASSIVE"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    resource_tracker.ensure_running()  # a process of Python's own; starting it would let Ctrl-C through again
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
