"""Inference of one field over a long document: seconds, evaluations and memory by length.

    python benchmarks/long_documents.py --corpora PATH [--sizes 10000 100000 1000000] [--json FILE]

A document consists of segments of prose, code and config from ``eval``, 500 to 5,000 bytes each; 5 % of its bytes are
lost. The field of the whole document is inferred at once. The cost must be linear: the time per byte must not grow.
Each size runs in a separate process, so that peak memory is measured per size.
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


def make_document(corpora: Path, size: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Make a document of ``size`` bytes; return its bytes and the domain of each byte."""
    domains = list(read_domains(corpora, "eval", min_bytes=500).values())
    generator = torch.Generator().manual_seed(seed)

    def draw(stop: int) -> int:
        return int(torch.randint(stop, (1,), generator=generator))

    text, labels, label = bytearray(), [], 0
    while len(text) < size:
        label = (label + 1 + draw(len(domains) - 1)) % len(domains)
        document = domains[label][draw(len(domains[label]))]
        length = min(500 + draw(4500), len(document))
        start = draw(len(document) - length + 1)
        segment = document[start : start + length]
        text += segment
        labels += [label] * len(segment)
    return torch.tensor(list(text[:size])), torch.tensor(labels[:size])


def measure(options: argparse.Namespace, size: int) -> dict[str, float]:
    """Infer the field of a document."""
    experts = load_experts(options.experts)
    tokens, labels = make_document(options.corpora, size, options.seed)
    observation = MaskChannel(BYTES.size, 0.05).corrupt(tokens[None], torch.Generator().manual_seed(options.seed))
    start = time.perf_counter()
    inferred = Bayes()(Team(experts), observation, torch.Generator().manual_seed(options.seed))
    seconds = time.perf_counter() - start
    return {
        "bytes": size,
        "seconds": seconds,
        "microseconds_a_byte": 1e6 * seconds / size,
        "arithmetic_share": inferred.cost.arithmetic_seconds / seconds,
        "evaluations": inferred.cost.evaluations,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "field_accuracy": float((inferred.regions[0].argmax(-1) == labels).double().mean()),
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="folder with NAME.eval.jsonl.gz")
    parser.add_argument("--experts", nargs=3, default=list(DOMAINS), help="three experts: prose, code, config")
    parser.add_argument("--sizes", nargs="+", type=int, default=[10_000, 100_000, 1_000_000], help="bytes")
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
