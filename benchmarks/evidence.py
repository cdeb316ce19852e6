"""The engines side by side on the same mixed windows: quality, network evaluations, seconds.

    python benchmarks/evidence.py --corpora PATH [--windows 128] [--particles 16] [--paper 1] [--json FILE]

Windows of 256 bytes from the ``eval`` split, at least two of prose, code and config in each and at least 64 bytes a
segment, mask rate 0.2, built-in experts. ``particles`` is the paper's algorithm: at its byte settings on ``--paper``
windows (it takes minutes a window), and at reduced ones (R 12, P 8, T 6, K 2) on ``--particles`` windows; its rows
compare with ``bayes`` on the same windows. ``bayes`` shows an expert its own context alone, after the first repeat and
while it decodes; "whole context" shows everything to everyone, as all other rows do unless they say so. Differences to
``bayes`` are paired over documents, intervals are 95 %.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from conservator.channels import MaskChannel, Observation
from conservator.decoders.predict import Reading
from conservator.experts import ByteExpert, load_experts
from conservator.field.cost import Cost
from conservator.field.infer import (
    Inferred,
    infer_by_ascent,
    infer_globally,
    infer_maximum,
    infer_with_bayes,
)
from conservator.field.particles import PRESETS, ParticleSettings, infer_particles
from conservator.files import write_atomically
from conservator.studies.mixtures import Mixtures, mix
from conservator.studies.restoration import DOMAINS, Restored, describe, given, read_domains, restore_windows
from conservator.studies.result import commit, versions

REDUCED = ParticleSettings(iterations=12, particles=8, samples=2, steps=6)
COLUMNS = ("accuracy", "reference_minus", "low", "high", "log_likelihood", "calibration_error", "field_accuracy")
COSTS = ("boundary_f1", "evaluations", "seconds", "arithmetic_share")


def first(mixed: Mixtures, observation: Observation, count: int) -> tuple[Mixtures, Observation]:
    """The first windows."""
    fewer = Mixtures(mixed.tokens[:count], mixed.labels[:count], mixed.documents[:count], mixed.names)
    return fewer, observation.channel.observe(observation.tokens[:count])


def with_particles(
    experts: Sequence[ByteExpert], observation: Observation, settings: ParticleSettings, seed: int
) -> Inferred:
    """The paper's algorithm, window by window."""
    fields, cost = [], Cost()
    for number, tokens in enumerate(observation.tokens):
        one = observation.channel.observe(tokens)
        found = infer_particles(experts, one, settings, torch.Generator().manual_seed(seed + number))
        fields.append(found.field)
        cost.add(found.cost)
    return given(torch.stack(fields), cost)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="the folder with NAME.eval.jsonl.gz")
    parser.add_argument("--experts", nargs=3, default=list(DOMAINS), help="three experts: prose, code, config")
    parser.add_argument("--windows", type=int, default=128)
    parser.add_argument("--particles", type=int, default=16, help="windows for particles at reduced settings")
    parser.add_argument("--paper", type=int, default=1, help="windows for particles at the paper's settings")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    experts = load_experts(options.experts)
    mixed = mix(read_domains(options.corpora, "eval"), options.windows, seed=options.seed)
    observation = MaskChannel(256, 0.2).corrupt(mixed.tokens, torch.Generator().manual_seed(options.seed))
    labels = torch.eye(3, dtype=torch.float64)[mixed.labels]
    own = Reading(own_context=0.05)

    def drawn() -> torch.Generator:
        return torch.Generator().manual_seed(options.seed + 1)

    runs: dict[str, tuple[Callable[[], Inferred], Reading | None]] = {
        "bayes": (lambda: infer_with_bayes(experts, observation, drawn()), own),
        "bayes, whole context": (lambda: infer_with_bayes(experts, observation, drawn(), own_context=0.0), None),
        "map": (lambda: infer_maximum(experts, observation, drawn()), None),
        "eg": (lambda: infer_by_ascent(experts, observation, drawn()), None),
        "global": (lambda: infer_globally(experts, observation, drawn()), None),
        "equal": (lambda: given(torch.full_like(labels, 1 / 3)), None),
        "hard labels": (lambda: given(labels), None),
        "hard labels, own context": (lambda: given(labels), own),
    }
    runs["bayes"][0]()  # compiles the kernels and warms the memory up: that is not part of any row
    rows: list[dict[str, object]] = []
    reference: Restored | None = None
    for name, (infer, reading) in runs.items():
        found = restore_windows(experts, mixed, observation, infer(), reading)
        reference = reference or found
        rows.append(describe(name, found, mixed.labels, reference))
    for name, count, settings in (
        ("particles, reduced", options.particles, REDUCED),
        ("particles, the paper's", options.paper, PRESETS["byte"]),
    ):
        if count:
            few, damaged = first(mixed, observation, count)
            bayes = restore_windows(experts, few, damaged, infer_with_bayes(experts, damaged, drawn()), own)
            rows.append(describe(f"bayes, first {count}", bayes, few.labels))
            particles = with_particles(experts, damaged, settings, options.seed)
            found = restore_windows(experts, few, damaged, particles)
            rows.append(describe(name, found, few.labels, bayes))

    table = Table("method", "windows", *(heading.replace("_", " ") for heading in COLUMNS + COSTS))
    for row in rows:
        shown = [f"{row[key]:.3f}" if key in row else "" for key in COLUMNS + COSTS]
        table.add_row(str(row["method"]), str(row["windows"]), *shown)
    Console(width=180).print(table)
    if options.json:
        record = {"commit": commit(), "versions": versions(), "seed": options.seed}
        record |= {"experts": {expert.spec.name: expert.spec.fingerprint for expert in experts}, "rows": rows}
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
