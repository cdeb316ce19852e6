"""Restorations in threads: a few at a time, a few more waiting, none for longer than allowed."""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from anyio import to_thread

from conservator.documents.restored import Restoration
from conservator.restoration import restore
from conservator.web.settings import Settings

Tell = Callable[[str, float], None]
News = tuple[str, float] | Restoration


class BusyError(Exception):
    """Too many restorations wait already."""


class TooSlowError(Exception):
    """A restoration took longer than is allowed."""


class StoppedError(Exception):
    """Nobody waits for the result any more."""


class Workshop:
    """Where restorations are made."""

    def __init__(self, settings: Settings) -> None:
        """Open it, with nothing to do."""
        self.settings = settings
        self.admitted = 0
        self.slots = asyncio.Semaphore(settings.running)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place to work, when it is free; raises BusyError where too many wait for one."""
        if self.admitted >= self.settings.running + self.settings.waiting:
            raise BusyError(f"{self.admitted} restorations are running or waiting, as many as are allowed; try later")
        self.admitted += 1
        try:
            async with self.slots:
                yield
        finally:
            self.admitted -= 1

    async def restore(self, document: str | bytes, tell: Tell, **chosen: Any) -> Restoration:
        """Restore a document in a thread; ``tell`` is called in it."""
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

            work = asyncio.ensure_future(to_thread.run_sync(partial(restore, document, progress=progress, **chosen)))
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                stopped.set()
                await asyncio.wait([work])  # the place is free when the thread is
                work.exception()
                raise

    async def stream(self, document: str | bytes, **chosen: Any) -> AsyncGenerator[News, None]:
        """What is being done and which share of it is, then the restoration; ends early if nobody listens."""
        loop = asyncio.get_running_loop()
        news: asyncio.Queue[tuple[str, float] | None] = asyncio.Queue()

        def tell(doing: str, share: float) -> None:
            loop.call_soon_threadsafe(news.put_nowait, (doing, share))

        task = asyncio.create_task(self.restore(document, tell, **chosen))
        task.add_done_callback(lambda _: news.put_nowait(None))
        try:
            while (one := await news.get()) is not None:
                yield one
            yield await task
        finally:
            task.cancel()
