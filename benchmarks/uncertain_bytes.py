"""Restoration of overwritten tokens at unknown positions.

    python benchmarks/uncertain_bytes.py --corpora PATH [--documents 8] [--efforts fast,best] [--json FILE]
    python benchmarks/uncertain_bytes.py --windows 64 [--corpora PATH] [--rate 0.2] [--json FILE]

The first command measures the product. The first ``--size`` bytes of documents of README files and prose are
overwritten by random bytes at ``--rate``, and restored with the channel ``replacement:RATE``. The remaining errors are
overwritten bytes that are not repaired (of which some are undetected, that is, unchanged) and correct bytes that were
changed. The intervals are 95 % bootstrap intervals over documents of the ratio of errors to overwritten bytes. The harm
is the number of bytes of undamaged text that change under ``replacement:0.01``.

The second command compares iterations of the engine ``Bayes`` with uncertain tokens. In the first iteration the experts
condition on all tokens. In each further iteration, and during decoding, a token is hidden from them with the
probability that it is wrong (with 0 iterations: never). The data are sequences from two chains of 12 tokens (exact
conditionals; 64 positions in three segments) and, with ``--corpora``, mixed windows of 256 bytes from documents of
``train`` that were held out from the training of the built-in experts. The baseline copies the observed tokens; the
upper bound is one-step decoding with known damaged positions (the mask channel).
"""

import argparse
import gzip
import json
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from conservator import RestoreOptions, Restorer
from conservator.channels import MaskChannel, ReplacementChannel
from conservator.documents import damage
from conservator.evaluation.provenance import commit, versions
from conservator.experts import Team, load_experts
from conservator.field import Bayes
from conservator.reference import BigramExpert, decode_one_step, decode_with_channel, draw_particles
from conservator.system.files import write_atomically
from conservator_studies.corpora import DOMAINS, read_domains
from conservator_studies.mixtures import mix

ITERATIONS = (0, 1, 2, 3, 5)
FOLDS = 5  # folds of decoding
CORPORA = ("readme", "prose")
CLEAN_CORPORA = ("readme", "prose", "languages/de")
CLEAN_RATE = 0.01  # rate of the channel with which undamaged text is restored
RESAMPLES = 2000  # bootstrap samples
WARM_UP = b"A small document, in which a l\x02tter is wrong."


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


def read_documents(folder: Path, corpus: str, split: str, count: int, size: int) -> Iterable[bytes]:
    """Yield the first ``size`` bytes of documents that are at least as long."""
    with gzip.open(folder / f"{corpus}.{split}.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = (json.loads(line)["text"].encode() for line in lines)
        for data in islice((data for data in texts if len(data) >= size), count):
            yield data[:size].decode(errors="ignore").encode()


def restore_and_count(restorer: Restorer, clean: bytes, observed: bytes) -> Counter[str]:
    """Restore a document, and count errors and CPU milliseconds."""
    began = time.process_time()
    result = restorer.restore(observed).data
    milliseconds = round(1000 * (time.process_time() - began))
    before, after, correct = (np.frombuffer(data, dtype=np.uint8) for data in (observed, result, clean))
    overwritten, wrong = before != correct, after != correct
    return Counter(
        bytes=len(clean),
        overwritten=int(overwritten.sum()),
        not_repaired=int((overwritten & wrong).sum()),
        undetected=int((overwritten & (after == before)).sum()),
        harmed=int((~overwritten & wrong).sum()),
        errors=int(wrong.sum()),
        cpu_ms=milliseconds,
    )


def interval(rows: list[Counter[str]], seed: int) -> list[float]:
    """Return the 95 % bootstrap interval, over documents, of errors per overwritten byte."""
    counts = np.array([[row["errors"], row["overwritten"]] for row in rows])
    drawn = np.random.default_rng(seed).integers(len(rows), size=(RESAMPLES, len(rows)))
    errors, overwritten = counts[drawn].sum(axis=1).T
    return [round(float(value), 4) for value in np.percentile(errors / overwritten, (2.5, 97.5))]


def measure_product(options: argparse.Namespace) -> list[dict[str, object]]:
    """Restore overwritten documents with each effort, and undamaged documents with the effort fast."""
    rows: list[dict[str, object]] = []
    for effort in options.efforts.split(","):
        restorer = Restorer(options=RestoreOptions(effort=effort, channel=f"replacement:{options.rate}"))
        restorer.restore(WARM_UP)
        for corpus in CORPORA:
            counts = []
            texts = read_documents(options.corpora, corpus, options.split, options.documents, options.size)
            for number, clean in enumerate(texts):
                observed = damage(clean, options.rate, channel="replacement", seed=options.seed + number)
                counts.append(restore_and_count(restorer, clean, observed))
            total: Counter[str] = sum(counts, Counter())
            names = ("bytes", "overwritten", "not_repaired", "undetected", "harmed", "errors", "cpu_ms")
            row: dict[str, object] = {"corpus": corpus, "effort": effort, "documents": len(counts)}
            row |= {name: total[name] for name in names}
            row |= {"errors_per_overwritten": interval(counts, options.seed), "by_document": counts}
            rows.append(row)
            print({name: value for name, value in row.items() if name != "by_document"}, flush=True)
    restorer = Restorer(options=RestoreOptions(channel=f"replacement:{CLEAN_RATE}"))
    for corpus in CLEAN_CORPORA if options.clean else ():
        texts = list(read_documents(options.corpora, corpus, options.split, options.clean // 4000, 4000))
        counts = [restore_and_count(restorer, clean, clean) for clean in texts]
        row = {"corpus": corpus, "effort": "fast", "clean_documents": len(counts)}
        row |= {name: sum(counts, Counter())[name] for name in ("bytes", "harmed", "cpu_ms")}
        rows.append(row)
        print(row, flush=True)
    return rows


def measure_iterations(options: argparse.Namespace) -> list[dict[str, object]]:
    """Compare numbers of iterations on chains and on windows of bytes, and print a table."""
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
    return rows


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, help="folder with NAME.SPLIT.jsonl.gz")
    parser.add_argument("--documents", type=int, default=8, help="documents per corpus, for the product")
    parser.add_argument("--size", type=int, default=1200, help="bytes per document")
    parser.add_argument("--split", default="eval", choices=("train", "eval"))
    parser.add_argument("--efforts", default="fast,best")
    parser.add_argument("--clean", type=int, default=20_000, help="undamaged bytes per corpus")
    parser.add_argument("--windows", type=int, default=0, help="sequences, for the iterations of the engine")
    parser.add_argument("--experts", nargs=3, default=list(DOMAINS), help="three experts: prose, code, config")
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not options.windows and not options.corpora:
        parser.error("--corpora or --windows is needed")
    rows = measure_iterations(options) if options.windows else measure_product(options)
    if options.json:
        record = {"commit": commit(), "versions": versions(), "seed": options.seed, "rate": options.rate}
        record |= {"split": options.split, "size": options.size, "windows": options.windows, "rows": rows}
        write_atomically(options.json, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
