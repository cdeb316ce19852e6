"""Restorations in processes: so many run at a time, so many more wait in a line, none takes longer than allowed."""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Self

from conservator.errors import ConservatorError
from conservator.system.processes import Problem, Worker
from conservator.web.config import ServerConfig
from conservator.web.requests import RefusedError, RestoreRequest
from conservator.web.worker import Offered, serve

Update = dict[str, Any]  # what is being done and which share of it is done, or the place in the line
GRACE = 1.0  # seconds that a process has to stop when it is asked to; then it is ended
LATE = 0.25  # a process must have said what it reached by so much more than the time limit,
MARGIN = 5.0  # and so many seconds
TICK = 0.05  # seconds between two looks whether somebody still waits
LONGEST = 60  # seconds after which somebody who was refused is told to come again, at most
STOPPING = "the server is stopping"


class Slot:
    """A place where one document at a time is restored, in a process; if that has to be ended, another takes its seat.

    Attributes:
        offered: the experts that the process has.
        is_closed: whether the server is stopping.
    """

    def __init__(self, settings: ServerConfig) -> None:
        """Start a process; ``wait`` until it is ready."""
        self.settings, self.is_closed = settings, False
        self.offered: Offered = []
        self._start()

    def _start(self) -> None:
        self._worker = Worker.start(serve, self.settings, threads=self.settings.threads)

    def wait(self) -> None:
        """Wait until the process is ready; raise a ConservatorError if it cannot be."""
        try:
            said = self._worker.connection.recv()
        except (EOFError, OSError):
            self._worker.process.join()
            how = self._worker.exit_description
            raise ConservatorError(f"the process that restores could not start: {how}") from None
        if isinstance(said, Problem):
            said.throw()
        self.offered = said

    def close(self) -> None:
        """End the process for good."""
        self.is_closed = True
        self._worker.end()

    def ask(self, request: RestoreRequest, tell: Callable[[Update], None], stopped: threading.Event) -> bytes:
        """The answer to a request. It is called in a thread, and so is ``tell``; ``stopped`` ends the work."""
        try:
            if not self._worker.process.is_alive():
                self._replace()
            return self._converse(request, tell, stopped)
        except (EOFError, OSError):  # the process is gone
            self._worker.process.join()
            how = self._worker.exit_description
            self._replace()
            raise RefusedError(500, f"the process that restored it is gone: {how}") from None

    def _converse(self, request: RestoreRequest, tell: Callable[[Update], None], stopped: threading.Event) -> bytes:
        connection, limit = self._worker.connection, self.settings.max_seconds
        deadline, is_asked = time.monotonic() + (1 + LATE) * limit + MARGIN, False
        connection.send(request)
        while True:
            said = connection.recv() if connection.poll(TICK) else None
            if isinstance(said, bytes):
                return said
            if isinstance(said, RefusedError):
                raise said
            if said is not None:
                tell({"doing": said[0], "share": round(said[1], 4)})
            if stopped.is_set() and not is_asked:
                connection.send(None)
                deadline, is_asked = min(deadline, time.monotonic() + GRACE), True
            if time.monotonic() > deadline:
                self._replace()
                raise RefusedError(504, f"it took longer than {limit:g} s, the longest that is allowed")

    def _replace(self) -> None:
        """End the process, and wait for another."""
        if self.is_closed:
            raise RefusedError(503, STOPPING)
        self._worker.end()
        self._start()
        try:
            self.wait()
        except ConservatorError as error:
            raise RefusedError(503, str(error)) from error


