"""A pool of workers: progress, cancellation, time and memory limits, crashes, and replacement of workers."""

import math
import threading
import time
from collections.abc import Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from itertools import islice
from queue import SimpleQueue
from typing import Any

from conservator.errors import ConservatorError
from conservator.execution.worker import ERROR, PROGRESS, RESULT, STOP, STOPPED, TASK, OnProgress, TaskError, Worker

MAX_CRASHES = 3  # crashes: workers that may crash on one task; one or two may be accidental [safety limit]
MAX_STARTUP_FAILURES = 5  # workers: give up after this many start-up failures in a row [safety limit]
POLL_SECONDS = 0.1  # seconds: interval between two checks of limits and cancellation [untuned]


class TimeLimitError(TaskError):
    """A task exceeded the time limit."""


class CrashError(TaskError):
    """A task crashed too many workers; the message describes the exit of the last one."""


class ClosedError(TaskError):
    """The pool was closed."""


class Call(Future[Any]):
    """A submitted task and its future result. The future can be cancelled before the task is started.

    Attributes:
        task: the task.
        on_progress: called in another thread with the stage and the fraction of it that is done.
        start_time: when the last attempt was started, by ``time.monotonic``.
        crashes: number of workers that crashed on the task.
        is_stopped: whether ``stop`` was called.
    """

    def __init__(self, task: Any, on_progress: OnProgress = lambda stage, fraction: None) -> None:
        """Store the arguments."""
        super().__init__()
        self.task, self.on_progress = task, on_progress
        self.start_time, self.crashes, self.is_stopped = 0.0, 0, False

    def stop(self) -> None:
        """Stop the task; the call is done when its worker has stopped or was killed."""
        self.is_stopped = True
        self.cancel()


@dataclass
class WorkerPool:
    """Processes that each handle one task at a time; ``close`` ends them.

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
    """

    factory: str
    config: Any
    workers: int = 1
    threads: int = 1
    time_limit: float | None = None
    memory_limit: float | None = None
    stop_seconds: float = 1.0
    max_crashes: int = MAX_CRASHES
    _calls: SimpleQueue[Call | None] = field(default_factory=SimpleQueue, init=False)
    _threads: list[threading.Thread] = field(default_factory=list, init=False)
    _live: list[Worker] = field(default_factory=list, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)  # for _live and the following
    _is_closed: bool = field(default=False, init=False)
    _startup_failures: int = field(default=0, init=False)

    def start(self) -> Any:
        """Start all workers, wait until they are ready, and return the information of a handler."""
        information = None
        for ready in [self._start_thread() for _ in range(self.workers)]:
            information = ready.result()
        return information

    def submit(self, task: Any, on_progress: OnProgress = lambda stage, fraction: None) -> Call:
        """Queue a task. The call fails with a TaskError, or with the error of the handler or of the start-up."""
        if self._is_closed:
            raise ClosedError
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

    def start_worker(self) -> Worker:
        """Start a worker; ``receive`` returns whether it is ready."""
        return Worker.start(self.factory, self.config, self.threads)

    def _start_thread(self) -> Future[Any]:
        """Start a thread with a worker; return the information of its handler."""
        ready: Future[Any] = Future()
        self._threads.append(threading.Thread(target=self._serve, args=(ready,), daemon=True))
        self._threads[-1].start()
        return ready

    def _serve(self, ready: Future[Any]) -> None:
        """Run tasks until the pool is closed; the worker is replaced if necessary."""
        while not self._is_closed:
            worker, call = None, None
            try:
                worker = self.start_worker()
                with self._lock:
                    self._live.append(worker)
                information = self._wait_until_ready(worker)
                if not ready.done():
                    ready.set_result(information)
                while (call := self._take()) is not None:
                    self._run(worker, call)
                self._end(worker)
            except Exception as exception:
                error = self._error_of(exception, call, "" if worker is None else self._end(worker))
                if error is not None:
                    if call is None and not ready.done():
                        ready.set_exception(error)
                    call = call or self._take()  # a failed start-up fails the next call, which starts another attempt
                    if call is not None:
                        call.set_exception(error)

    def _take(self) -> Call | None:
        """Return the next call, or None if the pool is closed."""
        while (call := self._calls.get()) is not None:
            if call.running() or call.set_running_or_notify_cancel():
                if not self._is_closed:
                    return call
                call.set_exception(ClosedError())
        return None

    def _wait_until_ready(self, worker: Worker) -> Any:
        """Wait until a worker is ready; return the information of its handler."""
        while not self._is_closed:
            message = worker.receive(POLL_SECONDS)
            if message is not None:
                if message[0] == ERROR:
                    raise message[1]
                self._startup_failures = 0
                return message[1]
        raise ClosedError

    def _run(self, worker: Worker, call: Call) -> None:
        """Run a task; raise an error if the worker must be replaced, an EOFError if it exited."""
        call.start_time, is_stopped = time.monotonic(), False
        deadline = call.start_time + (math.inf if self.time_limit is None else self.time_limit)
        try:
            worker.send(TASK, call.task)
        except EOFError:
            call.crashes -= 1  # the worker exited before this task
            raise
        while True:
            message = worker.receive(POLL_SECONDS)
            if message is not None:
                kind, value = message
                if kind != PROGRESS:
                    return call.set_result(value) if kind == RESULT else call.set_exception(value)
                call.on_progress(*value)
            if call.is_stopped and not is_stopped:
                worker.send(STOP)
                deadline, is_stopped = min(deadline, time.monotonic() + self.stop_seconds), True
            if time.monotonic() > deadline and is_stopped:
                raise TaskError(STOPPED)
            if time.monotonic() > deadline:
                raise TimeLimitError(f"took longer than the time limit of {self.time_limit:g} s")
            if self.memory_limit is not None and worker.memory() > self.memory_limit:
                raise TaskError(f"used more memory than the limit of {self.memory_limit / 2**20:g} MB")

    def _error_of(self, exception: Exception, call: Call | None, exit_description: str) -> Exception | None:
        """Return the error of a call, or of a start-up without one; None if it is tried again."""
        with self._lock:
            if self._is_closed:
                return ClosedError()
            if not isinstance(exception, EOFError):
                return exception
            if call is None:
                self._startup_failures += 1
                if self._startup_failures < MAX_STARTUP_FAILURES:
                    return None
                problem = f"{MAX_STARTUP_FAILURES} workers in a row stopped during start-up ({exit_description})"
                return ConservatorError(f"{problem}; fewer workers need less memory")
            call.crashes += 1
            if call.is_stopped or call.crashes >= self.max_crashes:
                return CrashError(exit_description)
            self._calls.put(call)
            return None

    def _end(self, worker: Worker) -> str:
        """End a worker, and describe its exit."""
        with self._lock:
            self._live.remove(worker)
        return worker.end()
