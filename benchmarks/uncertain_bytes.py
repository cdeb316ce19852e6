"""Restoration of overwritten tokens at unknown positions, by iterations with uncertain tokens.

    python benchmarks/uncertain_bytes.py [--corpora PATH] [--windows 64] [--rate 0.2] [--json FILE]

Random tokens overwrite tokens at ``--rate``; their positions are unknown. In the first iteration the experts condition
on all tokens. In each further iteration, and during decoding, a token is hidden from them with the probability that it
is wrong (with 0 iterations: never). The data are sequences from two chains of 12 tokens (exact conditionals; 64
positions in three segments) and, with ``--corpora``, mixed windows of 256 bytes from documents of ``train`` that were
held out from the training of the built-in experts. The baseline copies the observed tokens; the upper bound is one-step
decoding with known damaged positions (the mask channel).
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from conservator.channels import MaskChannel, ReplacementChannel
from conservator.evaluation.provenance import commit, versions
from conservator.experts import Team, load_experts
from conservator.field import Bayes
from conservator.reference import BigramExpert, decode_one_step, decode_with_channel, draw_particles
from conservator.system.files import write_atomically
from conservator_studies.corpora import DOMAINS, read_domains
from conservator_studies.mixtures import mix

ITERATIONS = (0, 1, 2, 3, 5)
FOLDS = 5  # folds of decoding


def chains(count: int, seed: int) -> tuple[Team, Tensor, Tensor]:
    """Make two random chains, and sequences of three segments: first, second, first chain."""
    generator = torch.Generator().manual_seed(seed)
    team = Team([BigramExpert.random(12, 2.0, generator, f"chain {number}") for number in range(2)])
    labels = torch.tensor([0] * 21 + [1] * 22 + [0] * 21)
    hidden = torch.ones(count, 64, dtype=torch.bool)
    tokens = torch.zeros(count, 64, dtype=torch.long)
    field = torch.eye(2, dtype=torch.float64)[labels]
    return team, draw_particles(team, field, tokens, hidden, 64, generator), labels.expand(count, -1)


def measure(name: str, team: Team, clean: Tensor, labels: Tensor, rate: float, seed: int) -> list[dict[str, object]]:
    """Restore overwritten tokens with each number of iterations."""
    size = team.vocabulary.size
    observation = ReplacementChannel(size, rate).corrupt(clean, torch.Generator().manual_seed(seed))
    wrong = observation.tokens != clean
    rows: list[dict[str, object]] = []

    def add_row(method: str, tokens: Tensor, regions: Tensor | None = None, evaluations: float = 0) -> None:
        correct = tokens == clean
        metrics: dict[str, object] = {"data": name, "method": method, "accuracy": float(correct.double().mean())}
        metrics["repaired"] = float(correct[wrong].double().mean())
        metrics["harmed"] = float((~correct[~wrong]).double().mean())
        metrics["evaluations"] = evaluations / len(clean)
        if regions is not None:
            metrics["field_accuracy"] = float((regions.argmax(-1) == labels).double().mean())
        rows.append(metrics)

    add_row("copy", observation.tokens)
    for iterations in ITERATIONS:
        generator = torch.Generator().manual_seed(seed)
        inferred = Bayes(iterations=max(1, iterations))(team, observation, generator)
        if iterations == 0:
            inferred = replace(inferred, error_probs=torch.zeros_like(inferred.error_probs))
        decoded = decode_with_channel(team, observation, inferred, FOLDS, generator)
        evaluations = inferred.cost.evaluations + decoded.cost.evaluations
        add_row(f"{iterations} iterations", decoded.tokens, inferred.regions, evaluations)
    masked = MaskChannel(size, rate).observe(observation.tokens.masked_fill(wrong, size))
    inferred = Bayes()(team, masked, torch.Generator().manual_seed(seed))
    decoded = decode_one_step(team, masked, inferred.composition)
    evaluations = inferred.cost.evaluations + decoded.cost.evaluations
    add_row("known positions", decoded.tokens, inferred.regions, evaluations)
    return rows


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, help="folder with NAME.train.jsonl.gz, for byte windows")
    parser.add_argument("--experts", nargs=3, default=list(DOMAINS), help="three experts: prose, code, config")
    parser.add_argument("--windows", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    team, clean, labels = chains(options.windows, options.seed)
    rows = measure("two chains", team, clean, labels, options.rate, options.seed)
    if options.corpora:
        domains = read_domains(options.corpora, "train", held_out=True)
        mixed = mix(domains, options.windows, seed=options.seed)
        trained = Team(load_experts(options.experts))
        rows += measure("bytes", trained, mixed.tokens, mixed.labels, options.rate, options.seed)

    columns = ("accuracy", "repaired", "harmed", "field_accuracy", "evaluations")
    table = Table("data", "method", *(heading.replace("_", " ") for heading in columns))
    for row in rows:
        cells = [f"{row[key]:.4g}" if key in row else "" for key in columns]
        table.add_row(str(row["data"]), str(row["method"]), *cells)
    Console(width=120).print(table)
    if options.json:
        record = {"commit": commit(), "versions": versions(), "seed": options.seed, "rate": options.rate}
        record |= {"windows": options.windows, "rows": rows}
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
