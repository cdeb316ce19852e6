"""A server in a thread, and clients of it."""

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
    """A server that answers at ``port`` of this machine; ``connection`` is another class for its connections."""
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
    """Close what is open."""
    while OPEN:
        OPEN.pop().close()


def connect(server):
    """A client that has sent nothing."""
    OPEN.append(socket.create_connection(("127.0.0.1", server.port), 60))
    return OPEN[-1]


def read(client):
    """All that a client is told until the connection is closed, or reset."""
    said = b""
    try:
        while data := client.recv(4096):
            said += data
    except ConnectionResetError:
        pass
    return said


def post(server, text, accept="application/json"):
    """A client that has sent a request, and has not read the answer."""
    body = json.dumps({"text": text}).encode()
    client = connect(server)
    head = f"POST /v1/restore HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: {accept}\r\nContent-Type: application/json\r\n"
    client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return client


def health(server):
    """What /healthz says."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/healthz") as answer:
        return json.load(answer)


def until(server, **wanted):
    """Wait until /healthz says so."""
    while {key: health(server)[key] for key in wanted} != wanted:
        time.sleep(0.01)
