"""What a language model brings to a restoration, and what it costs, against a language model alone.

    python benchmarks/language_models.py --corpora PATH [--rate 0.1] [--burst 1] [--kinds readme:6,prose:3,code:3]
                                         [--split eval] [--size 2000] [--plain] [--json FILE]

The first ``--size`` bytes of the first documents of each kind lose bytes at a rate, or in bursts. Three ways:

- fast: networks and memory;
- best: the same, and a language model writes again what these leave in doubt;
- plain (with ``--plain``; slow): the language model alone, with a beam (``plain_beam.py``).

All are on one thread, the language model in float32. CPU seconds leave out loading. Of each kind: the share of the lost
bytes that are right with a 95 % interval (bootstrap over documents), CPU seconds a KB, the calibration error in ten
bins, and the share that is right of what has a confidence of at least 0.9.
"""

import argparse
import gzip
import json
import os
import resource
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch
from plain_beam import Beam, as_pattern
from rich.console import Console
from rich.table import Table

from conservator import Restorer
from conservator.documents import MARK, damage, read_damaged
from conservator.evaluation.provenance import commit, versions
from conservator.experts.language_models import load_language_model
from conservator.system.files import write_atomically

SURE = 0.9
RESAMPLES = 10_000
SMALL = b"A small document, in which a little is lost."
Case = tuple[str, int, bytes, bytes]  # kind, number, clean, damaged
Way = Callable[[bytes, bytes], tuple[np.ndarray, np.ndarray | None]]  # clean, damaged -> bytes, confidence


