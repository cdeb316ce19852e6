"""What an expert over tokens adds to experts over bytes.

    python benchmarks/token_team.py --corpora PATH --expert hf:FOLDER [--kinds prose:8,code:8,readme:8] [--rate 0.1]
                                    [--size 2000] [--json FILE]

The first ``--size`` bytes of the first documents of each kind in ``eval`` lose single bytes at a rate. They are
restored by the byte experts (prose, code, config), by the token expert alone, and by all of them: one field over bytes,
without a memory and with it. Of each team: the share of the lost bytes that are right, with a 95 % interval (bootstrap
over documents), and the paired difference to the byte experts. CPU seconds, one thread.
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

BYTE = "prose,code,config"
RESAMPLES = 10_000


def interval(right: np.ndarray, lost: np.ndarray) -> list[float]:
    """The 95 % interval of a ratio of sums, by drawing documents again."""
    drawn = np.random.default_rng(0).integers(len(lost), size=(RESAMPLES, len(lost)))
    return [float(end) for end in np.quantile(right[drawn].sum(1) / lost[drawn].sum(1), [0.025, 0.975])]


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="the folder with KIND.eval.jsonl.gz")
    parser.add_argument("--expert", required=True, help="an expert over tokens")
    parser.add_argument("--kinds", default="prose:8,code:8,readme:8", help="and how many documents of each")
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--size", type=int, default=2000, help="bytes of each document")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.split, options.burst = "eval", 1
    torch.set_num_threads(1)
    cases = read_cases(options)
    networks, tokens = load_experts(BYTE), load_experts([options.expert])
    teams = {"bytes": networks, "tokens": tokens, "bytes and tokens": [*networks, *tokens]}
    ways = {
        f"{name}{', memory' if memory else ''}": (Restorer(team), memory)
        for memory in (False, True)
        for name, team in teams.items()
    }
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in ways}
    for kind, number, clean, damaged in cases:
        lost = read_damaged(damaged).lost
        for name, (restorer, memory) in ways.items():
            start = time.process_time()
            found = restorer.restore(damaged, lost="bytes", memory=memory)
            right = int((found.tokens[lost] == np.frombuffer(clean, dtype=np.uint8)[lost]).sum())
            row = {"kind": kind, "number": number, "bytes": len(clean), "lost": len(lost), "right": right}
            rows[name].append(row | {"cpu_seconds": time.process_time() - start})
        print(
            kind, number, {name: f"{some[-1]['right']}/{some[-1]['lost']}" for name, some in rows.items()}, flush=True
        )
    table = Table("team", "right", "interval", "above the byte experts", "interval", "CPU s/KB")
    summary = {}
    for name, some in rows.items():
        lost, right, seconds = (np.array([row[key] for row in some]) for key in ("lost", "right", "cpu_seconds"))
        base = np.array([row["right"] for row in rows["bytes, memory" if name.endswith("memory") else "bytes"]])
        one = {"accuracy": float(right.sum() / lost.sum()), "interval": interval(right, lost)}
        one |= {"gain": float((right - base).sum() / lost.sum()), "gain_interval": interval(right - base, lost)}
        one["cpu_seconds_a_kilobyte"] = float(1000 * seconds.sum() / sum(row["bytes"] for row in some))
        summary[name] = one
        ends = [" to ".join(f"{end:.4f}" for end in one[key]) for key in ("interval", "gain_interval")]
        cost = f"{one['cpu_seconds_a_kilobyte']:.2f}"
        table.add_row(name, f"{one['accuracy']:.4f}", ends[0], f"{one['gain']:+.4f}", ends[1], cost)
    Console(width=120).print(table)
    if options.json:
        settings = {"kinds": options.kinds, "rate": options.rate, "size": options.size}
        print_of = tokens[0].spec.fingerprint
        record = {"settings": settings, "expert": print_of, "summary": summary, "rows": rows}
        record |= {"commit": commit(), "versions": versions()}
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
