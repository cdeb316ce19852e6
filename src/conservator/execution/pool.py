"""A pool of workers: progress, cancellation, time and memory limits, crashes, and replacement of workers."""

import math
import threading
import time
from collections.abc import Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from itertools import islice
from queue import SimpleQueue
from typing import Any, Protocol, Self

from conservator.errors import ConservatorError
from conservator.execution.worker import (
    ERROR,
    PROGRESS,
    RESULT,
    STOP,
    STOPPED,
    TASK,
    Message,
    OnProgress,
    TaskError,
    Worker,
    WorkerExitError,
)

MAX_CRASHES = 3  # crashes: workers that may crash on one task; one or two may be accidental [safety limit]
MAX_STARTUP_FAILURES = 5  # workers: give up after this many start-up failures in a row [safety limit]
POLL_SECONDS = 0.1  # seconds: interval between two checks of limits and cancellation [untuned]


class TimeLimitError(TaskError):
    """A task exceeded the time limit."""


class CrashError(TaskError):
    """A task crashed too many workers; the message describes the exit of the last one."""


class ClosedError(TaskError):
    """The pool was closed."""


class StartupError(ConservatorError):
    """A worker exited during start-up.

    Attributes:
        cause: description of the exit.
    """

    def __init__(self, cause: str) -> None:
        """Store the cause."""
        super().__init__(f"the worker process could not start: {cause}")
        self.cause = cause


class Call(Future[Any]):
    """A submitted task and its future result. The future can be cancelled before the task is started.

    Attributes:
        task: the task.
        on_progress: called in another thread with the stage and the fraction of it that is done.
        seconds: time of the last attempt, when the call is done.
        crashes: number of workers that crashed on the task.
        was_returned: whether its worker had exited before it received the task.
        is_stopped: whether ``stop`` was called.
    """

    def __init__(self, task: Any, on_progress: OnProgress | None = None) -> None:
        """Store the arguments."""
        super().__init__()
        self.task, self.on_progress = task, on_progress
        self.seconds, self.crashes, self.was_returned, self.is_stopped = 0.0, 0, False, False

    def stop(self) -> None:
        """Stop the task; the call is done when its worker has stopped or was killed."""
        self.is_stopped = True
        self.cancel()


class PoolWorker(Protocol):
    """A worker of a pool: a process (``Worker``) or a Ray actor."""

    def send(self, kind: str, value: Any = None) -> None:
        """Send a message."""

    def receive(self, timeout: float) -> Message | None:
        """Return the next message, or None after ``timeout`` seconds."""

    def is_alive(self) -> bool:
        """Whether it has not exited."""

    def memory(self) -> int:
        """Memory in bytes; 0 if it is unknown."""

    def kill(self) -> None:
        """Kill it; may be called in any thread."""

    def end(self) -> str:
        """Kill it if it runs, wait for its exit, and describe the exit."""


