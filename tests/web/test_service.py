"""The service under people who wait, hang up, send half a request or none, and under processes that die."""

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

import pytest

from conservator.errors import ConservatorError
from conservator.web import connections, queue
from conservator.web.config import ServerConfig
from conservator.web.connections import Connection, limited
from conservator.web.queue import RestorationQueue
from conservator.web.requests import RefusedError, RestoreRequest
from support.web_server import OPEN, connect, health, leave_all, post, read, running, until
from support.web_stub import BEGUN, RELEASE

STUB = "support.web_stub:Stub"
MARK = "\ufffd"


def request(text):
    return RestoreRequest(text=text)


@pytest.fixture
def hold(tmp_path, monkeypatch):
    """Files by which documents that hold are let go, and by which one knows that a document was begun."""
    monkeypatch.setenv(RELEASE, str(tmp_path / "release"))
    monkeypatch.setenv(BEGUN, str(tmp_path / "begun"))
    return tmp_path


async def answer(jobs, text):
    async with aclosing(jobs.stream(request(text))) as stream:
        return json.loads([one async for one in stream][-1])


async def refusal(jobs):
    with pytest.raises(RefusedError) as refused:
        await answer(jobs, "one more")
    return refused.value.later


class Waiting:
    """Somebody who waits for an answer, and what was told so far."""

    def __init__(self, jobs, text):
        self.told, self.stream = [], jobs.stream(request(text))
        self.task = asyncio.create_task(self.read())

    async def read(self):
        async with aclosing(self.stream):
            async for one in self.stream:
                self.told.append(one)
        return json.loads(self.told[-1])

    async def until(self, update):
        while self.told[-1:] != [update]:
            await asyncio.sleep(0.005)

    async def leave(self):
        self.task.cancel()
        await asyncio.wait([self.task])


def place(number):
    return {"doing": "waiting", "place": number}


def with_jobs(work, **settings):
    """Run ``work(jobs)`` in a loop."""

    async def run():
        with RestorationQueue(ServerConfig(factory=STUB, **settings)) as made:
            return await work(made)

    return asyncio.run(run())


def test_those_who_wait_know_their_place_and_may_leave(hold):
    async def work(jobs):
        first, second, third = (Waiting(jobs, "HOLD") for _ in range(3))
        await second.until(place(1))
        await third.until(place(2))
        assert (jobs.running, len(jobs.line)) == (1, 2)
        with pytest.raises(RefusedError) as refused:
            await answer(jobs, "one more")
        assert refused.value.status == 429
        assert "3 restorations are running or waiting" in refused.value.detail
        assert refused.value.later >= 1
        others = [await refusal(jobs) for _ in range(80)]  # are not told to come all at once
        assert others == sorted(others)
        assert others[0] < others[30] < others[-1] == 60
        await second.leave()
        await third.until(place(1))
        (hold / "release").touch()
        assert (await first.task)["text"] == (await third.task)["text"] == "HOLD"
        assert first.told[0] == {"doing": "inferring", "share": 0.1}
        assert (jobs.running, len(jobs.line)) == (0, 0)

    with_jobs(work, waiting=2)


def test_work_that_nobody_waits_for_ends_and_the_next_begins(hold):
    async def work(jobs):
        first, second = Waiting(jobs, "HOLD"), Waiting(jobs, f"a{MARK}")
        await first.until({"doing": "decoding", "share": 0.5})
        process = jobs.seats[0]._worker.process.pid
        await first.leave()
        assert await second.task == {"text": "ax", "process": process}  # it was stopped, not ended

    with_jobs(work)


def test_a_process_that_does_not_hear_is_ended(hold, monkeypatch):
    monkeypatch.setattr(queue, "GRACE", 0.05)

    async def work(jobs):
        first, second = Waiting(jobs, "DEAF"), Waiting(jobs, f"a{MARK}")
        while not (hold / "begun").exists():
            await asyncio.sleep(0.005)
        process = jobs.seats[0]._worker.process.pid
        await first.leave()
        assert (await second.task)["process"] != process

    with_jobs(work)


def test_nothing_takes_longer_than_is_allowed(monkeypatch):
    monkeypatch.setattr(queue, "MARGIN", 0.0)

    async def work(jobs):
        with pytest.raises(RefusedError, match=r"longer than 0\.05 s") as refused:
            await answer(jobs, "DEAF")
        assert refused.value.status == 504
        return jobs.running

    assert with_jobs(work, max_seconds=0.05) == 0


def test_a_process_that_dies_is_replaced(capfd):
    async def work(jobs):
        before = (await answer(jobs, "a"))["process"]
        with pytest.raises(RefusedError, match="unexpected ZeroDivisionError: a fault"):
            await answer(jobs, "FAULT")
        assert (await answer(jobs, "a"))["process"] == before
        with pytest.raises(RefusedError, match="ended by SIGKILL"):
            await answer(jobs, "KILL")
        after = (await answer(jobs, "a"))["process"]
        assert after != before
        os.kill(after, signal.SIGKILL)  # while it has nothing to do
        jobs.seats[0]._worker.process.join()
        assert (await answer(jobs, "a"))["process"] != after

    with_jobs(work)
    assert "ZeroDivisionError: a fault" in capfd.readouterr().err  # a fault of ours leaves a trace


