"""Gain and cost of rescoring with a language model, compared with a language model alone.

    python benchmarks/language_models.py --corpora PATH [--rate 0.1] [--burst 1] [--kinds readme:6,prose:3,code:3]
                                         [--split eval] [--size 2000] [--plain] [--json FILE]

The first ``--size`` bytes of the first documents of each kind lose bytes at ``--rate``, in bursts of ``--burst`` bytes.
Three methods restore them:

- fast: networks and memory;
- best: the same, then a language model rescores the bytes with low confidence;
- plain (with ``--plain``; slow): beam search with the language model alone (``plain_beam.py``).

All methods use one thread, and the language model computes in float32. CPU seconds exclude loading. The table shows for
each kind the accuracy of the lost bytes with a 95 % interval (bootstrap over documents), CPU seconds per KB, the
calibration error in ten bins, and the accuracy of the bytes with a confidence of at least 0.9.
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
from plain_beam import BeamSearch, as_pattern
from rich.console import Console
from rich.table import Table

from conservator import Restorer
from conservator.documents import MARK, damage, read_damaged
from conservator.evaluation.provenance import commit, versions
from conservator.experts.language_models import load_language_model
from conservator.system.files import write_atomically

MIN_CONFIDENCE = 0.9  # confidence of a confident byte
RESAMPLES = 10_000  # bootstrap samples
WARM_UP = b"A small document, in which a little is lost."
Case = tuple[str, int, bytes, bytes]  # kind, number, clean, damaged
Method = Callable[[bytes, bytes], tuple[np.ndarray, np.ndarray | None]]  # clean, damaged -> bytes, confidence


def read_cases(options: argparse.Namespace) -> list[Case]:
    """Read and damage the documents."""
    cases = []
    for kind, count in (item.split(":") for item in options.kinds.split(",")):
        with gzip.open(options.corpora / f"{kind}.{options.split}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for number, line in enumerate(islice(lines, int(count))):
                data = json.loads(line)["text"].encode()[: options.size].decode(errors="ignore").encode()
                cases.append((kind, number, data, lose(data, options.rate, options.burst, number)))
    return cases


def lose(data: bytes, rate: float, burst: int, seed: int) -> bytes:
    """Replace bytes by marks, at a rate or in bursts."""
    if burst > 1:
        return damage(data, rate, burst=burst, seed=seed)
    lost = np.random.default_rng(seed).random(len(data)) < rate
    return b"".join(MARK.encode() if is_lost else bytes([byte]) for byte, is_lost in zip(data, lost, strict=True))


def lost_in(damaged: bytes) -> np.ndarray:
    """Return (L,) whether each byte is lost."""
    document = read_damaged(damaged)
    lost = np.zeros(len(document.tokens), dtype=bool)
    lost[document.lost] = True
    return lost


def measure(method: Method, case: Case) -> dict[str, Any]:
    """Restore a document with a method."""
    kind, number, clean, damaged = case
    lost = lost_in(damaged)
    start = time.process_time()
    restored, confidence = method(clean, damaged)
    seconds = time.process_time() - start
    correct = restored[lost] == np.frombuffer(clean, dtype=np.uint8)[lost]
    row: dict[str, Any] = {"kind": kind, "number": number, "bytes": len(clean), "lost": int(lost.sum())}
    row |= {"right": int(correct.sum()), "cpu_seconds": seconds, "hits": correct.astype(int).tolist()}
    return row if confidence is None else row | {"confidence": confidence[lost].round(4).tolist()}


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Compute the metrics of a method over documents."""
    lost, correct, size, seconds = (
        np.array([row[key] for row in rows]) for key in ("lost", "right", "bytes", "cpu_seconds")
    )
    metrics: dict[str, Any] = {"documents": len(rows), "lost": int(lost.sum()), "accuracy": correct.sum() / lost.sum()}
    if len(rows) >= 3:
        samples = np.random.default_rng(0).integers(len(rows), size=(RESAMPLES, len(rows)))
        metrics["interval"] = np.quantile(correct[samples].sum(1) / lost[samples].sum(1), [0.025, 0.975]).tolist()
    metrics["cpu_seconds_a_kilobyte"] = 1000 * seconds.sum() / size.sum()
    if "confidence" in rows[0]:
        confidence = np.concatenate([row["confidence"] for row in rows])
        hits = np.concatenate([row["hits"] for row in rows]).astype(bool)
        bins = np.minimum((10 * confidence).astype(int), 9)
        gaps = [abs(confidence[bins == index].sum() - hits[bins == index].sum()) for index in range(10)]
        metrics["calibration_error"] = sum(gaps) / len(hits)
        confident = confidence >= MIN_CONFIDENCE
        metrics |= {"confident": int(confident.sum())}
        metrics["right_if_confident"] = hits[confident].mean() if confident.any() else None
    return metrics