@dataclass
class WorkerPool:
    """Processes that each handle one task at a time. Leaving the ``with`` block ends them.

    A worker that exits, exceeds a limit or does not stop is replaced. Each worker has a thread, which starts it, sends
    it tasks and checks the limits.

    Attributes:
        factory: ``module:function``; the function takes ``config`` and returns the handler of tasks (``TaskRunner``).
        config: the configuration of the workers; it can be pickled.
        workers: maximum number of workers.
        threads: number of threads of a worker.
        time_limit: time limit for a task, in seconds; None for no limit.
        memory_limit: memory limit for a worker, in bytes; None for no limit.
        stop_seconds: time in which a worker must stop a task before it is killed.
        max_crashes: number of workers that may crash on a task.
        max_startup_failures: number of workers in a row that may exit during start-up.
    """

    factory: str
    config: Any
    workers: int = 1
    threads: int = 1
    time_limit: float | None = None
    memory_limit: float | None = None
    stop_seconds: float = 1.0
    max_crashes: int = MAX_CRASHES
    max_startup_failures: int = MAX_STARTUP_FAILURES
    _calls: SimpleQueue[Call | None] = field(default_factory=SimpleQueue, init=False)
    _threads: list[threading.Thread] = field(default_factory=list, init=False)
    _live: list[PoolWorker] = field(default_factory=list, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)  # for the following, and for _live
    _is_closed: bool = field(default=False, init=False)
    _startup_failures: int = field(default=0, init=False)

    def __enter__(self) -> Self:
        """Return the pool."""
        return self

    def __exit__(self, *_: object) -> None:
        """End all workers."""
        self.close()

    @property
    def live_workers(self) -> tuple[PoolWorker, ...]:
        """The workers that were started and have not been ended."""
        with self._lock:
            return tuple(self._live)

    def start(self) -> Any:
        """Start all workers, wait until they are ready, and return the information of a handler."""
        information = None
        for ready in [self._start_thread() for _ in range(self.workers)]:
            information = ready.result()
        return information

    def submit(self, task: Any, on_progress: OnProgress | None = None) -> Call:
        """Queue a task. The call fails with a TaskError, or with the error of the handler or of the start-up."""
        if self._is_closed:
            raise ClosedError("the pool is closed")
        call = Call(task, on_progress)
        self._calls.put(call)
        if len(self._threads) < self.workers:
            self._start_thread()
        return call

    def run(self, tasks: Iterable[Any]) -> Generator[Call, None, None]:
        """Yield the call of each task when it is done, in any order.

        Tasks are taken in the thread of the caller: one for each worker, and one ahead.
        """
        source, pending = iter(tasks), set[Call]()
        while True:
            pending.update(self.submit(task) for task in islice(source, 2 * self.workers - len(pending)))
            if not pending:
                return
            wait(pending, return_when=FIRST_COMPLETED)
            done = {call for call in pending if call.done()}
            pending -= done
            yield from done

    def close(self) -> None:
        """End all workers; calls that are not done fail with a ClosedError."""
        with self._lock:
            self._is_closed = True
            for worker in self._live:
                worker.kill()
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join()
        self._calls.put(None)
        self._take()

    def start_worker(self) -> PoolWorker:
        """Start a worker; ``receive`` returns whether it is ready."""
        return Worker.start(self.factory, self.config, self.threads)

    def _start_thread(self) -> Future[Any]:
        """Start a thread with a worker; return the information of its handler."""
        ready: Future[Any] = Future()
        self._threads.append(threading.Thread(target=self._serve, args=(ready,), daemon=True))
        self._threads[-1].start()
        return ready

    def _serve(self, ready: Future[Any]) -> None:
        """Run tasks until the pool is closed, with a worker that is replaced if necessary."""
        worker: PoolWorker | None = None
        while True:
            error: Exception | None = None
            if worker is None:
                try:
                    worker, information = self._start_ready_worker()
                    if not ready.done():
                        ready.set_result(information)
                except Exception as startup_error:
                    error = startup_error
                    if not ready.done():
                        ready.set_exception(error)
            call = self._take()
            if call is None:
                break
            if worker is None:  # the next task starts another attempt
                call.set_exception(error)
            elif not worker.is_alive() and not call.was_returned:
                call.was_returned = True
                self._calls.put(call)
                self._end(worker)
                worker = None
            elif not self._run(worker, call):
                worker = None
        if worker is not None:
            self._end(worker)

    def _take(self) -> Call | None:
        """Return the next call, or None if the pool is closed."""
        while (call := self._calls.get()) is not None:
            if call.running() or call.set_running_or_notify_cancel():
                if not self._is_closed:
                    return call
                call.set_exception(ClosedError("the pool was closed"))
        return None

    def _start_ready_worker(self) -> tuple[PoolWorker, Any]:
        """Start a worker and wait until it is ready; return it and the information of its handler."""
        while True:
            worker = self.start_worker()
            with self._lock:
                self._live.append(worker)
            try:
                message = None
                while message is None and not self._is_closed:
                    message = worker.receive(POLL_SECONDS)
                if message is None:
                    raise ClosedError("the pool was closed")
                if message[0] == ERROR:
                    raise message[1]
                self._startup_failures = 0
                return worker, message[1]
            except WorkerExitError:
                cause = self._end(worker)
                with self._lock:
                    self._startup_failures += 1
                    if self._startup_failures >= self.max_startup_failures or self._is_closed:
                        raise StartupError(cause) from None
            except BaseException:
                self._end(worker)
                raise

    def _run(self, worker: PoolWorker, call: Call) -> bool:
        """Run a task; return whether the worker can run another one, and end it otherwise."""
        start_time = time.monotonic()
        try:
            kind, value = self._exchange(worker, call)
            call.seconds = time.monotonic() - start_time
            (call.set_result if kind == RESULT else call.set_exception)(value)
            return True
        except WorkerExitError:
            cause = self._end(worker)
            call.crashes += 1
            if self._is_closed:
                error: Exception = ClosedError("the pool was closed")
            elif call.is_stopped or call.crashes >= self.max_crashes:
                error = CrashError(cause)
            else:
                self._calls.put(call)
                return False
        except Exception as other:  # a limit, or a defect of a callback or of a message
            self._end(worker)
            error = other
        call.seconds = time.monotonic() - start_time
        call.set_exception(error)
        return False

    def _exchange(self, worker: PoolWorker, call: Call) -> Message:
        """Send a task, and return the last message about it."""
        deadline = time.monotonic() + (math.inf if self.time_limit is None else self.time_limit)
        is_stopped = False
        worker.send(TASK, call.task)
        while True:
            message = worker.receive(POLL_SECONDS)
            if message is not None and message[0] != PROGRESS:
                return message
            if message is not None and call.on_progress is not None:
                call.on_progress(*message[1])
            if call.is_stopped and not is_stopped:
                worker.send(STOP)
                deadline, is_stopped = min(deadline, time.monotonic() + self.stop_seconds), True
            if time.monotonic() > deadline:
                raise (
                    TaskError(STOPPED)
                    if is_stopped
                    else TimeLimitError(f"took longer than the time limit of {self.time_limit:g} s")
                )
            if self.memory_limit is not None and worker.memory() > self.memory_limit:
                raise TaskError(f"used more memory than the limit of {self.memory_limit / 2**20:g} MB")

    def _end(self, worker: PoolWorker) -> str:
        """End a worker, and describe its exit."""
        with self._lock:
            self._live.remove(worker)
        return worker.end()
