"""Restorations in worker processes, with a queue of limited size and a time limit."""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

from conservator.errors import ConservatorError
from conservator.system.processes import Problem, Worker
from conservator.web.config import ServerConfig
from conservator.web.requests import RefusedError, RestoreRequest
from conservator.web.worker import ExpertInfo, run_worker

Update = dict[str, Any]  # the position in the queue, or the stage and the fraction of it that is done
OnUpdate = Callable[[Update], None]
STOPPING = "the server is stopping"


@dataclass(frozen=True)
class QueueConfig:
    """Timeouts of workers.

    A worker is killed ``(1 + overtime_factor) * max_seconds + overtime_seconds`` after the start of a request.
    """

    cancel_seconds: float = 1.0  # seconds: time in which a worker must stop a cancelled request [untuned]
    overtime_factor: float = 0.25  # fraction of max_seconds: time beyond the limit before a worker is killed [untuned]
    overtime_seconds: float = 5.0  # seconds: time beyond the limit before a worker is killed [untuned]
    poll_seconds: float = 0.05  # seconds: interval of the checks for cancellation [untuned]
    initial_duration: float = 1.0  # seconds: assumed duration of a restoration before the first [untuned]
    duration_smoothing: float = 0.2  # weight: new duration in the moving average of durations [untuned]
    max_retry_seconds: int = 60  # seconds: largest Retry-After [untuned]


CONFIG = QueueConfig()


class Slot:
    """One worker process; it is restarted if it dies or must be killed.

    Attributes:
        expert_info: experts of the worker.
        is_closed: whether the server is stopping.
    """

    def __init__(self, config: ServerConfig) -> None:
        """Start a worker; call ``wait`` until it is ready."""
        self.config, self.is_closed = config, False
        self.expert_info: ExpertInfo = []
        self._start()

    def _start(self) -> None:
        self._worker = Worker.start(run_worker, self.config, threads=self.config.threads)

    def wait(self) -> None:
        """Wait until the worker is ready; raise a ConservatorError if it cannot start."""
        try:
            message = self._worker.connection.recv()
        except (EOFError, OSError):
            self._worker.process.join()
            raise ConservatorError(f"the worker process could not start: {self._worker.exit_description}") from None
        if isinstance(message, Problem):
            message.throw()
        self.expert_info = message

    def close(self) -> None:
        """End the worker for good."""
        self.is_closed = True
        self._worker.end()

    def run(self, request: RestoreRequest, on_update: OnUpdate, cancelled: threading.Event) -> bytes:
        """Return the response to a request; runs in a thread, and calls ``on_update`` in this thread."""
        try:
            if not self._worker.process.is_alive():
                self._replace()
            return self._exchange(request, on_update, cancelled)
        except (EOFError, OSError):  # the worker has died
            self._worker.process.join()
            how = self._worker.exit_description
            self._replace()
            raise RefusedError(500, f"the worker process died during the restoration: {how}") from None

    def _exchange(self, request: RestoreRequest, on_update: OnUpdate, cancelled: threading.Event) -> bytes:
        connection, limit = self._worker.connection, self.config.max_seconds
        deadline = time.monotonic() + (1 + CONFIG.overtime_factor) * limit + CONFIG.overtime_seconds
        is_cancelled = False
        connection.send(request)
        while True:
            message = connection.recv() if connection.poll(CONFIG.poll_seconds) else None
            if isinstance(message, bytes):
                return message
            if isinstance(message, RefusedError):
                raise message
            if message is not None:
                on_update({"doing": message[0], "share": round(message[1], 4)})
            if cancelled.is_set() and not is_cancelled:
                connection.send(None)
                deadline, is_cancelled = min(deadline, time.monotonic() + CONFIG.cancel_seconds), True
            if time.monotonic() > deadline:
                self._replace()
                raise RefusedError(504, f"the restoration took longer than {limit:g} s, which is the limit")

    def _replace(self) -> None:
        """Kill the worker, start another one, and wait until it is ready."""
        if self.is_closed:
            raise RefusedError(503, STOPPING)
        self._worker.end()
        self._start()
        try:
            self.wait()
        except ConservatorError as error:
            raise RefusedError(503, str(error)) from error


