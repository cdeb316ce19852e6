"""Restorations in threads: a few run at a time, a few more wait, none runs for longer than allowed."""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from anyio import to_thread

from conservator.experts import Progress
from conservator.restoration import Restoration
from conservator.restorer import Restorer
from conservator.web.settings import Settings

Update = tuple[str, float] | Restoration


class BusyError(Exception):
    """Too many restorations wait already."""


class TooSlowError(Exception):
    """A restoration took longer than is allowed."""


class StoppedError(Exception):
    """The client does not wait for the result any more."""


class Jobs:
    """The restorations that run or wait."""

    def __init__(self, settings: Settings) -> None:
        """Begin with none."""
        self.settings = settings
        self.admitted = 0
        self.slots = asyncio.Semaphore(settings.running)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a free slot and hold it during the ``with`` block; raise BusyError if too many wait already."""
        if self.admitted >= self.settings.running + self.settings.waiting:
            raise BusyError(f"{self.admitted} restorations are running or waiting, as many as are allowed; try later")
        self.admitted += 1
        try:
            async with self.slots:
                yield
        finally:
            self.admitted -= 1

    async def run(
        self, restorer: Restorer, document: str | bytes, tell: Progress, options: dict[str, Any]
    ) -> Restoration:
        """Restore a document in a thread; ``tell`` is called in that thread."""
        async with self.place():
            deadline, stopped = time.monotonic() + self.settings.max_seconds, threading.Event()

            def progress(doing: str, share: float) -> None:
                if stopped.is_set():
                    raise StoppedError
                if time.monotonic() > deadline:
                    raise TooSlowError(
                        f"it took longer than {self.settings.max_seconds:g} s, the longest that is allowed"
                    )
                tell(doing, share)

            work = asyncio.ensure_future(
                to_thread.run_sync(partial(restorer.restore, document, progress=progress, **options))
            )
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                stopped.set()
                await asyncio.wait([work])  # the slot is free when the thread has ended
                work.exception()
                raise

    async def stream(
        self, restorer: Restorer, document: str | bytes, options: dict[str, Any]
    ) -> AsyncGenerator[Update, None]:
        """Yield the stage and its share that is done, again and again, then the restoration.

        The restoration is stopped if the generator is closed.
        """
        loop = asyncio.get_running_loop()
        updates: asyncio.Queue[tuple[str, float] | None] = asyncio.Queue()

        def tell(doing: str, share: float) -> None:
            loop.call_soon_threadsafe(updates.put_nowait, (doing, share))

        task = asyncio.create_task(self.run(restorer, document, tell, options))
        task.add_done_callback(lambda _: updates.put_nowait(None))
        try:
            while (one := await updates.get()) is not None:
                yield one
            yield await task
        finally:
            task.cancel()
