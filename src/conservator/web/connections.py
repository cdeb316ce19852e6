"""HTTP connections with timeouts, limited in number."""

import asyncio
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


@dataclass(frozen=True)
class ConnectionConfig:
    """Timeouts and limits of connections."""

    max_head_seconds: float = 10.0  # seconds: time to send the headers of a request [safety limit]
    max_request_seconds: float = 60.0  # seconds: time to send a complete request [safety limit]
    max_unread_seconds: float = 60.0  # seconds: time in which a client must read a part of the response [safety limit]
    check_seconds: float = 0.5  # seconds: interval of the checks [untuned]
    max_connections: int = 250  # count: open connections [safety limit]
    reserved_files: int = 64  # count: open files for other purposes, such as pipes to workers [untuned]


CONFIG = ConnectionConfig()
TOO_MANY = b'{"detail": "too many connections; try again later"}'
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"retry-after: 1\r\ncontent-length: %d\r\n\r\n%b" % (len(TOO_MANY), TOO_MANY)
)


class LimitedConnection(H11Protocol):
    """A connection of uvicorn that is closed if its client is too slow, or if there are too many connections.

    The timeout runs from the start of the connection, or from the end of the previous response, until the request is
    complete.
    """

    max_connections = CONFIG.max_connections
    waiting_since: float
    check_timer: asyncio.TimerHandle | None
    unread_timer: asyncio.TimerHandle | None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout, or refuse the connection."""
        super().connection_made(transport)
        self.waiting_since, self.check_timer, self.unread_timer = self.loop.time(), None, None
        if len(self.connections) > self.max_connections:
            transport.write(REFUSAL)
            transport.close()
            return
        self._check_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers."""
        for timer in (self.check_timer, self.unread_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the timeout for a client that does not read the response."""
        super().pause_writing()
        self.unread_timer = self.loop.call_later(CONFIG.max_unread_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the timeout: the client has read a part of the response."""
        super().resume_writing()
        if self.unread_timer is not None:
            self.unread_timer.cancel()

    def _check_timeout(self) -> None:
        """Close the connection after the timeout; otherwise schedule the next check."""
        now, cycle = self.loop.time(), self.cycle
        has_head = cycle is not None and not cycle.response_complete
        if has_head and not cycle.more_body:
            self.waiting_since = now  # the request is complete: the timeout is paused
        elif now - self.waiting_since > (CONFIG.max_request_seconds if has_head else CONFIG.max_head_seconds):
            self.transport.abort()
            return
        self.check_timer = self.loop.call_later(CONFIG.check_seconds, self._check_timeout)


def connection_class(open_files: int) -> type[LimitedConnection]:
    """Return a connection class for a process that may have ``open_files`` files open."""
    max_connections = max(1, min(CONFIG.max_connections, open_files - CONFIG.reserved_files))
    return type("Connection", (LimitedConnection,), {"max_connections": max_connections})


def max_open_files() -> int:
    """Return how many files this process may have open; the largest useful number if there is no limit."""
    unlimited = CONFIG.max_connections + CONFIG.reserved_files
    try:
        import resource
    except ImportError:  # not on Windows
        return unlimited
    soft_limit: Any = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return unlimited if soft_limit == resource.RLIM_INFINITY else int(soft_limit)
