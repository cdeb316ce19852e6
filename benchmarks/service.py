"""The service under load, on this machine alone: clients that ask again and again, and how it is meanwhile.

    python benchmarks/service.py --corpora PATH [--clients 1 8 64] [--requests 1000] [--running 2] [--json FILE]

``conservator serve`` is started with its built-in experts. Documents are pieces of README files from ``train``, a tenth
of whose bytes are lost. For each number of clients, so many threads ask for restorations until ``--requests`` were
answered; whoever is refused (429) comes again after the time that the server names. Meanwhile /healthz is asked fifty
times a second, and the memory of the server and its processes is read every second.

Given are the answers a second, the seconds until an answer (a client that was refused begins anew), how many were
refused, what else went wrong, the slowest answers of /healthz, and the memory after each tenth of the requests.
"""

import argparse
import base64
import http.client
import json
import multiprocessing
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from batch import MARK, make_documents
from conservator.batch.memory_usage import memory_of
from conservator.evaluation.provenance import commit, versions
from conservator.system.files import write_atomically

PROBES = 0.02  # seconds between two questions after its health


def probe(port: int, ended: Any, found: Any) -> None:
    """Ask for the health of a server, again and again, in a process of its own: clients would slow it down."""
    seconds = []
    while not ended.wait(PROBES):
        began = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/healthz")
        assert json.loads(connection.getresponse().read())["status"] == "ok"
        connection.close()
        seconds.append(time.perf_counter() - began)
    found.put(seconds)


class Load:
    """Clients of a server, and what they saw."""

    def __init__(self, port: int, documents: list[bytes], requests: int) -> None:
        """Begin with no answers."""
        self.port, self.documents, self.requests = port, documents, requests
        self.lock, self.begun = threading.Lock(), 0
        self.seconds: list[float] = []
        self.seen: Counter[str] = Counter()
        self.memory: list[tuple[int, float]] = []  # answers by then, and megabytes
        self.ended = threading.Event()

    def next(self) -> bytes | None:
        """The document that is asked for next; None if all have been."""
        with self.lock:
            self.begun += 1
            return None if self.begun > self.requests else self.documents[self.begun % len(self.documents)]

    def client(self) -> None:
        """Ask until all are answered."""
        while (document := self.next()) is not None:
            while (later := self.ask(document)) is not None:
                time.sleep(later)

    def ask(self, document: bytes) -> float | None:
        """Ask once; return after how many seconds to ask again, if that is needed."""
        connection, began = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600), time.perf_counter()
        try:
            body = json.dumps({"data": base64.b64encode(document).decode(), "lost": "bytes"})
            connection.request("POST", "/v1/restore", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = json.loads(answer.read())
            with self.lock:
                self.seen[str(answer.status)] += 1
                if answer.status == 200:
                    assert text["summary"]["restored"] == document.count(MARK.encode())
                    self.seconds.append(time.perf_counter() - began)
                    return None
            return float(answer.headers.get("Retry-After", "1"))
        except Exception as error:
            with self.lock:
                self.seen[f"{type(error).__name__}: {error}"] += 1
            return 1.0
        finally:
            connection.close()

    def weigh(self, server: int) -> None:
        """Read the memory of the server and its processes, again and again."""
        while not self.ended.wait(1.0):
            self.memory.append((len(self.seconds), sum(map(memory_of, [server, *children(server)])) / 2**20))

    def run(self, clients: int, server: int) -> dict[str, Any]:
        """Let clients ask, and return what they saw."""
        ended, found = multiprocessing.Event(), multiprocessing.SimpleQueue()
        probing = multiprocessing.Process(target=probe, args=(self.port, ended, found))
        probing.start()
        began = time.perf_counter()
        weighing = threading.Thread(target=self.weigh, args=(server,))
        asking = [threading.Thread(target=self.client) for _ in range(clients)]
        for thread in (weighing, *asking):
            thread.start()
        for thread in asking:
            thread.join()
        took = time.perf_counter() - began
        self.ended.set()
        weighing.join()
        ended.set()
        health = found.get()
        probing.join()
        tenths = [self.requests * tenth // 10 for tenth in range(1, 11)]
        by_then = [max([size for done, size in self.memory if done <= tenth], default=0.0) for tenth in tenths]
        return {
            "clients": clients,
            "seen": dict(self.seen),
            "answers_a_second": round(len(self.seconds) / took, 3),
            "seconds_median": round(float(np.median(self.seconds)), 3),
            "seconds_95": round(float(np.quantile(self.seconds, 0.95)), 3),
            "health_asked": len(health),
            "health_median_ms": round(1000 * float(np.median(health)), 1),
            "health_99_ms": round(1000 * float(np.quantile(health, 0.99)), 1),
            "health_slowest_ms": [round(1000 * one, 1) for one in sorted(health)[-3:]],
            "most_megabytes_by_tenths": [round(size) for size in by_then],
            "load": round(os.getloadavg()[0], 1),
        }


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="the folder with readme.train.jsonl.gz")
    parser.add_argument("--clients", nargs="+", type=int, default=[1, 8, 64])
    parser.add_argument("--requests", type=int, default=1000, help="answers for each number of clients")
    parser.add_argument("--size", type=int, default=500, help="bytes of a document")
    parser.add_argument("--running", type=int, default=2)
    parser.add_argument("--waiting", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    documents = make_documents(options.corpora, 200, options.size, options.seed)
    limits = ["--workers", str(options.running), "--queue-size", str(options.waiting)]
    command = [sys.executable, "-m", "conservator", "serve", "--port", "0", *limits]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        found = re.search(r":(\d+)/", server.stderr.readline())
        if found is None:
            raise SystemExit(server.stderr.read())
        rows = []
        try:
            for clients in options.clients:
                rows.append(Load(int(found[1]), documents, options.requests).run(clients, server.pid))
                print(rows[-1], flush=True)
        finally:
            server.terminate()
        said = server.stderr.read()
    record = {"commit": commit(), "versions": versions(), "cores": os.cpu_count(), "rows": rows, "said": said}
    record["exit_code"] = server.returncode
    print(json.dumps(record, indent=2))
    if options.json:
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
