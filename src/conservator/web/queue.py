"""The queue of restorations that wait for a worker; its size and the time of a restoration are limited."""

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from conservator.errors import ConservatorError
from conservator.execution import Call, ClosedError, CrashError, TimeLimitError, WorkerPool
from conservator.web.config import ServerConfig
from conservator.web.requests import RefusedError, RestoreRequest
from conservator.web.worker import ExpertInfo

Update = dict[str, Any]  # the position in the queue, or the stage and the fraction of it that is done
OnUpdate = Callable[[Update], None]
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
    """A pool of workers that serve requests in order. Leaving the ``with`` block ends all workers.

    Attributes:
        pool: the workers.
        expert_info: experts that requests can select.
        calls: running and waiting requests with their update callbacks, in order; the first ``workers`` are running.
        mean_seconds: moving average of the duration of a restoration.
        retry_times: times at which refused clients were told to try again.
    """

    def __init__(self, config: ServerConfig) -> None:
        """Start the workers, and wait until they are ready."""
        self.config, self.mean_seconds = config, CONFIG.initial_duration
        self.calls: dict[Call, OnUpdate] = {}
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
        """End all workers, and refuse all running and waiting requests."""
        self.pool.close()

    @property
    def running(self) -> int:
        """Number of running restorations."""
        return min(len(self.calls), self.config.workers)

    @property
    def waiting(self) -> int:
        """Number of restorations that wait for a worker."""
        return len(self.calls) - self.running

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
        """Run a request in the pool; refuse it if too many are waiting."""
        loop = asyncio.get_running_loop()

        def on_progress(stage: str, fraction: float) -> None:
            loop.call_soon_threadsafe(on_update, {"doing": stage, "share": round(fraction, 4)})

        if len(self.calls) >= self.config.workers + self.config.queue_size:
            retry_after = self._retry_after()
            message = (
                f"{len(self.calls)} restorations are running or waiting, which is the limit; try again in "
                f"{retry_after} s"
            )
            raise RefusedError(429, message, retry_after=retry_after)
        try:
            call = self.pool.submit(request, on_progress)
            response = await self._result(call, on_update)
        except TimeLimitError:
            limit = f"{self.config.max_seconds:g} s"
            raise RefusedError(504, f"the restoration took longer than {limit}, which is the limit") from None
        except CrashError as error:
            raise RefusedError(500, f"the worker process died during the restoration: {error}") from None
        except ClosedError:
            raise RefusedError(503, "the server is stopping") from None
        except (ConservatorError, OSError) as error:  # no worker could be started
            raise RefusedError(503, str(error)) from error
        if isinstance(response, RefusedError):
            raise response
        self.mean_seconds += CONFIG.duration_smoothing * (time.monotonic() - call.start_time - self.mean_seconds)
        return response

    async def _result(self, call: Call, on_update: OnUpdate) -> bytes | RefusedError:
        """Wait for the result of a call; if that is cancelled, stop the call and wait until its worker is free."""
        work: asyncio.Future[bytes | RefusedError] = asyncio.wrap_future(call)
        self.calls[call] = on_update
        self._report_positions()
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            call.stop()
            await asyncio.wait([work])
            if not work.cancelled():
                work.exception()
            raise
        finally:
            del self.calls[call]
            self._report_positions()

    def _retry_after(self) -> int:
        """Return after how many seconds a worker is expected; different clients get different times."""
        now = time.monotonic()
        self.retry_times = [retry_time for retry_time in self.retry_times if retry_time > now]
        position = self.waiting + len(self.retry_times) + 1
        expected = math.ceil(self.mean_seconds * position / self.config.workers)
        retry_after = min(CONFIG.max_retry_seconds, max(1, expected))
        self.retry_times.append(now + retry_after)
        return retry_after

    def _report_positions(self) -> None:
        """Tell the waiting requests their positions."""
        for position, on_update in enumerate(islice(self.calls.values(), self.config.workers, None), 1):
            on_update({"doing": "waiting", "place": position})
