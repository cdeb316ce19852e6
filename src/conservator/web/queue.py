"""The queue of restorations that wait for a worker; its size and the time of a restoration are limited."""

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from conservator.errors import ConservatorError
from conservator.execution import ClosedError, CrashError, TimeLimitError, WorkerPool
from conservator.web.config import ServerConfig
from conservator.web.requests import RefusedError, RestoreRequest
from conservator.web.worker import ExpertInfo

Update = dict[str, Any]  # the position in the queue, or the stage and the fraction of it that is done
OnUpdate = Callable[[Update], None]
STOPPING = "the server is stopping"
FACTORY = "conservator.web.worker:Responder"


@dataclass(frozen=True)
class QueueConfig:
    """Timeouts of workers.

    A worker is killed ``(1 + overtime_factor) * max_seconds + overtime_seconds`` after the start of a request.
    """

    cancel_seconds: float = 1.0  # seconds: time in which a worker must stop a cancelled request [untuned]
    overtime_factor: float = 0.25  # fraction of max_seconds: time beyond the limit before a worker is killed [untuned]
    overtime_seconds: float = 5.0  # seconds: time beyond the limit before a worker is killed [untuned]
    initial_duration: float = 1.0  # seconds: assumed duration of a restoration before the first [untuned]
    duration_smoothing: float = 0.2  # weight: new duration in the moving average of durations [untuned]
    max_retry_seconds: int = 60  # seconds: largest Retry-After [untuned]


CONFIG = QueueConfig()


class RestorationQueue(AbstractContextManager["RestorationQueue"]):
    """A pool of workers, and the queue of requests that wait for one. Leaving the ``with`` block ends all workers.

    Attributes:
        pool: the workers.
        expert_info: experts that requests can select.
        running: number of running restorations.
        queue: future turn and update callback of each waiting request.
        mean_seconds: moving average of the duration of a restoration.
        retry_times: times at which refused clients were told to try again.
        is_closed: whether the server is stopping.
    """

    def __init__(self, config: ServerConfig) -> None:
        """Start the workers, and wait until they are ready."""
        self.config, self.running, self.is_closed = config, 0, False
        self.queue: deque[tuple[asyncio.Future[None], OnUpdate]] = deque()
        self.mean_seconds = CONFIG.initial_duration
        self.retry_times: list[float] = []
        self.pool = WorkerPool(
            FACTORY,
            config,
            config.workers,
            config.threads,
            time_limit=(1 + CONFIG.overtime_factor) * config.max_seconds + CONFIG.overtime_seconds,
            stop_seconds=CONFIG.cancel_seconds,
            max_crashes=1,
        )
        try:
            self.expert_info: ExpertInfo = self.pool.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        """End the workers."""
        self.close()

    def close(self) -> None:
        """End all workers, and refuse all waiting requests."""
        self.is_closed = True
        self.pool.close()
        while self.queue:
            turn, _ = self.queue.popleft()
            if not turn.done():
                turn.set_exception(RefusedError(503, STOPPING))

    async def stream(self, request: RestoreRequest) -> AsyncGenerator[Update | bytes, None]:
        """Yield the position in the queue whenever it changes, then progress updates, then the response.

        Closing the generator cancels the restoration; its worker is free as soon as it has stopped.
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
        """Wait for a worker, and run a request there."""
        loop = asyncio.get_running_loop()

        def on_progress(stage: str, fraction: float) -> None:
            loop.call_soon_threadsafe(on_update, {"doing": stage, "share": round(fraction, 4)})

        async with self._wait_for_turn(on_update):
            start_time = time.monotonic()
            try:
                call = self.pool.submit(request, on_progress)
                work = asyncio.wrap_future(call)
                response: bytes | RefusedError = await asyncio.shield(work)
            except asyncio.CancelledError:
                call.stop()
                await asyncio.wait([work])  # the turn ends when the worker is free
                if not work.cancelled():
                    work.exception()
                raise
            except TimeLimitError:
                limit = f"{self.config.max_seconds:g} s"
                raise RefusedError(504, f"the restoration took longer than {limit}, which is the limit") from None
            except CrashError as error:
                raise RefusedError(500, f"the worker process died during the restoration: {error}") from None
            except ClosedError:
                raise RefusedError(503, STOPPING) from None
            except (ConservatorError, OSError) as error:  # no worker could be started
                raise RefusedError(503, str(error)) from error
            if isinstance(response, RefusedError):
                raise response
            self.mean_seconds += CONFIG.duration_smoothing * (time.monotonic() - start_time - self.mean_seconds)
            return response

    @asynccontextmanager
    async def _wait_for_turn(self, on_update: OnUpdate) -> AsyncIterator[None]:
        """Wait for a worker, which is reserved during the ``with`` block; refuse the request if the queue is full."""
        if self.is_closed:
            raise RefusedError(503, STOPPING)
        if self.running == self.config.workers and len(self.queue) >= self.config.queue_size:
            count, retry_after = self.running + len(self.queue), self._retry_after()
            message = f"{count} restorations are running or waiting, which is the limit; try again in {retry_after} s"
            raise RefusedError(429, message, retry_after=retry_after)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.queue.append((turn, on_update))
        self._dispatch()
        try:
            await turn
            yield
        finally:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.running -= 1
            else:
                self.queue = deque(entry for entry in self.queue if entry[0] is not turn)
            self._dispatch()

    def _retry_after(self) -> int:
        """Return after how many seconds a worker is expected; different clients get different times."""
        now = time.monotonic()
        self.retry_times = [retry_time for retry_time in self.retry_times if retry_time > now]
        position = len(self.queue) + len(self.retry_times) + 1
        expected = math.ceil(self.mean_seconds * position / self.config.workers)
        retry_after = min(CONFIG.max_retry_seconds, max(1, expected))
        self.retry_times.append(now + retry_after)
        return retry_after

    def _dispatch(self) -> None:
        """Let the first requests of the queue run if workers are free, and report their positions to the others."""
        while self.queue and self.running < self.config.workers:
            turn, _ = self.queue.popleft()
            if not turn.done():
                self.running += 1
                turn.set_result(None)
        for position, (_, on_update) in enumerate(self.queue, 1):
            on_update({"doing": "waiting", "place": position})