def read_cases(options: argparse.Namespace) -> list[Case]:
    """The documents, damaged."""
    cases = []
    for kind, count in (one.split(":") for one in options.kinds.split(",")):
        with gzip.open(options.corpora / f"{kind}.{options.split}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for number, line in enumerate(islice(lines, int(count))):
                data = json.loads(line)["text"].encode()[: options.size].decode(errors="ignore").encode()
                cases.append((kind, number, data, lose(data, options.rate, options.burst, number)))
    return cases


def lose(data: bytes, rate: float, burst: int, seed: int) -> bytes:
    """Put marks in place of some bytes."""
    if burst > 1:
        return damage(data, rate, burst=burst, seed=seed)
    lost = np.random.default_rng(seed).random(len(data)) < rate
    return b"".join(MARK.encode() if gone else bytes([byte]) for byte, gone in zip(data, lost, strict=True))


def lost_in(damaged: bytes) -> np.ndarray:
    """(L,) which bytes are lost."""
    found = read_damaged(damaged)
    lost = np.zeros(len(found.tokens), dtype=bool)
    lost[found.lost] = True
    return lost


def measure(way: Way, case: Case) -> dict[str, Any]:
    """Restore a document in one way."""
    kind, number, clean, damaged = case
    lost = lost_in(damaged)
    start = time.process_time()
    found, confidence = way(clean, damaged)
    seconds = time.process_time() - start
    right = found[lost] == np.frombuffer(clean, dtype=np.uint8)[lost]
    row: dict[str, Any] = {"kind": kind, "number": number, "bytes": len(clean), "lost": int(lost.sum())}
    row |= {"right": int(right.sum()), "cpu_seconds": seconds, "hits": right.astype(int).tolist()}
    return row if confidence is None else row | {"confidence": confidence[lost].round(4).tolist()}


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of some documents that were restored in one way."""
    lost, right, size, seconds = (
        np.array([row[key] for row in rows]) for key in ("lost", "right", "bytes", "cpu_seconds")
    )
    found: dict[str, Any] = {"documents": len(rows), "lost": int(lost.sum()), "accuracy": right.sum() / lost.sum()}
    if len(rows) >= 3:
        drawn = np.random.default_rng(0).integers(len(rows), size=(RESAMPLES, len(rows)))
        found["interval"] = np.quantile(right[drawn].sum(1) / lost[drawn].sum(1), [0.025, 0.975]).tolist()
    found["cpu_seconds_a_kilobyte"] = 1000 * seconds.sum() / size.sum()
    if "confidence" in rows[0]:
        confidence = np.concatenate([row["confidence"] for row in rows])
        hits = np.concatenate([row["hits"] for row in rows]).astype(bool)
        bins = np.minimum((10 * confidence).astype(int), 9)
        gaps = [abs(confidence[bins == one].sum() - hits[bins == one].sum()) for one in range(10)]
        found["calibration_error"] = sum(gaps) / len(hits)
        sure = confidence >= SURE
        found |= {"sure": int(sure.sum()), "right_if_sure": hits[sure].mean() if sure.any() else None}
    return found


def show(tables: dict[str, dict[str, dict[str, Any]]]) -> None:
    """Print the figures of each kind and way."""
    names = ("kind", "way", "documents", "lost", "right", "interval", "CPU s/KB", "against plain", "calibration error")
    table = Table(*names, f"right at >= {SURE}")
    for kind, ways in tables.items():
        for way, one in ways.items():
            low_high = " to ".join(f"{end:.3f}" for end in one.get("interval", []))
            cost = one["cpu_seconds_a_kilobyte"]
            ratio = f"{ways['plain']['cpu_seconds_a_kilobyte'] / cost:.1f}" if "plain" in ways else ""
            line = [kind, way, str(one["documents"]), str(one["lost"]), f"{one['accuracy']:.4f}", low_high]
            line += [f"{cost:.2f}", ratio]
            if "sure" in one:
                right = "" if one["right_if_sure"] is None else f"{one['right_if_sure']:.4f} of {one['sure']}"
                line += [f"{one['calibration_error']:.4f}", right]
            table.add_row(*line)
    Console(width=160).print(table)


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="the folder with KIND.SPLIT.jsonl.gz")
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--burst", type=int, default=1)
    parser.add_argument("--kinds", default="readme:6,prose:3,code:3", help="and how many documents of each")
    parser.add_argument("--split", default="eval")
    parser.add_argument("--size", type=int, default=2000, help="bytes of each document")
    parser.add_argument("--plain", action="store_true", help="the language model alone, too")
    parser.add_argument("--language", default="smollm2")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    cases = read_cases(options)
    model = load_language_model(options.language, "float32")
    restorer = Restorer(language_models=[model])

    def compose(damaged: bytes, effort: str) -> tuple[np.ndarray, np.ndarray]:
        found = restorer.restore(damaged, lost="bytes", effort=effort)
        return found.tokens, found.confidence

    ways: dict[str, Way] = {
        "fast": lambda _, damaged: compose(damaged, "fast"),
        "best": lambda _, damaged: compose(damaged, "best"),
    }
    if options.plain:
        ways["plain"] = lambda clean, damaged: (
            np.frombuffer(Beam(model, as_pattern(clean, lost_in(damaged))).write(), dtype=np.uint8),
            None,
        )
    for way in ways.values():
        way(SMALL, lose(SMALL, 0.1, 1, 0))  # loads what is loaded on first use
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in ways}
    for case in cases:
        for name, way in ways.items():
            row = measure(way, case)
            rows[name].append(row)
            right = f"{row['right']} of {row['lost']} right"
            print(f"{row['kind']} {row['number']} {name}: {right}, {row['cpu_seconds']:.1f} CPU s", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    kinds = [*dict.fromkeys(case[0] for case in cases)]
    tables = {
        kind: {name: summarise([row for row in found if kind in (row["kind"], "all")]) for name, found in rows.items()}
        for kind in [*kinds, "all"]
    }
    show(tables)
    print(f"peak of the process: {peak:.0f} MB")
    if options.json:
        chosen = {"rate": options.rate, "burst": options.burst, "split": options.split, "size": options.size}
        record = {"commit": commit(), "versions": versions(), "language": options.language, **chosen}
        record |= {"peak_megabytes": peak, "figures": tables, "documents": rows}
        write_atomically(options.json, (json.dumps(record) + "\n").encode())


if __name__ == "__main__":
    main()
