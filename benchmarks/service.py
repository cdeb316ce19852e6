"""Load test of the web service on one machine: throughput, latency, health checks and memory.

    python benchmarks/service.py --corpora PATH [--clients 1 8 64] [--requests 1000] [--workers 2] [--json FILE]

The benchmark starts ``conservator serve`` with the built-in experts. Documents are pieces of README files from
``train``; a tenth of their bytes is lost. Each client is a thread that sends requests until ``--requests`` of them
succeeded. A client that is refused (429) sends its request again after the Retry-After time. A separate process
requests /healthz fifty times per second, and a thread measures the memory of the server and its workers every second.

The record has the responses per second, the latency (of the last attempt of a request), the responses by status and the
errors, the latency of /healthz, and the memory after each tenth of the requests.
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
from conservator.evaluation.provenance import commit, versions
from conservator.execution import memory_of
from conservator.system.files import write_atomically

HEALTH_INTERVAL = 0.02  # seconds between two health checks


def check_health(port: int, ended: Any, results: Any) -> None:
    """Request the health of a server repeatedly, in a separate process that client threads do not delay."""
    seconds = []
    while not ended.wait(HEALTH_INTERVAL):
        began = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/healthz")
        assert json.loads(connection.getresponse().read())["status"] == "ok"
        connection.close()
        seconds.append(time.perf_counter() - began)
    results.put(seconds)


class LoadTest:
    """Clients of a server, and their measurements."""

    def __init__(self, port: int, documents: list[bytes], requests: int) -> None:
        """Start without responses."""
        self.port, self.documents, self.requests = port, documents, requests
        self.lock, self.started = threading.Lock(), 0
        self.seconds: list[float] = []
        self.responses: Counter[str] = Counter()
        self.memory: list[tuple[int, float]] = []  # responses so far, and MB
        self.ended = threading.Event()

    def next(self) -> bytes | None:
        """Return the next document; None after the last request."""
        with self.lock:
            self.started += 1
            return None if self.started > self.requests else self.documents[self.started % len(self.documents)]

    def client(self) -> None:
        """Send requests until no document is left."""
        while (document := self.next()) is not None:
            while (retry_after := self.send(document)) is not None:
                time.sleep(retry_after)

    def send(self, document: bytes) -> float | None:
        """Send a request; return the seconds until the next attempt, or None if it succeeded."""
        connection, began = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600), time.perf_counter()
        try:
            request = json.dumps({"data": base64.b64encode(document).decode(), "lost": "bytes"})
            connection.request("POST", "/v1/restore", request, {"Content-Type": "application/json"})
            response = connection.getresponse()
            body = json.loads(response.read())
            with self.lock:
                self.responses[str(response.status)] += 1
                if response.status == 200:
                    assert body["summary"]["restored"] == document.count(MARK.encode())
                    self.seconds.append(time.perf_counter() - began)
                    return None
            return float(response.headers.get("Retry-After", "1"))
        except Exception as error:
            with self.lock:
                self.responses[f"{type(error).__name__}: {error}"] += 1
            return 1.0
        finally:
            connection.close()

    def measure_memory(self, server: int) -> None:
        """Measure the memory of the server and its workers every second."""
        while not self.ended.wait(1.0):
            self.memory.append((len(self.seconds), sum(map(memory_of, [server, *children(server)])) / 2**20))

    def run(self, clients: int, server: int) -> dict[str, Any]:
        """Run the clients; return the measurements."""
        ended = multiprocessing.Event()
        results: Any = multiprocessing.SimpleQueue()
        health_process = multiprocessing.Process(target=check_health, args=(self.port, ended, results))
        health_process.start()
        began = time.perf_counter()
        memory_thread = threading.Thread(target=self.measure_memory, args=(server,))
        client_threads = [threading.Thread(target=self.client) for _ in range(clients)]
        for thread in (memory_thread, *client_threads):
            thread.start()
        for thread in client_threads:
            thread.join()
        elapsed = time.perf_counter() - began
        self.ended.set()
        memory_thread.join()
        ended.set()
        health = results.get()
        health_process.join()
        tenths = [self.requests * tenth // 10 for tenth in range(1, 11)]
        peaks = [max([size for done, size in self.memory if done <= tenth], default=0.0) for tenth in tenths]
        return {
            "clients": clients,
            "responses": dict(self.responses),
            "responses_a_second": round(len(self.seconds) / elapsed, 3),
            "seconds_median": round(float(np.median(self.seconds)), 3),
            "seconds_95": round(float(np.quantile(self.seconds, 0.95)), 3),
            "health_requests": len(health),
            "health_median_ms": round(1000 * float(np.median(health)), 1),
            "health_99_ms": round(1000 * float(np.quantile(health, 0.99)), 1),
            "health_slowest_ms": [round(1000 * seconds, 1) for seconds in sorted(health)[-3:]],
            "max_megabytes_by_tenths": [round(size) for size in peaks],
            "load": round(os.getloadavg()[0], 1),
        }


def children(process: int) -> list[int]:
    """Return the child processes of a process."""
    threads = Path(f"/proc/{process}/task").glob("*/children")  # every worker was started by a thread of its own
    return [int(child) for path in threads for child in path.read_text().split()]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="folder with readme.train.jsonl.gz")
    parser.add_argument("--clients", nargs="+", type=int, default=[1, 8, 64], help="numbers of clients")
    parser.add_argument("--requests", type=int, default=1000, help="requests per number of clients")
    parser.add_argument("--size", type=int, default=500, help="bytes per document")
    parser.add_argument("--workers", type=int, default=2, help="workers of the server")
    parser.add_argument("--queue-size", type=int, default=8, help="requests that may wait for a worker")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    documents = make_documents(options.corpora, 200, options.size, options.seed)
    limits = ["--workers", str(options.workers), "--queue-size", str(options.queue_size)]
    command = [sys.executable, "-m", "conservator", "serve", "--port", "0", *limits]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        match = re.search(r":(\d+)/", server.stderr.readline())
        if match is None:
            raise SystemExit(server.stderr.read())
        rows = []
        try:
            for clients in options.clients:
                rows.append(LoadTest(int(match[1]), documents, options.requests).run(clients, server.pid))
                print(rows[-1], flush=True)
        finally:
            server.terminate()
        stderr = server.stderr.read()
    record = {"commit": commit(), "versions": versions(), "cores": os.cpu_count(), "rows": rows, "stderr": stderr}
    record["exit_code"] = server.returncode
    print(json.dumps(record, indent=2))
    if options.json:
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
