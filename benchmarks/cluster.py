"""Clusters, simulated from what was measured: how many workers a driver feeds, and what failures and stragglers cost.

    python benchmarks/cluster.py results/benchmark_batch.json [results/benchmark_batch_long.json] [--json FILE]

Each file is a record of ``benchmarks/batch.py throughput``. Of the first one, the seconds that one worker took for each
document foretell how long two workers take, which was measured, too. Then clusters of up to a thousand workers are
simulated on documents drawn from each file: with one driver, whose seconds a document are what the processor spent
outside the workers in the first file, and with workers that fail at random.
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

EACH = 500  # documents for a worker, on average, in a simulated run
HOUR, DAY = 3600.0, 86400.0


def row_of(record: dict[str, Any], way: str) -> dict[str, Any]:
    """What was measured of a way to restore documents."""
    return next(row for row in record["rows"] if row["way"] == way)


def seconds_of(row: dict[str, Any]) -> list[float]:
    """The seconds of each document."""
    return [float(one) for one in row["document_seconds"].split()]


def measured(record: dict[str, Any]) -> dict[str, float]:
    """Seconds to begin, and of the driver for each document."""
    begin = row_of(record, "begin and end")
    batches = [row for row in record["rows"] if row["way"].startswith("local")]
    driver = []
    for row in batches:
        jobs = int(row["way"].split()[-1])
        driver.append(row["cpu_seconds"] - row["cpu_seconds_in_workers"] - jobs * begin["cpu_seconds"])
    documents = batches[0]["documents"]
    return {"start": begin["seconds"], "driver": round(float(np.mean(driver)) / documents, 5)}


def foretell(record: dict[str, Any]) -> dict[str, float]:
    """The seconds of two workers, from those of one; and what was measured."""
    alone, two, known = row_of(record, "local, jobs 1"), row_of(record, "local, jobs 2"), measured(record)
    found = {"measured": two["seconds"], "one_worker_measured": alone["seconds"]}
    for name, row in (("from_one_worker", alone), ("from_two_workers", two)):
        cluster = Cluster(2, known["start"], known["driver"])
        found[name] = simulate(cluster, seconds_of(row), np.random.default_rng(0)).seconds
    one = Cluster(1, known["start"], known["driver"])
    found["one_worker_simulated"] = simulate(one, seconds_of(alone), np.random.default_rng(0)).seconds
    return {name: round(value, 1) for name, value in found.items()}


def extend(record: dict[str, Any], known: dict[str, float], workers: int, between: float, seed: int) -> dict[str, Any]:
    """A run of many workers on documents drawn from those of a record."""
    generator = np.random.default_rng(seed)
    rows = [row for row in record["rows"] if "document_seconds" in row]
    work = generator.choice(seconds_of(rows[0]), EACH * workers)
    cluster = Cluster(workers, known["start"], known["driver"], between)
    run = simulate(cluster, work.tolist(), generator)
    steady = EACH * float(work.mean())  # seconds that each worker has to work
    return {
        "workers": workers,
        "hours_between_failures": None if math.isinf(between) else round(between / HOUR, 3),
        "documents": len(work),
        "seconds": round(run.seconds, 1),
        "at_best": round(steady, 1),
        "used": round(run.used(workers), 4),
        "wasted": round(run.wasted / (run.busy + run.wasted), 4),
        "failures": run.failures,
        "copied": run.copied,
    }


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {"commit": commit(), "versions": versions(), "seed": options.seed}
    known: dict[str, float] = {}
    for number, path in enumerate(options.records):
        record = json.loads(path.read_text())
        known = known or measured(record)
        rows = [extend(record, known, workers, math.inf, options.seed) for workers in (2, 10, 30, 100, 300, 1000)]
        rows += [extend(record, known, 100, between, options.seed) for between in (60.0, 600.0, HOUR, DAY)]
        documents = next(seconds_of(row) for row in record["rows"] if "document_seconds" in row)
        found[path.stem] = {
            "document_seconds": {
                "mean": round(float(np.mean(documents)), 3),
                "median": round(float(np.median(documents)), 3),
                "most": max(documents),
            },
            **({} if number else {"measured": known, "two_workers": foretell(record)}),
            "clusters": rows,
        }
    print(json.dumps(found, indent=2))
    if options.json:
        write_atomically(options.json, (json.dumps(found, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
