"""The server: HTTP on a socket that listens already, until it is told to stop."""

import socket
from typing import Any

import uvicorn

from conservator.web.app import create_app
from conservator.web.config import ServerConfig
from conservator.web.connections import allowed_files, limited
from conservator.web.queue import RestorationQueue

AT_ONCE = 16  # connections that are accepted before one too many is refused: each is an open file
QUEUE = 1024  # connections that the system keeps until they are accepted
GRACEFUL = 1  # seconds in which answers that are under way may end when the server stops


class Server(uvicorn.Server):
    """A server of uvicorn that stops its restorations before it waits for its connections."""

    def __init__(self, settings: ServerConfig, jobs: RestorationQueue) -> None:
        """Make the application."""
        self.jobs = jobs
        super().__init__(
            uvicorn.Config(
                create_app(settings, jobs),
                http=limited(allowed_files()),
                ws="none",
                lifespan="off",
                backlog=AT_ONCE,
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=GRACEFUL,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept, a few at once, of many that may wait for that."""
        await super().startup(sockets)
        for one in sockets or []:
            one.listen(QUEUE)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> Any:
        """Send everybody away, and stop."""
        self.jobs.close()
        await super().shutdown(sockets)