def show(tables: dict[str, dict[str, dict[str, Any]]]) -> None:
    """Print the metrics of each kind and method."""
    names = (
        "kind",
        "method",
        "documents",
        "lost",
        "accuracy",
        "interval",
        "CPU s/KB",
        "speed-up to plain",
        "calibration error",
    )
    table = Table(*names, f"accuracy at >= {MIN_CONFIDENCE}")
    for kind, methods in tables.items():
        for method, metrics in methods.items():
            interval = " to ".join(f"{end:.3f}" for end in metrics.get("interval", []))
            cost = metrics["cpu_seconds_a_kilobyte"]
            ratio = f"{methods['plain']['cpu_seconds_a_kilobyte'] / cost:.1f}" if "plain" in methods else ""
            cells = [
                kind,
                method,
                str(metrics["documents"]),
                str(metrics["lost"]),
                f"{metrics['accuracy']:.4f}",
                interval,
            ]
            cells += [f"{cost:.2f}", ratio]
            if "confident" in metrics:
                accuracy = metrics["right_if_confident"]
                confident = "" if accuracy is None else f"{accuracy:.4f} of {metrics['confident']}"
                cells += [f"{metrics['calibration_error']:.4f}", confident]
            table.add_row(*cells)
    Console(width=160).print(table)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="folder with KIND.SPLIT.jsonl.gz")
    parser.add_argument("--rate", type=float, default=0.1, help="fraction of lost bytes")
    parser.add_argument("--burst", type=int, default=1, help="bytes per burst")
    parser.add_argument("--kinds", default="readme:6,prose:3,code:3", help="kinds of documents, and the number of each")
    parser.add_argument("--split", default="eval")
    parser.add_argument("--size", type=int, default=2000, help="bytes per document")
    parser.add_argument("--plain", action="store_true", help="also run the language model alone")
    parser.add_argument("--language", default="smollm2", help="name or folder of the language model")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    cases = read_cases(options)
    model = load_language_model(options.language, "float32")
    restorer = Restorer(language_models=[model])

    def restore(damaged: bytes, effort: str) -> tuple[np.ndarray, np.ndarray]:
        restoration = restorer.restore(damaged, lost="bytes", effort=effort)
        return restoration.tokens, restoration.confidence

    methods: dict[str, Method] = {
        "fast": lambda _, damaged: restore(damaged, "fast"),
        "best": lambda _, damaged: restore(damaged, "best"),
    }
    if options.plain:
        methods["plain"] = lambda clean, damaged: (
            np.frombuffer(BeamSearch(model, as_pattern(clean, lost_in(damaged))).run(), dtype=np.uint8),
            None,
        )
    for method in methods.values():
        method(WARM_UP, lose(WARM_UP, 0.1, 1, 0))  # warm-up: loads models and kernels
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in methods}
    for case in cases:
        for name, method in methods.items():
            row = measure(method, case)
            rows[name].append(row)
            accuracy = f"{row['right']} of {row['lost']} correct"
            print(f"{row['kind']} {row['number']} {name}: {accuracy}, {row['cpu_seconds']:.1f} CPU s", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    kinds = [*dict.fromkeys(case[0] for case in cases)]
    tables = {
        kind: {
            name: summarise([row for row in results if kind in (row["kind"], "all")]) for name, results in rows.items()
        }
        for kind in [*kinds, "all"]
    }
    show(tables)
    print(f"peak memory: {peak:.0f} MB")
    if options.json:
        settings = {"rate": options.rate, "burst": options.burst, "split": options.split, "size": options.size}
        record = {"commit": commit(), "versions": versions(), "language": options.language, **settings}
        record |= {"peak_megabytes": peak, "figures": tables, "documents": rows}
        write_atomically(options.json, (json.dumps(record) + "\n").encode())


if __name__ == "__main__":
    main()
