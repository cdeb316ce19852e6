"""Quality and network evaluations by number of folds, weight grid, context and prior, on tuning data.

    python benchmarks/schedules.py --corpora PATH [--windows 96] [--json FILE]

Mixed windows of 256 bytes at mask rate 0.2, from documents of ``train`` that were held out from the training of the
built-in experts. The settings are chosen on these windows and reported on ``eval``.
"""

import argparse
import json
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from conservator.channels import MaskChannel
from conservator.evaluation.provenance import commit, versions
from conservator.experts import Team, load_experts
from conservator.field import Bayes, Folds, constant, laplace, sticky, two_level
from conservator.system.files import write_atomically
from conservator.vocabularies import BYTES
from conservator_studies.corpora import DOMAINS, read_domains
from conservator_studies.mixtures import mix
from conservator_studies.restoration import describe, restore_windows

FOLDS = [Folds(*pair) for pair in ((2, 1), (3, 1), (5, 1), (10, 1), (2, 2), (3, 2), (5, 2), (2, 3), (2, 5))]
PRIORS = {
    "constant": constant,
    "laplace 3": lambda weights: laplace(weights, 3.0),
    "sticky 0.01": lambda weights: sticky(weights, 0.01),
    "two-level 0.003 0.2 0.8": lambda weights: two_level(weights, 0.003, 0.2, 0.8),
    "two-level 0.003 0.2 0.95": lambda weights: two_level(weights, 0.003, 0.2, 0.95),
    "two-level 0.003 0.05 0.95": lambda weights: two_level(weights, 0.003, 0.05, 0.95),
    "two-level 0.001 0.2 0.95": lambda weights: two_level(weights, 0.001, 0.2, 0.95),
    "two-level 0.0003 0.2 0.95": lambda weights: two_level(weights, 0.0003, 0.2, 0.95),
    "two-level 0.01 0.2 0.95": lambda weights: two_level(weights, 0.01, 0.2, 0.95),
}
COLUMNS = (
    "evaluations",
    "accuracy",
    "log_likelihood",
    "calibration_error",
    "field_accuracy",
    "boundary_f1",
    "evidence",
)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="folder with NAME.train.jsonl.gz")
    parser.add_argument("--experts", nargs=3, default=list(DOMAINS), help="three experts: prose, code, config")
    parser.add_argument("--windows", type=int, default=96)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    team = Team(load_experts(options.experts))
    mixed = mix(read_domains(options.corpora, "train", held_out=True), options.windows, seed=options.seed)
    observation = MaskChannel(BYTES.size, 0.2).corrupt(mixed.tokens, torch.Generator().manual_seed(options.seed))
    rows = []

    def run(name: str, **settings: object) -> None:
        generator = torch.Generator().manual_seed(options.seed)
        inferred = Bayes(**settings)(team, observation, generator)
        restored = restore_windows(team, mixed, observation, inferred)
        evidence = sum(outcome.log_evidence for outcome in inferred.outcomes) / options.windows
        rows.append({**describe(name, restored, mixed.labels), "evidence": evidence})

    for folds in FOLDS:
        run(f"{folds.count} folds x {folds.repeats}", folds=folds)
    for resolution in (1, 2, 4):
        run(f"grid of resolution {resolution}", resolution=resolution)
    for domain_threshold in (0.0, 0.01, 0.05, 0.2):
        run(f"in-domain context {domain_threshold}", domain_threshold=domain_threshold)
    for name, prior in PRIORS.items():
        run(name, priors=lambda weights, prior=prior: [prior(weights)])

    table = Table("setting", *(heading.replace("_", " ") for heading in COLUMNS))
    for row in rows:
        table.add_row(str(row["method"]), *(f"{row[key]:.4g}" if key in row else "" for key in COLUMNS))
    Console(width=140).print(table)
    if options.json:
        record = {"commit": commit(), "versions": versions(), "seed": options.seed, "windows": options.windows}
        record |= {"experts": {expert.spec.name: expert.spec.fingerprint for expert in team.experts}, "rows": rows}
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
