"""Simulate clusters from measured times: how many workers one driver supports, and the cost of failures and stragglers.

    python benchmarks/cluster.py results/benchmark_batch.json [results/benchmark_batch_long.json] [--json FILE]

Each file is a record of ``benchmarks/batch.py throughput``. The first record validates the simulation: the document
times of one worker predict the time of two workers, which was also measured. Clusters of up to a thousand workers are
then simulated on documents drawn from each record, with one driver and with workers that fail at random. The driver
time per document is the CPU time outside of the workers in the first record.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from conservator.evaluation.provenance import commit, versions
from conservator.system.files import write_atomically
from conservator_studies.cluster import Cluster, simulate

DOCUMENTS_PER_WORKER = 500  # documents: mean per worker in a simulated run
HOUR, DAY = 3600.0, 86400.0  # seconds


def row_of(record: dict[str, Any], method: str) -> dict[str, Any]:
    """Return the row of a method."""
    return next(row for row in record["rows"] if row["way"] == method)


def seconds_of(row: dict[str, Any]) -> list[float]:
    """Return the seconds of each document."""
    return [float(seconds) for seconds in row["document_seconds"].split()]


def measure(record: dict[str, Any]) -> dict[str, float]:
    """Return the start-up time of a worker and the driver time per document, in seconds."""
    start = row_of(record, "begin and end")
    batches = [row for row in record["rows"] if row["way"].startswith("local")]
    driver_seconds = []
    for row in batches:
        jobs = int(row["way"].split()[-1])
        driver_seconds.append(row["cpu_seconds"] - row["cpu_seconds_in_workers"] - jobs * start["cpu_seconds"])
    documents = batches[0]["documents"]
    return {"start": start["seconds"], "driver": round(float(np.mean(driver_seconds)) / documents, 5)}


def validate(record: dict[str, Any]) -> dict[str, float]:
    """Simulate one and two workers; return simulated and measured seconds."""
    single, double, times = row_of(record, "local, jobs 1"), row_of(record, "local, jobs 2"), measure(record)
    seconds = {"measured": double["seconds"], "one_worker_measured": single["seconds"]}
    for name, row in (("from_one_worker", single), ("from_two_workers", double)):
        cluster = Cluster(2, times["start"], times["driver"])
        seconds[name] = simulate(cluster, seconds_of(row), np.random.default_rng(0)).seconds
    cluster = Cluster(1, times["start"], times["driver"])
    seconds["one_worker_simulated"] = simulate(cluster, seconds_of(single), np.random.default_rng(0)).seconds
    return {name: round(value, 1) for name, value in seconds.items()}


def extrapolate(
    record: dict[str, Any], times: dict[str, float], workers: int, between_failures: float, seed: int
) -> dict[str, Any]:
    """Simulate many workers on documents drawn from a record."""
    generator = np.random.default_rng(seed)
    rows = [row for row in record["rows"] if "document_seconds" in row]
    work = generator.choice(seconds_of(rows[0]), DOCUMENTS_PER_WORKER * workers)
    cluster = Cluster(workers, times["start"], times["driver"], between_failures)
    run = simulate(cluster, work.tolist(), generator)
    ideal_seconds = DOCUMENTS_PER_WORKER * float(work.mean())
    return {
        "workers": workers,
        "hours_between_failures": None if math.isinf(between_failures) else round(between_failures / HOUR, 3),
        "documents": len(work),
        "seconds": round(run.seconds, 1),
        "at_best": round(ideal_seconds, 1),
        "used": round(run.used(workers), 4),
        "wasted": round(run.wasted / (run.busy + run.wasted), 4),
        "failures": run.failures,
        "copied": run.copied,
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+", type=Path, help="records of benchmarks/batch.py throughput")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    result: dict[str, Any] = {"commit": commit(), "versions": versions(), "seed": options.seed}
    times: dict[str, float] = {}
    for number, path in enumerate(options.records):
        record = json.loads(path.read_text())
        times = times or measure(record)
        rows = [extrapolate(record, times, workers, math.inf, options.seed) for workers in (2, 10, 30, 100, 300, 1000)]
        rows += [
            extrapolate(record, times, 100, between_failures, options.seed)
            for between_failures in (60.0, 600.0, HOUR, DAY)
        ]
        documents = next(seconds_of(row) for row in record["rows"] if "document_seconds" in row)
        result[path.stem] = {
            "document_seconds": {
                "mean": round(float(np.mean(documents)), 3),
                "median": round(float(np.median(documents)), 3),
                "most": max(documents),
            },
            **({} if number else {"measured": times, "two_workers": validate(record)}),
            "clusters": rows,
        }
    print(json.dumps(result, indent=2))
    if options.json:
        write_atomically(options.json, (json.dumps(result, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
