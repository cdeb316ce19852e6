"""Worker processes: spawned, with SIGINT blocked, and killed with their parent.

A message is a pair of its kind and a value. The pool sends TASK with a task, and STOP during a task. The worker sends
READY with the information of its handler, or ERROR if the configuration is invalid; then, for each task, any number of
PROGRESS and finally RESULT or ERROR.
"""

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import psutil

from conservator.errors import ConservatorError

TASK, STOP, READY, PROGRESS, RESULT, ERROR = "task", "stop", "ready", "progress", "result", "error"
STOPPED = "the task was stopped"
Message = tuple[str, Any]
OnProgress = Callable[[str, float], None]  # called with the stage and the fraction of it that is done
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
PROGRESS_SECONDS = 0.1  # seconds: interval of progress reports within a stage [untuned]
# A spawned process inherits os.environ, which multiprocessing cannot set per child: processes start one at a time.
# multiprocessing checks for exited processes whenever it starts one, so they are also reaped under this lock.
PROCESS_LOCK = threading.Lock()


class TaskError(Exception):
    """A task was not finished; the message states why."""


class StoppedError(BaseException):
    """The pool asks to stop the task. Handlers do not catch it, as they may catch ``Exception``."""


@dataclass(eq=False)
class Worker:
    """A worker process and the pipe to it."""

    process: BaseProcess
    connection: Connection

    @classmethod
    def start(cls, factory: str, config: Any, threads: int = 1) -> "Worker":
        """Start a process that calls the handler of ``factory`` for each task and uses ``threads`` threads."""
        context = get_context("spawn")
        parent_end, child_end = context.Pipe()
        process = context.Process(target=_run, args=(child_end, factory, config), daemon=True)
        with PROCESS_LOCK, _child_environment(threads):
            process.start()
        child_end.close()
        return cls(process, parent_end)

    def send(self, kind: str, value: Any = None) -> None:
        """Send a message; raise an EOFError if the worker has exited."""
        try:
            self.connection.send((kind, value))
        except OSError:
            raise EOFError from None

    def receive(self, timeout: float) -> Message | None:
        """Return the next message, or None after ``timeout`` seconds; raise an EOFError if the worker has exited."""
        try:
            return self.connection.recv() if self.connection.poll(timeout) else None
        except OSError:
            raise EOFError from None

    def memory(self) -> int:
        """Memory of the process in bytes."""
        return memory_of(self.process.pid or 0)

    def kill(self) -> None:
        """Kill the process; may be called in any thread."""
        with PROCESS_LOCK:
            self.process.kill()

    def end(self) -> str:
        """Kill the process if it runs, wait for its exit, and describe the exit."""
        self.kill()
        wait([self.process.sentinel])
        with PROCESS_LOCK:
            self.process.join()
        self.connection.close()
        code = self.process.exitcode
        if code is not None and code < 0:
            with suppress(ValueError):
                return f"ended by {signal.Signals(-code).name}"
        return f"exit code {code}"


class TaskRunner:
    """Calls the handler of a factory, and returns messages.

    The handler is called with a task and a progress callback, and returns the result. It may have an attribute
    ``information``, which is sent when it is ready, and a method ``warm_up``, which is called after that.
    """

    def __init__(self, factory: str, config: Any) -> None:
        """Store the arguments; ``start`` makes the handler."""
        self.factory, self.config = factory, config

    def start(self) -> Message:
        """Make the handler."""
        try:
            self.handler = find_factory(self.factory)(self.config)
        except ConservatorError as error:
            return ERROR, error
        return READY, getattr(self.handler, "information", None)

    def run(self, task: Any, on_progress: OnProgress = lambda stage, fraction: None) -> Message:
        """Call the handler."""
        try:
            return RESULT, self.handler(task, on_progress)
        except StoppedError:
            return ERROR, TaskError(STOPPED)
        except ConservatorError as error:
            return ERROR, error
        except Exception as error:  # a defect must not end the worker
            traceback.print_exc()
            return ERROR, RuntimeError(f"{type(error).__name__}: {error}")


def find_factory(name: str) -> Any:
    """Return the function with the name ``module:function``."""
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)


def memory_of(process: int) -> int:
    """Memory of a process in bytes; 0 if it has ended."""
    with suppress(psutil.Error):
        return int(psutil.Process(process).memory_info().rss)
    return 0


def _run(connection: Connection, factory: str, config: Any) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the parent has closed the pipe
        _serve(connection, TaskRunner(factory, config))


def _serve(connection: Connection, runner: TaskRunner) -> None:
    """Run tasks until the connection is closed."""
    last_stage, last_time = "", 0.0

    def on_progress(stage: str, fraction: float) -> None:
        nonlocal last_stage, last_time
        if connection.poll():
            raise StoppedError
        now = time.monotonic()
        if stage != last_stage or now - last_time >= PROGRESS_SECONDS:
            last_stage, last_time = stage, now
            connection.send((PROGRESS, (stage, fraction)))

    message = runner.start()
    connection.send(message)
    if message[0] == ERROR:
        return
    getattr(runner.handler, "warm_up", lambda: None)()
    while True:
        kind, task = connection.recv()
        if kind == TASK:  # STOP: the task has ended by now
            last_stage = ""
            connection.send(runner.run(task, on_progress))


def _end_with_parent() -> None:
    """Exit immediately when the parent process ends."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _child_environment(threads: int) -> Iterator[None]:
    """Set the number of threads in the environment, and block SIGINT, while a process is started.

    This changes os.environ for the whole process, so PROCESS_LOCK must be held.
    """
    variables = thread_environment(threads)
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


def thread_environment(threads: int) -> dict[str, str]:
    """Return the environment variables of a worker with ``threads`` threads."""
    return {**dict.fromkeys(THREAD_VARIABLES, str(threads)), "OMP_WAIT_POLICY": "PASSIVE"}
