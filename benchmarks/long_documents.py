"""One field over a long document: seconds, evaluations and memory against its length.

    python benchmarks/long_documents.py --corpora PATH [--sizes 10000 100000 1000000] [--json FILE]

A document is made of segments of prose, code and config from ``eval``, 500 to 5,000 bytes each; one byte in twenty is
lost. The field is inferred in one piece. Cost must grow linearly: the time a byte must not grow. Each size runs in a
process of its own, so that its peak memory is its own.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch

from conservator.channels import MaskChannel
from conservator.evaluation.provenance import commit, versions
from conservator.experts import Team, load_experts
from conservator.field import Bayes
from conservator.system.files import write_atomically
from conservator.vocabularies import BYTES
from conservator_studies.corpora import DOMAINS, read_domains


def build(corpora: Path, size: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A document of ``size`` bytes, and the domain of each byte."""
    domains = list(read_domains(corpora, "eval", min_bytes=500).values())
    generator = torch.Generator().manual_seed(seed)

    def draw(stop: int) -> int:
        return int(torch.randint(stop, (1,), generator=generator))

    text, labels, label = bytearray(), [], 0
    while len(text) < size:
        label = (label + 1 + draw(len(domains) - 1)) % len(domains)
        document = domains[label][draw(len(domains[label]))]
        wanted = min(500 + draw(4500), len(document))
        start = draw(len(document) - wanted + 1)
        piece = document[start : start + wanted]
        text += piece
        labels += [label] * len(piece)
    return torch.tensor(list(text[:size])), torch.tensor(labels[:size])


def measure(options: argparse.Namespace, size: int) -> dict[str, float]:
    """Infer the field of one document."""
    experts = load_experts(options.experts)
    tokens, labels = build(options.corpora, size, options.seed)
    observation = MaskChannel(BYTES.size, 0.05).corrupt(tokens[None], torch.Generator().manual_seed(options.seed))
    start = time.perf_counter()
    found = Bayes()(Team(experts), observation, torch.Generator().manual_seed(options.seed))
    seconds = time.perf_counter() - start
    return {
        "bytes": size,
        "seconds": seconds,
        "microseconds_a_byte": 1e6 * seconds / size,
        "arithmetic_share": found.cost.arithmetic_seconds / seconds,
        "evaluations": found.cost.evaluations,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "field_accuracy": float((found.regions[0].argmax(-1) == labels).double().mean()),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="the folder with NAME.eval.jsonl.gz")
    parser.add_argument("--experts", nargs=3, default=list(DOMAINS), help="three experts: prose, code, config")
    parser.add_argument("--sizes", nargs="+", type=int, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(measure(options, options.sizes[0])))
        return
    rows = []
    common = ["--corpora", str(options.corpora), "--experts", *options.experts, "--seed", str(options.seed), "--alone"]
    for size in options.sizes:
        command = [sys.executable, __file__, *common, "--sizes", str(size)]
        row = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        rows.append(row)
        print("  ".join(f"{key.replace('_', ' ')} {value:.4g}" for key, value in row.items()), flush=True)
    if options.json:
        record = {"commit": commit(), "versions": versions(), "seed": options.seed, "rows": rows}
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
