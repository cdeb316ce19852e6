"""Comparison of the engines on the same mixed windows: quality, network evaluations, seconds.

    python benchmarks/evidence.py --corpora PATH [--windows 128] [--particles 16] [--paper 1] [--json FILE]

Windows of 256 bytes from the ``eval`` split with at least two of prose, code and config and at least 64 bytes per
segment, mask rate 0.2, built-in experts. ``particles`` is the paper's algorithm, with its byte settings on ``--paper``
windows (minutes per window) and with reduced settings (R 12, P 8, T 6, K 2) on ``--particles`` windows; these rows are
compared with ``bayes`` on the same windows. ``bayes`` restricts each expert to in-domain context after the first repeat
and during decoding. All other rows use the whole context unless stated otherwise. Differences to ``bayes`` are paired
over documents; intervals are 95 %.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from conservator.channels import MaskChannel
from conservator.decoders import ContextPolicy
from conservator.evaluation.provenance import commit, versions
from conservator.experts import Team, load_experts
from conservator.field import GLOBAL, Bayes, Inferred
from conservator.reference import PRESETS, Ascent, Maximum
from conservator.system.files import write_atomically
from conservator.vocabularies import BYTES
from conservator_studies.baselines import Setting
from conservator_studies.corpora import DOMAINS, read_domains
from conservator_studies.mixtures import mix
from conservator_studies.restoration import Restored, describe, restore_windows

COLUMNS = (
    "accuracy",
    "difference",
    "difference_low",
    "difference_high",
    "log_likelihood",
    "calibration_error",
    "field_accuracy",
)
COSTS = ("boundary_f1", "evaluations", "seconds", "arithmetic_share")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="folder with NAME.eval.jsonl.gz")
    parser.add_argument("--experts", nargs=3, default=list(DOMAINS), help="three experts: prose, code, config")
    parser.add_argument("--windows", type=int, default=128)
    parser.add_argument("--particles", type=int, default=16, help="windows for particles at reduced settings")
    parser.add_argument("--paper", type=int, default=1, help="windows for particles at the paper's settings")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    team = Team(load_experts(options.experts))
    mixed = mix(read_domains(options.corpora, "eval"), options.windows, seed=options.seed)
    observation = MaskChannel(BYTES.size, 0.2).corrupt(mixed.tokens, torch.Generator().manual_seed(options.seed))
    labels = torch.eye(3, dtype=torch.float64)[mixed.labels]
    in_domain = ContextPolicy(domain_threshold=0.05)

    def make_generator() -> torch.Generator:
        return torch.Generator().manual_seed(options.seed + 1)

    runs: dict[str, tuple[Callable[[], Inferred], ContextPolicy | None]] = {
        "bayes": (lambda: Bayes()(team, observation, make_generator()), in_domain),
        "bayes, whole context": (lambda: Bayes(domain_threshold=0.0)(team, observation, make_generator()), None),
        "map": (lambda: Maximum()(team, observation, make_generator()), None),
        "eg": (lambda: Ascent()(team, observation, make_generator()), None),
        "global": (lambda: GLOBAL(team, observation, make_generator()), None),
        "equal": (lambda: Inferred.given(torch.full_like(labels, 1 / 3)), None),
        "hard labels": (lambda: Inferred.given(labels), None),
        "hard labels, in-domain context": (lambda: Inferred.given(labels), in_domain),
    }
    runs["bayes"][0]()  # warm-up: compiles the kernels
    rows: list[dict[str, object]] = []
    reference: Restored | None = None
    for name, (infer, policy) in runs.items():
        restored = restore_windows(team, mixed, observation, infer(), policy)
        reference = reference or restored
        rows.append(describe(name, restored, mixed.labels, reference))
    for name, count, settings in (
        ("particles, reduced", options.particles, PRESETS["reduced"]),
        ("particles, the paper's", options.paper, PRESETS["byte"]),
    ):
        if count:
            subset = mixed.first(count)
            observed = observation[:count]
            bayes = restore_windows(team, subset, observed, Bayes()(team, observed, make_generator()), in_domain)
            rows.append(describe(f"bayes, first {count}", bayes, subset.labels))
            particles = Setting(team, observed, subset.labels, options.seed, particles=settings).algorithm_1()
            restored = restore_windows(team, subset, observed, particles)
            rows.append(describe(name, restored, subset.labels, bayes))

    table = Table("method", "windows", *(heading.replace("_", " ") for heading in COLUMNS + COSTS))
    for row in rows:
        cells = [f"{row[key]:.3f}" if key in row else "" for key in COLUMNS + COSTS]
        table.add_row(str(row["method"]), str(row["windows"]), *cells)
    Console(width=180).print(table)
    if options.json:
        record = {"commit": commit(), "versions": versions(), "seed": options.seed}
        record |= {"experts": {expert.spec.name: expert.spec.fingerprint for expert in team.experts}, "rows": rows}
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
