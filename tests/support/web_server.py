"""A server in a thread, and its clients."""

import json
import socket
import threading
import time
import urllib.request
from contextlib import contextmanager

from conservator.web.queue import RestorationQueue
from conservator.web.server import Server


@contextmanager
def running(settings, connection=None):
    """Run a server on ``server.port`` of this machine; ``connection`` replaces the class of its connections."""
    with RestorationQueue(settings) as jobs, socket.create_server(("127.0.0.1", 0)) as listener:
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


OPEN = []  # clients


def leave_all():
    """Close all clients."""
    while OPEN:
        OPEN.pop().close()


def connect(server):
    """Return a client that has sent nothing."""
    OPEN.append(socket.create_connection(("127.0.0.1", server.port), 60))
    return OPEN[-1]


def read(client):
    """Return all data that a client receives until the connection is closed or reset."""
    received = b""
    try:
        while data := client.recv(4096):
            received += data
    except ConnectionResetError:
        pass
    return received


def post(server, text, accept="application/json"):
    """Return a client that has sent a request and has not read the response."""
    body = json.dumps({"text": text}).encode()
    client = connect(server)
    head = f"POST /v1/restore HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: {accept}\r\nContent-Type: application/json\r\n"
    client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return client


def health(server):
    """Return the response of /healthz."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/healthz") as response:
        return json.load(response)


def until(server, **expected):
    """Wait until /healthz has the expected values."""
    while {key: health(server)[key] for key in expected} != expected:
        time.sleep(0.01)
