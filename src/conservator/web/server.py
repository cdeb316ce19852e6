"""HTTP server on an open socket."""

import socket
from typing import Any

import uvicorn

from conservator.web.app import create_app
from conservator.web.config import ServerConfig
from conservator.web.connections import connection_class, max_open_files
from conservator.web.queue import RestorationQueue

# count: connections that asyncio accepts at once, before excess ones are refused; each is an open file [untuned]
ACCEPT_BATCH = 16
LISTEN_BACKLOG = 1024  # count: connections that the system queues until they are accepted [untuned]
SHUTDOWN_SECONDS = 1  # seconds: time for responses to finish when the server stops [untuned]


class Server(uvicorn.Server):
    """A uvicorn server that stops its restorations before it waits for its connections."""

    def __init__(self, config: ServerConfig, queue: RestorationQueue) -> None:
        """Create the application."""
        self.queue = queue
        super().__init__(
            uvicorn.Config(
                create_app(config, queue),
                http=connection_class(max_open_files()),
                ws="none",
                lifespan="off",
                backlog=ACCEPT_BATCH,
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections, in small batches from a long backlog."""
        await super().startup(sockets)
        for listener in sockets or []:
            listener.listen(LISTEN_BACKLOG)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> Any:
        """Refuse all waiting requests, and stop."""
        self.queue.close()
        await super().shutdown(sockets)