class RestorationQueue:
    """The seats, and the line of those who wait for one. Used in a ``with`` block, at whose end all processes end."""

    def __init__(self, settings: ServerConfig) -> None:
        """Start the processes, and wait until they are ready."""
        self.settings = settings
        self.seats = [Slot(settings) for _ in range(settings.running)]
        self.free = list(self.seats)
        self.line: deque[tuple[asyncio.Future[Slot], Callable[[Update], None]]] = deque()
        self.threads = ThreadPoolExecutor(settings.running)
        self.seconds = 1.0  # that a restoration took lately
        self.sent_away: list[float] = []  # when those who were refused were told to come again
        self.is_closed = False
        try:
            for seat in self.seats:
                seat.wait()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """The processes are ready."""
        return self

    def __exit__(self, *_: object) -> None:
        """End them."""
        self.close()

    @property
    def offered(self) -> Offered:
        """The experts that requests choose among."""
        return self.seats[0].offered

    @property
    def running(self) -> int:
        """How many restorations run."""
        return len(self.seats) - len(self.free)

    def close(self) -> None:
        """End all processes, and send everybody away."""
        self.is_closed = True
        for seat in self.seats:
            seat.close()
        while self.line:
            ticket, _ = self.line.popleft()
            if not ticket.done():
                ticket.set_exception(RefusedError(503, STOPPING))
        self.threads.shutdown(wait=False)

    async def stream(self, request: RestoreRequest) -> AsyncGenerator[Update | bytes, None]:
        """Yield the place in the line when it changes, then what is being done, again and again, then the answer.

        The restoration is stopped if the generator is closed, and its place is free as soon as it has stopped.
        """
        updates: asyncio.Queue[Update | None] = asyncio.Queue()
        task = asyncio.create_task(self._run(request, updates.put_nowait))
        task.add_done_callback(lambda _: updates.put_nowait(None))
        try:
            while (one := await updates.get()) is not None:
                yield one
            yield await task
        finally:
            task.cancel()

    async def _run(self, request: RestoreRequest, tell: Callable[[Update], None]) -> bytes:
        """Wait for a seat, and have a request answered there, in a thread."""
        loop, stopped = asyncio.get_running_loop(), threading.Event()

        def tell_loop(update: Update) -> None:
            loop.call_soon_threadsafe(tell, update)

        async with self._seated(tell) as seat:
            began = time.monotonic()
            work = loop.run_in_executor(self.threads, seat.ask, request, tell_loop, stopped)
            try:
                found = await asyncio.shield(work)
            except asyncio.CancelledError:
                stopped.set()
                await asyncio.wait([work])  # the seat is free when the thread has ended
                work.exception()
                raise
            self.seconds += 0.2 * (time.monotonic() - began - self.seconds)
            return found

    @asynccontextmanager
    async def _seated(self, tell: Callable[[Update], None]) -> AsyncIterator[Slot]:
        """Wait for a seat and have it during the ``with`` block; those who come when the line is full are refused."""
        if self.is_closed:
            raise RefusedError(503, STOPPING)
        if not self.free and len(self.line) >= self.settings.waiting:
            there, later = self.running + len(self.line), self._come_again()
            problem = f"{there} restorations are running or waiting, as many as are allowed; try again in {later} s"
            raise RefusedError(429, problem, later=later)
        ticket: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        self.line.append((ticket, tell))
        self._move_up()
        try:
            seat = await ticket
        except asyncio.CancelledError:
            if ticket.done() and not ticket.cancelled():  # it was called at the same moment
                self._leave(ticket.result())
            else:
                self.line = deque(one for one in self.line if one[0] is not ticket)
                self._move_up()
            raise
        try:
            yield seat
        finally:
            self._leave(seat)

    def _come_again(self) -> int:
        """After how many seconds there should be a place, so that those who are sent away do not come all at once."""
        now = time.monotonic()
        self.sent_away = [when for when in self.sent_away if when > now]
        before = len(self.line) + len(self.sent_away) + 1
        later = min(LONGEST, max(1, math.ceil(self.seconds * before / len(self.seats))))
        self.sent_away.append(now + later)
        return later

    def _leave(self, seat: Slot) -> None:
        self.free.append(seat)
        self._move_up()

    def _move_up(self) -> None:
        """Give free seats to the first in the line, and tell the others where they stand."""
        while self.free and self.line:
            ticket, _ = self.line.popleft()
            if not ticket.done():
                ticket.set_result(self.free.pop())
        for place, (_, tell) in enumerate(self.line, 1):
            tell({"doing": "waiting", "place": place})
