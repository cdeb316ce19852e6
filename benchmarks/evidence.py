"""The engines side by side on the same mixed windows: quality, network evaluations, seconds.

    python benchmarks/evidence.py --corpora PATH [--windows 128] [--particles 16] [--paper 1] [--json FILE]

Windows of 256 bytes from the ``eval`` split, at least two of prose, code and config in each and at least 64 bytes a
segment, mask rate 0.2, built-in experts. ``particles`` is the paper's algorithm: at its byte settings on ``--paper``
windows (it takes minutes a window), and at reduced ones (R 12, P 8, T 6, K 2) on ``--particles`` windows; its rows
compare with ``bayes`` on the same windows. Differences to ``bayes`` are paired over documents, intervals are 95 %.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from conservator.channels import MaskChannel, Observation
from conservator.decoders.predict import Reading, predict
from conservator.experts.corpus import read_corpus
from conservator.experts.library import load_experts
from conservator.experts.strip import FILTERS
from conservator.field.composite import Cost
from conservator.field.composition import Composition
from conservator.field.infer import Inferred, infer_by_ascent, infer_globally, infer_maximum, infer_with_bayes
from conservator.field.particles import PRESETS, ParticleSettings, infer_particles
from conservator.files import write_atomically
from conservator.studies.metrics import boundary_f1, calibration_error, per_document
from conservator.studies.mixtures import Mixtures, mix
from conservator.studies.result import commit, versions

NAMES = ("prose", "code", "config")
STRIP = {"code": "python-comments", "config": "yaml-comments"}
REDUCED = ParticleSettings(iterations=12, particles=8, samples=2, steps=6)


@dataclass(frozen=True)
class Outcome:
    """What an engine did on some windows: hidden positions only."""

    right: Tensor
    confidence: Tensor
    log_likelihood: float
    documents: Tensor
    regions: Tensor | None
    cost: Cost


def fixed(field: Tensor, cost: Cost | None = None) -> Inferred:
    """A field that is given, not inferred."""
    composition = Composition.of_field(field)
    nothing = torch.zeros(field.shape[:2])
    return Inferred(composition, field, field, nothing, ~nothing.bool().any(-1), (), cost or Cost())


def restore(experts, mixed: Mixtures, observation: Observation, inferred: Inferred, reading: Reading) -> Outcome:
    """Decode in one step, and compare with the truth."""
    started, spent = time.perf_counter(), inferred.cost.expert_seconds
    cost = Cost()
    cost.add(inferred.cost)
    right, confidence, documents, total = [], [], [], 0.0
    tokens = observation.tokens.masked_fill(observation.hidden, 0)
    for said, log_probs in predict(experts, tokens, observation.hidden, inferred.composition, cost, reading):
        truth = mixed.tokens[said.sequence, said.position]
        best, chosen = log_probs.max(-1)
        right.append(chosen == truth)
        confidence.append(best.exp())
        documents.append(mixed.documents[said.sequence, said.position])
        total += float(log_probs.gather(-1, truth[:, None]).sum())
    cost.arithmetic_seconds += time.perf_counter() - started - (cost.expert_seconds - spent)
    hits = torch.cat(right)
    varies = bool((inferred.regions != inferred.regions[:, :1]).any())
    regions = inferred.regions.argmax(-1) if varies else None
    return Outcome(hits, torch.cat(confidence), total / len(hits), torch.cat(documents), regions, cost)


def difference(ours: Outcome, other: Outcome) -> tuple[float, float, float]:
    """The mean over documents of the difference in accuracy, with its bootstrap interval."""
    paired = per_document(ours.right, ours.documents) - per_document(other.right, other.documents)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(len(paired), (10_000, len(paired)), generator=generator)
    low, high = paired[drawn].mean(-1).quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return float(paired.mean()), low, high


def describe(name: str, outcome: Outcome, truth: Tensor, reference: Outcome | None) -> dict[str, object]:
    """A row of the table."""
    windows = len(truth)
    row: dict[str, object] = {
        "engine": name,
        "windows": windows,
        "accuracy": float(outcome.right.double().mean()),
        "log_likelihood": outcome.log_likelihood,
        "calibration_error": calibration_error(outcome.confidence, outcome.right),
        "evaluations": outcome.cost.evaluations / windows,
        "seconds": (outcome.cost.expert_seconds + outcome.cost.arithmetic_seconds) / windows,
        "arithmetic_share": outcome.cost.arithmetic_seconds
        / max(1e-9, outcome.cost.expert_seconds + outcome.cost.arithmetic_seconds),
    }
    if outcome.regions is not None:
        row["field_accuracy"] = float((outcome.regions == truth).double().mean())
        row["boundary_f1"] = boundary_f1(outcome.regions, truth)
    if reference is not None and reference is not outcome:
        value, low, high = difference(reference, outcome)
        row |= {"bayes_minus": value, "low": low, "high": high}
    return row


def part(mixed: Mixtures, observation: Observation, count: int) -> tuple[Mixtures, Observation]:
    """The first windows."""
    fewer = Mixtures(mixed.tokens[:count], mixed.labels[:count], mixed.documents[:count], mixed.names)
    return fewer, observation.channel.observe(observation.tokens[:count])


def with_particles(experts, observation: Observation, settings: ParticleSettings, seed: int) -> Inferred:
    """The paper's algorithm, window by window."""
    fields, cost, started = [], Cost(), time.perf_counter()
    for number, tokens in enumerate(observation.tokens):
        one = observation.channel.observe(tokens)
        found = infer_particles(experts, one, settings, torch.Generator().manual_seed(seed + number))
        fields.append(found.field)
        cost.evaluations += found.evaluations
    cost.expert_seconds = time.perf_counter() - started  # almost all of it; the rest is not told apart
    return fixed(torch.stack(fields), cost)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="the folder with NAME.eval.jsonl.gz")
    parser.add_argument("--split", default="eval")
    parser.add_argument("--experts", nargs=3, default=NAMES, help="three experts: prose, code, config")
    parser.add_argument("--windows", type=int, default=128)
    parser.add_argument("--particles", type=int, default=16, help="windows for particles at reduced settings")
    parser.add_argument("--paper", type=int, default=1, help="windows for particles at the paper's settings")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    experts = load_experts(options.experts)
    domains = {}
    for name in NAMES:
        path = options.corpora / f"{name}.{options.split}.jsonl.gz"
        filters = {path: FILTERS[STRIP[name]]} if name in STRIP else {}
        domains[name] = [text for text in read_corpus([path], filters).documents if len(text) >= 256]
    mixed = mix(domains, options.windows, seed=options.seed)
    observation = MaskChannel(256, 0.2).corrupt(mixed.tokens, torch.Generator().manual_seed(options.seed))
    truth, shape = mixed.labels, (*mixed.labels.shape, 3)
    seen, own = Reading(), Reading(own_context=0.05)

    def drawn() -> torch.Generator:
        return torch.Generator().manual_seed(options.seed + 1)

    labels = torch.eye(3, dtype=torch.float64)[truth]
    runs: dict[str, Callable[[], Outcome]] = {
        "bayes": lambda: restore(experts, mixed, observation, infer_with_bayes(experts, observation, drawn()), seen),
        "bayes, own context": lambda: restore(
            experts, mixed, observation, infer_with_bayes(experts, observation, drawn()), own
        ),
        "map": lambda: restore(experts, mixed, observation, infer_maximum(experts, observation, drawn()), seen),
        "eg": lambda: restore(experts, mixed, observation, infer_by_ascent(experts, observation, drawn()), seen),
        "global": lambda: restore(experts, mixed, observation, infer_globally(experts, observation, drawn()), seen),
        "equal": lambda: restore(experts, mixed, observation, fixed(torch.full(shape, 1 / 3)), seen),
        "hard labels": lambda: restore(experts, mixed, observation, fixed(labels), seen),
        "hard labels, own context": lambda: restore(experts, mixed, observation, fixed(labels), own),
    }
    rows, reference = [], None
    for name, run in runs.items():
        outcome = run()
        reference = reference or outcome
        rows.append(describe(name, outcome, truth, reference))
    for name, count, settings in (
        ("particles, reduced", options.particles, REDUCED),
        ("particles, the paper's", options.paper, PRESETS["byte"]),
    ):
        if count:
            few, damaged = part(mixed, observation, count)
            bayes = restore(experts, few, damaged, infer_with_bayes(experts, damaged, drawn()), seen)
            rows.append(describe(f"bayes, first {count}", bayes, few.labels, None))
            found = restore(experts, few, damaged, with_particles(experts, damaged, settings, options.seed), seen)
            rows.append(describe(name, found, few.labels, bayes))

    headings = ["accuracy", "bayes_minus", "low", "high", "log_likelihood", "calibration_error", "field_accuracy"]
    headings += ["boundary_f1", "evaluations", "seconds", "arithmetic_share"]
    table = Table("engine", "windows", *(heading.replace("_", " ") for heading in headings))
    for row in rows:
        shown = [f"{row[key]:.3f}" if key in row else "" for key in headings]
        table.add_row(str(row["engine"]), str(row["windows"]), *shown)
    Console(width=180).print(table)
    if options.json:
        record = {"commit": commit(), "versions": versions(), "seed": options.seed, "split": options.split}
        record |= {"experts": {expert.spec.name: expert.spec.fingerprint for expert in experts}, "rows": rows}
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