class RestorationQueue:
    """Slots, and the queue of requests that wait for one. Leaving the ``with`` block ends all workers.

    Attributes:
        slots: all slots.
        free_slots: slots without a request.
        queue: future slot and update callback of each waiting request.
        mean_seconds: moving average of the duration of a restoration.
        retry_times: times at which refused clients were told to try again.
        is_closed: whether the server is stopping.
    """

    def __init__(self, config: ServerConfig) -> None:
        """Start the workers, and wait until they are ready."""
        self.config = config
        self.slots = [Slot(config) for _ in range(config.workers)]
        self.free_slots = list(self.slots)
        self.queue: deque[tuple[asyncio.Future[Slot], OnUpdate]] = deque()
        self.threads = ThreadPoolExecutor(config.workers)
        self.mean_seconds = CONFIG.initial_duration
        self.retry_times: list[float] = []
        self.is_closed = False
        try:
            for slot in self.slots:
                slot.wait()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Return the queue; its workers are ready."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the workers."""
        self.close()

    @property
    def expert_info(self) -> ExpertInfo:
        """Experts that requests can select."""
        return self.slots[0].expert_info

    @property
    def running(self) -> int:
        """Number of running restorations."""
        return len(self.slots) - len(self.free_slots)

    def close(self) -> None:
        """End all workers, and refuse all waiting requests."""
        self.is_closed = True
        for slot in self.slots:
            slot.close()
        while self.queue:
            future, _ = self.queue.popleft()
            if not future.done():
                future.set_exception(RefusedError(503, STOPPING))
        self.threads.shutdown(wait=False)

    async def stream(self, request: RestoreRequest) -> AsyncGenerator[Update | bytes, None]:
        """Yield the position in the queue whenever it changes, then progress updates, then the response.

        Closing the generator cancels the restoration; its slot is free as soon as the worker has stopped.
        """
        updates: asyncio.Queue[Update | None] = asyncio.Queue()
        task = asyncio.create_task(self._run(request, updates.put_nowait))
        task.add_done_callback(lambda _: updates.put_nowait(None))
        try:
            while (update := await updates.get()) is not None:
                yield update
            yield await task
        finally:
            task.cancel()

    async def _run(self, request: RestoreRequest, on_update: OnUpdate) -> bytes:
        """Wait for a slot, and run a request there, in a thread."""
        loop, cancelled = asyncio.get_running_loop(), threading.Event()

        def on_update_in_thread(update: Update) -> None:
            loop.call_soon_threadsafe(on_update, update)

        async with self._acquire(on_update) as slot:
            began = time.monotonic()
            work = loop.run_in_executor(self.threads, slot.run, request, on_update_in_thread, cancelled)
            try:
                response = await asyncio.shield(work)
            except asyncio.CancelledError:
                cancelled.set()
                await asyncio.wait([work])  # the slot is free when the thread has ended
                work.exception()
                raise
            self.mean_seconds += CONFIG.duration_smoothing * (time.monotonic() - began - self.mean_seconds)
            return response

    @asynccontextmanager
    async def _acquire(self, on_update: OnUpdate) -> AsyncIterator[Slot]:
        """Wait for a slot, and hold it during the ``with`` block; refuse the request if the queue is full."""
        if self.is_closed:
            raise RefusedError(503, STOPPING)
        if not self.free_slots and len(self.queue) >= self.config.queue_size:
            count, retry_after = self.running + len(self.queue), self._retry_after()
            message = f"{count} restorations are running or waiting, which is the limit; try again in {retry_after} s"
            raise RefusedError(429, message, retry_after=retry_after)
        future: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        self.queue.append((future, on_update))
        self._dispatch()
        try:
            slot = await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():  # a slot was assigned at the same time
                self._release(future.result())
            else:
                self.queue = deque(entry for entry in self.queue if entry[0] is not future)
                self._dispatch()
            raise
        try:
            yield slot
        finally:
            self._release(slot)

    def _retry_after(self) -> int:
        """Return after how many seconds a slot is expected; different clients get different times."""
        now = time.monotonic()
        self.retry_times = [retry_time for retry_time in self.retry_times if retry_time > now]
        position = len(self.queue) + len(self.retry_times) + 1
        expected = math.ceil(self.mean_seconds * position / len(self.slots))
        retry_after = min(CONFIG.max_retry_seconds, max(1, expected))
        self.retry_times.append(now + retry_after)
        return retry_after

    def _release(self, slot: Slot) -> None:
        self.free_slots.append(slot)
        self._dispatch()

    def _dispatch(self) -> None:
        """Assign free slots to the first requests of the queue, and report their positions to the others."""
        while self.free_slots and self.queue:
            future, _ = self.queue.popleft()
            if not future.done():
                future.set_result(self.free_slots.pop())
        for position, (_, on_update) in enumerate(self.queue, 1):
            on_update({"doing": "waiting", "place": position})