def test_experts_that_cannot_be_loaded_are_said():
    for experts, problem in (("bad", "these experts are bad"), ("dead", "could not start: exit code 7")):
        with pytest.raises(ConservatorError, match=problem):
            RestorationQueue(ServerConfig(factory=STUB, experts=experts))


def test_a_server_that_stops_sends_everybody_away(hold):
    async def work(jobs):
        first, second = Waiting(jobs, "HOLD"), Waiting(jobs, "HOLD")
        await first.until({"doing": "decoding", "share": 0.5})
        jobs.close()
        for one in (first.task, second.task, asyncio.create_task(answer(jobs, "a"))):
            with pytest.raises(RefusedError, match="the server is stopping"):
                await one

    with_jobs(work)


def test_two_are_restored_side_by_side(hold):
    async def work(jobs):
        first, second = Waiting(jobs, "HOLD"), Waiting(jobs, "HOLD")
        for one in (first, second):
            await one.until({"doing": "decoding", "share": 0.5})
        (hold / "release").touch()
        assert (await first.task)["process"] != (await second.task)["process"]

    with_jobs(work, running=2)


@pytest.fixture(autouse=True)
def _clients_leave():
    yield
    leave_all()


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson"])
def test_clients_that_hang_up_give_up_their_place(hold, accept):
    with running(ServerConfig(factory=STUB, waiting=8)) as server:
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
    ids=["nothing", "half a head", "half a second head", "half a body"],
)
def test_half_open_connections_are_closed(monkeypatch, sent):
    monkeypatch.setattr(connections, "LOOK", 0.02)
    with running(ServerConfig(factory=STUB)) as server:
        clients = [connect(server) for _ in range(20)]
        for client in clients:
            client.sendall(sent)
        while len(server.server_state.connections) < 20:
            time.sleep(0.01)
        if b"healthz" in sent:
            assert all(b"200 OK" in client.recv(4096) for client in clients)
        for name in ("HEAD", "WHOLE"):
            monkeypatch.setattr(connections, name, 0.0)
        for client in clients:
            read(client)
        while server.server_state.connections:
            time.sleep(0.01)


def test_a_restoration_may_take_longer_than_a_request(hold, monkeypatch):
    monkeypatch.setattr(connections, "LOOK", 0.01)
    with running(ServerConfig(factory=STUB)) as server:
        client = post(server, f"HOLD {MARK}")
        while not (hold / "begun").exists():
            time.sleep(0.01)
        for name in ("HEAD", "WHOLE"):
            monkeypatch.setattr(connections, name, 0.0)
        time.sleep(0.2)  # many looks
        (hold / "release").touch()
        assert read(client).startswith(b"HTTP/1.1 200")


def test_a_client_that_does_not_read_is_left(monkeypatch):
    monkeypatch.setattr(connections, "UNREAD", 0.1)
    with running(ServerConfig(factory=STUB)) as server:
        OPEN.append(client := socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.port))
        with suppress(OSError):  # it is left before it has sent all
            client.sendall(b"GET /static/view.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 400)
        while not server.server_state.total_requests or server.server_state.connections:
            time.sleep(0.01)


def test_a_request_with_two_lengths_is_refused_and_its_connection_closed():
    """What follows is not taken for another request."""
    head = b"POST /v1/restore HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    both = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    with running(ServerConfig(factory=STUB)) as server:
        client = connect(server)
        client.sendall(head + both + b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        said = read(client)
    assert said.startswith(b"HTTP/1.1 400")
    assert b"both Content-Length and Transfer-Encoding" in said
    assert said.count(b"HTTP/1.1 ") == 1


def test_connections_are_limited():
    class Three(Connection):
        most = 3

    with running(ServerConfig(factory=STUB), Three) as server:
        clients = [connect(server) for _ in range(3)]
        while len(server.server_state.connections) < 3:
            time.sleep(0.01)
        said = read(connect(server))
        assert said.startswith(b"HTTP/1.1 503")
        assert said.endswith(b'{"detail": "too many connections; try later"}')
        clients.pop().close()
        while len(server.server_state.connections) > 2:
            time.sleep(0.01)
        assert health(server)["status"] == "ok"


@pytest.mark.parametrize(("files", "most"), [(10**6, 250), (1024, 250), (100, 36), (10, 1)])
def test_connections_leave_files_for_the_rest(files, most):
    assert limited(files).most == most


SERVE = """
import sys
from conservator.web.config import Settings
made = Settings.__init__
made.__defaults__ = (*made.__defaults__[:-1], "support.web_stub:Stub")
sys.argv = ["conservator", "serve", "--port", "0"]
from conservator.cli import main
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("busy", [False, True])
def test_a_server_that_is_told_to_stop_ends_at_once(hold, number, busy):
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


def test_a_server_with_few_files_refuses_in_silence():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "100"}
    program = f"import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (120, 120))\n{SERVE}"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as server:
        try:
            server.port = int(re.search(r":(\d+)/", server.stderr.readline())[1])
            clients = [connect(server) for _ in range(300)]
            assert b" 503 " in read(clients[-1])  # those before it have taken every place
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


def test_health_is_answered_while_a_process_works(hold):
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
