"""The server with clients that wait, disconnect or send incomplete requests, and with workers that die."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
from contextlib import aclosing, suppress
from dataclasses import replace

import pytest

from conservator.errors import ConservatorError
from conservator.web import connections, queue
from conservator.web.config import ServerConfig
from conservator.web.connections import LimitedConnection, connection_class
from conservator.web.queue import RestorationQueue
from conservator.web.requests import RefusedError, RestoreRequest
from support.web_server import OPEN, connect, health, leave_all, post, read, running, until
from support.web_stub import BEGUN, RELEASE

STUB = "support.web_stub:Stub"
MARK = "\ufffd"


def request(text):
    return RestoreRequest(text=text)


def configure(monkeypatch, module, **fields):
    """Change the configuration of a module."""
    monkeypatch.setattr(module, "CONFIG", replace(module.CONFIG, **fields))


@pytest.fixture
def hold(tmp_path, monkeypatch):
    """Folder of the file that releases HOLD documents, and of the file that the stub writes when a document starts."""
    monkeypatch.setenv(RELEASE, str(tmp_path / "release"))
    monkeypatch.setenv(BEGUN, str(tmp_path / "begun"))
    return tmp_path


async def restore(restorations, text):
    async with aclosing(restorations.stream(request(text))) as stream:
        return json.loads([message async for message in stream][-1])


async def retry_after(restorations):
    with pytest.raises(RefusedError) as refused:
        await restore(restorations, "one more")
    return refused.value.retry_after


class Client:
    """A client that waits for a response, and the messages that it has received."""

    def __init__(self, restorations, text):
        self.messages, self.stream = [], restorations.stream(request(text))
        self.task = asyncio.create_task(self.read())

    async def read(self):
        async with aclosing(self.stream):
            async for message in self.stream:
                self.messages.append(message)
        return json.loads(self.messages[-1])

    async def until(self, update):
        while self.messages[-1:] != [update]:
            await asyncio.sleep(0.005)

    async def disconnect(self):
        self.task.cancel()
        await asyncio.wait([self.task])


def position(number):
    return {"doing": "waiting", "place": number}


def with_queue(work, **fields):
    """Run ``work(restorations)`` in an event loop."""

    async def run():
        with RestorationQueue(ServerConfig(factory=STUB, **fields)) as restorations:
            return await work(restorations)

    return asyncio.run(run())


def test_waiting_clients_get_their_position_and_may_disconnect(hold):
    async def work(restorations):
        first, second, third = (Client(restorations, "HOLD") for _ in range(3))
        await second.until(position(1))
        await third.until(position(2))
        assert (restorations.running, restorations.waiting) == (1, 2)
        with pytest.raises(RefusedError) as refused:
            await restore(restorations, "one more")
        assert refused.value.status == 429
        assert "3 restorations are running or waiting" in refused.value.detail
        assert refused.value.retry_after >= 1
        times = [await retry_after(restorations) for _ in range(80)]  # spread over time
        assert times == sorted(times)
        assert times[0] < times[30] < times[-1] == 60
        await second.disconnect()
        await third.until(position(1))
        (hold / "release").touch()
        assert (await first.task)["text"] == (await third.task)["text"] == "HOLD"
        assert first.messages[0] == {"doing": "inferring", "share": 0.1}
        assert (restorations.running, restorations.waiting) == (0, 0)

    with_queue(work, queue_size=2)


def test_a_restoration_is_cancelled_when_its_client_disconnects(hold):
    async def work(restorations):
        first, second = Client(restorations, "HOLD"), Client(restorations, f"a{MARK}")
        await first.until({"doing": "decoding", "share": 0.5})
        process = restorations.pool._live[0].process.pid
        await first.disconnect()
        assert await second.task == {"text": "ax", "process": process}  # the worker was not killed

    with_queue(work)


def test_a_worker_that_does_not_stop_is_killed(hold, monkeypatch):
    configure(monkeypatch, queue, cancel_seconds=0.05)

    async def work(restorations):
        first, second = Client(restorations, "DEAF"), Client(restorations, f"a{MARK}")
        while not (hold / "begun").exists():
            await asyncio.sleep(0.005)
        process = restorations.pool._live[0].process.pid
        await first.disconnect()
        assert (await second.task)["process"] != process

    with_queue(work)


def test_a_restoration_is_ended_after_the_time_limit(monkeypatch):
    configure(monkeypatch, queue, overtime_seconds=0.0)

    async def work(restorations):
        with pytest.raises(RefusedError, match=r"longer than 0\.05 s") as refused:
            await restore(restorations, "DEAF")
        assert refused.value.status == 504
        return restorations.running

    assert with_queue(work, max_seconds=0.05) == 0


def test_a_worker_that_dies_is_replaced(capfd):
    async def work(restorations):
        before = (await restore(restorations, "a"))["process"]
        with pytest.raises(RefusedError, match="internal error: ZeroDivisionError: a fault"):
            await restore(restorations, "FAULT")
        assert (await restore(restorations, "a"))["process"] == before
        with pytest.raises(RefusedError, match="ended by SIGKILL"):
            await restore(restorations, "KILL")
        after = (await restore(restorations, "a"))["process"]
        assert after != before
        os.kill(after, signal.SIGKILL)  # while it is idle
        restorations.pool._live[0].process.join()
        assert (await restore(restorations, "a"))["process"] != after

    with_queue(work)
    assert "ZeroDivisionError: a fault" in capfd.readouterr().err  # the traceback of a defect is printed


def test_errors_of_loading_experts_are_raised():
    for experts, problem in (("bad", "these experts are bad"), ("dead", r"stopped during start-up \(exit code 7\)")):
        with pytest.raises(ConservatorError, match=problem):
            RestorationQueue(ServerConfig(factory=STUB, experts=experts))


def test_a_server_that_stops_refuses_all_requests(hold):
    async def work(restorations):
        first, second = Client(restorations, "HOLD"), Client(restorations, "HOLD")
        await first.until({"doing": "decoding", "share": 0.5})
        restorations.close()
        for task in (first.task, second.task, asyncio.create_task(restore(restorations, "a"))):
            with pytest.raises(RefusedError, match="the server is stopping"):
                await task

    with_queue(work)


def test_two_workers_run_in_parallel(hold):
    async def work(restorations):
        first, second = Client(restorations, "HOLD"), Client(restorations, "HOLD")
        for client in (first, second):
            await client.until({"doing": "decoding", "share": 0.5})
        (hold / "release").touch()
        assert (await first.task)["process"] != (await second.task)["process"]

    with_queue(work, workers=2)


@pytest.fixture(autouse=True)
def _disconnect_clients():
    yield
    leave_all()


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson"])
def test_clients_that_disconnect_leave_the_queue(hold, accept):
    with running(ServerConfig(factory=STUB, queue_size=8)) as server:
        clients = [post(server, "HOLD", accept) for _ in range(9)]
        until(server, running=1, waiting=8)
        refused = post(server, "a")
        head = refused.recv(4096)
        assert head.startswith(b"HTTP/1.1 429")
        assert b"retry-after: " in head
        for client in clients[1:]:
            client.close()
        until(server, running=1, waiting=0)
        clients[0].close()
        until(server, running=0)
        assert post(server, f"a{MARK}").recv(4096).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: 127.",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /hea",
        b"POST /v1/restore HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\n{",
    ],
    ids=["nothing", "part of the headers", "part of the second headers", "part of the body"],
)
def test_connections_with_incomplete_requests_are_closed(monkeypatch, sent):
    configure(monkeypatch, connections, check_seconds=0.02)
    with running(ServerConfig(factory=STUB)) as server:
        clients = [connect(server) for _ in range(20)]
        for client in clients:
            client.sendall(sent)
        while len(server.server_state.connections) < 20:
            time.sleep(0.01)
        if b"healthz" in sent:
            assert all(b"200 OK" in client.recv(4096) for client in clients)
        configure(monkeypatch, connections, max_head_seconds=0.0, max_request_seconds=0.0)
        for client in clients:
            read(client)
        while server.server_state.connections:
            time.sleep(0.01)


def test_a_restoration_may_take_longer_than_a_request(hold, monkeypatch):
    configure(monkeypatch, connections, check_seconds=0.01)
    with running(ServerConfig(factory=STUB)) as server:
        client = post(server, f"HOLD {MARK}")
        while not (hold / "begun").exists():
            time.sleep(0.01)
        configure(monkeypatch, connections, max_head_seconds=0.0, max_request_seconds=0.0)
        time.sleep(0.2)  # many checks
        (hold / "release").touch()
        assert read(client).startswith(b"HTTP/1.1 200")


def test_a_client_that_does_not_read_is_disconnected(monkeypatch):
    configure(monkeypatch, connections, max_unread_seconds=0.1)
    with running(ServerConfig(factory=STUB)) as server:
        OPEN.append(client := socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.port))
        with suppress(OSError):  # it is disconnected before it has sent everything
            client.sendall(b"GET /static/view.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 400)
        while not server.server_state.total_requests or server.server_state.connections:
            time.sleep(0.01)


def test_a_request_with_two_lengths_is_refused_and_its_connection_closed():
    """The bytes after it are not handled as another request."""
    head = b"POST /v1/restore HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    both = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    with running(ServerConfig(factory=STUB)) as server:
        client = connect(server)
        client.sendall(head + both + b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        response = read(client)
    assert response.startswith(b"HTTP/1.1 400")
    assert b"both Content-Length and Transfer-Encoding" in response
    assert response.count(b"HTTP/1.1 ") == 1


def test_connections_are_limited():
    class ThreeConnections(LimitedConnection):
        max_connections = 3

    with running(ServerConfig(factory=STUB), ThreeConnections) as server:
        clients = [connect(server) for _ in range(3)]
        while len(server.server_state.connections) < 3:
            time.sleep(0.01)
        response = read(connect(server))
        assert response.startswith(b"HTTP/1.1 503")
        assert response.endswith(b'{"detail": "too many connections; try again later"}')
        clients.pop().close()
        while len(server.server_state.connections) > 2:
            time.sleep(0.01)
        assert health(server)["status"] == "ok"


@pytest.mark.parametrize(("files", "connections"), [(10**6, 250), (1024, 250), (100, 36), (10, 1)])
def test_some_files_are_reserved_for_other_purposes(files, connections):
    assert connection_class(files).max_connections == connections


SERVE = """
import sys
from conservator.web.config import ServerConfig
init = ServerConfig.__init__
init.__defaults__ = (*init.__defaults__[:-1], "support.web_stub:Stub")
sys.argv = ["conservator", "serve", "--port", "0"]
from conservator.cli import main
main()
"""


@pytest.mark.parametrize(("number", "busy"), [(signal.SIGINT, False), (signal.SIGTERM, True)])
def test_a_server_ends_at_once_after_a_signal(hold, number, busy):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "100"}
    with subprocess.Popen([sys.executable, "-c", SERVE], stderr=subprocess.PIPE, text=True, env=environment) as server:
        try:
            server.port = int(re.search(r":(\d+)/", server.stderr.readline())[1])
            clients = [post(server, "HOLD") for _ in range(3 * busy)]
            until(server, restorations=3 * busy)
            server.send_signal(number)
            assert server.stderr.read() == ""
            assert server.wait() == 0
            assert all(read(client).startswith(b"HTTP/1.1 503") for client in clients)
        finally:
            server.kill()


def test_a_server_with_few_files_refuses_connections_without_messages():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "100"}
    program = f"import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (120, 120))\n{SERVE}"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as server:
        try:
            server.port = int(re.search(r":(\d+)/", server.stderr.readline())[1])
            clients = [connect(server) for _ in range(300)]
            assert b" 503 " in read(clients[-1])  # the connections before it have used up the limit
            leave_all()
            while health_or_none(server) is None:
                time.sleep(0.01)
            server.terminate()
            assert server.stderr.read() == ""
        finally:
            server.kill()


def health_or_none(server):
    try:
        return health(server)
    except urllib.error.HTTPError:
        return None


def test_health_is_answered_during_a_restoration(hold):
    with running(ServerConfig(factory=STUB)) as server:
        client = post(server, "HOLD")
        until(server, running=1)
        threads = [threading.Thread(target=health, args=(server,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.close()
        until(server, running=0)
