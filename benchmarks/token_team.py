"""Gain of adding a token expert to a team of byte experts.

    python benchmarks/token_team.py --corpora PATH --expert hf:FOLDER [--kinds prose:8,code:8,readme:8] [--rate 0.1]
                                    [--size 2000] [--json FILE]

The first ``--size`` bytes of the first documents of each kind in ``eval`` lose single bytes at ``--rate``. They are
restored by the byte experts (prose, code, config), by the token expert alone, and by all of them with one field over
bytes, each with and without memory. The table shows for each team the accuracy of the lost bytes with a 95 % interval
(bootstrap over documents), the paired difference to the byte experts, and CPU seconds on one thread.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch
from language_models import read_cases
from rich.console import Console
from rich.table import Table

from conservator import Restorer
from conservator.documents import read_damaged
from conservator.evaluation.provenance import commit, versions
from conservator.experts import load_experts
from conservator.system.files import write_atomically

BYTE_EXPERTS = "prose,code,config"
RESAMPLES = 10_000  # bootstrap samples


def interval(correct: np.ndarray, lost: np.ndarray) -> list[float]:
    """Compute the 95 % interval of a ratio of sums, by a bootstrap over documents."""
    samples = np.random.default_rng(0).integers(len(lost), size=(RESAMPLES, len(lost)))
    return [float(bound) for bound in np.quantile(correct[samples].sum(1) / lost[samples].sum(1), [0.025, 0.975])]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="folder with KIND.eval.jsonl.gz")
    parser.add_argument("--expert", required=True, help="a token expert")
    parser.add_argument("--kinds", default="prose:8,code:8,readme:8", help="kinds of documents, and the number of each")
    parser.add_argument("--rate", type=float, default=0.1, help="fraction of lost bytes")
    parser.add_argument("--size", type=int, default=2000, help="bytes per document")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.split, options.burst = "eval", 1
    torch.set_num_threads(1)
    cases = read_cases(options)
    byte_experts, token_experts = load_experts(BYTE_EXPERTS), load_experts([options.expert])
    teams = {"bytes": byte_experts, "tokens": token_experts}
    teams["bytes and tokens"] = [*byte_experts, *token_experts]
    methods = {
        f"{name}{', memory' if memory else ''}": (Restorer(team), memory)
        for memory in (False, True)
        for name, team in teams.items()
    }
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in methods}
    for kind, number, clean, damaged in cases:
        lost = read_damaged(damaged).lost
        for name, (restorer, memory) in methods.items():
            start = time.process_time()
            restoration = restorer.restore(damaged, lost="bytes", memory=memory)
            correct = int((restoration.tokens[lost] == np.frombuffer(clean, dtype=np.uint8)[lost]).sum())
            row = {"kind": kind, "number": number, "bytes": len(clean), "lost": len(lost), "right": correct}
            rows[name].append(row | {"cpu_seconds": time.process_time() - start})
        counts = {name: f"{results[-1]['right']}/{results[-1]['lost']}" for name, results in rows.items()}
        print(kind, number, counts, flush=True)
    table = Table("team", "accuracy", "interval", "gain over the byte experts", "interval", "CPU s/KB")
    summary = {}
    for name, results in rows.items():
        lost_counts, correct_counts, seconds = (
            np.array([row[key] for row in results]) for key in ("lost", "right", "cpu_seconds")
        )
        baseline = np.array([row["right"] for row in rows["bytes, memory" if name.endswith("memory") else "bytes"]])
        gained, total = correct_counts - baseline, lost_counts.sum()
        metrics: dict[str, Any] = {"accuracy": float(correct_counts.sum() / total)}
        metrics["interval"] = interval(correct_counts, lost_counts)
        metrics |= {"gain": float(gained.sum() / total), "gain_interval": interval(gained, lost_counts)}
        metrics["cpu_seconds_a_kilobyte"] = float(1000 * seconds.sum() / sum(row["bytes"] for row in results))
        summary[name] = metrics
        bounds = [" to ".join(f"{bound:.4f}" for bound in metrics[key]) for key in ("interval", "gain_interval")]
        cost = f"{metrics['cpu_seconds_a_kilobyte']:.2f}"
        table.add_row(name, f"{metrics['accuracy']:.4f}", bounds[0], f"{metrics['gain']:+.4f}", bounds[1], cost)
    Console(width=120).print(table)
    if options.json:
        settings = {"kinds": options.kinds, "rate": options.rate, "size": options.size}
        record = {"settings": settings, "expert": token_experts[0].spec.fingerprint, "summary": summary, "rows": rows}
        record |= {"commit": commit(), "versions": versions()}
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
