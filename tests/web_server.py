"""A server in a thread."""

import socket
import threading
import time
from contextlib import contextmanager

from conservator.web.jobs import Jobs
from conservator.web.server import Server


@contextmanager
def running(settings, connection=None):
    """A server that answers at ``port`` of this machine; ``connection`` is another class for its connections."""
    with Jobs(settings) as jobs, socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(settings, jobs)
        server.port = listener.getsockname()[1]
        server.config.http = connection or server.config.http
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield server
        server.should_exit = True
        thread.join()
