"""Connections that do not wait for their clients without end."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD = 10.0  # seconds in which a request must have begun, to the end of its headers
WHOLE = 60.0  # seconds in which all of it must have come
UNREAD = 60.0  # seconds in which a client must have read something of what it is sent
LOOK = 0.5  # seconds between two looks
MOST = 250  # connections at a time
SPARE = 64  # files that a server needs beside its connections: pipes to its processes, libraries
BUSY = b'{"detail": "too many connections; try later"}'
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"retry-after: 1\r\ncontent-length: %d\r\n\r\n%b" % (len(BUSY), BUSY)
)


class Connection(H11Protocol):
    """A connection of uvicorn that is closed if its client keeps it waiting; one of a limited number.

    It counts as waiting from its beginning, or from the end of the last answer, until a whole request has come.
    """

    most = MOST
    since: float
    look: asyncio.TimerHandle | None
    unread: asyncio.TimerHandle | None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait, or refuse one too many."""
        super().connection_made(transport)
        self.since, self.look, self.unread = self.loop.time(), None, None
        if len(self.connections) > self.most:
            transport.write(REFUSAL)
            transport.close()
            return
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        for timer in (self.look, self.unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read as fast as it is written to."""
        super().pause_writing()
        self.unread = self.loop.call_later(UNREAD, self.transport.abort)

    def resume_writing(self) -> None:
        """It has read something."""
        super().resume_writing()
        if self.unread is not None:
            self.unread.cancel()

    def _look(self) -> None:
        """Close the connection if too much time has passed."""
        now, cycle = self.loop.time(), self.cycle
        begun = cycle is not None and not cycle.response_complete
        if begun and not cycle.more_body:
            self.since = now  # it is not the client's turn
        elif now - self.since > (WHOLE if begun else HEAD):
            self.transport.abort()
            return
        self.look = self.loop.call_later(LOOK, self._look)


def limited(allowed: int) -> type[Connection]:
    """Connections for a process that may have so many files open."""
    most = max(1, min(MOST, allowed - SPARE))
    return type("Limited", (Connection,), {"most": most})


def allowed_files() -> int:
    """How many files this process may have open; as many as anybody needs where the system does not tell."""
    try:
        import resource
    except ImportError:  # not on Windows
        return MOST + SPARE
    soft: Any = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST + SPARE if soft == resource.RLIM_INFINITY else int(soft)
