"""Restoring a whole document: KB/s, share of the time in the networks and memory, against two alternatives.

    python benchmarks/restore.py --corpora PATH [--sizes 10000 100000 1000000] [--rates 0.01 0.05 0.2] [--json FILE]

A document is made of segments of prose, code and config from ``eval``, 500 to 5,000 bytes each. Three ways:

- product: a ``Restorer`` as it is, which chooses among the built-in experts;
- everywhere: the same, but asking all of the text which expert to trust, not only what is near damage;
- one pass: one generalist fills the marks in one reading, the floor of cost.

``--clustered`` puts all the damage into the first tenth of the document, where the first way should cost a tenth of the
second. ``read a byte`` is how many bytes the experts read together, for each byte of the document. Each run is a
process of its own, so that its peak memory is its own; it restores a small document first, so that experts, compiled
kernels and phrases are loaded. Everything runs on ``--threads`` threads, one by default: two fight for small batches.
CPU seconds are given beside wall time: other work may share the cores.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch
from long_documents import build
from torch import Tensor

from conservator import ExpertSpec, RestoreOptions, Restorer, load_experts
from conservator.channels import MaskChannel
from conservator.documents import MARK
from conservator.evaluation.provenance import commit, versions
from conservator.experts import At, ByteExpert, Context, Cost, Team
from conservator.field import Inferred
from conservator.options import EXPERTS
from conservator.reference import decode_one_step
from conservator.system.files import write_atomically
from conservator.vocabularies import BYTES

WAYS = ("product", "everywhere", "one pass")


class Measured:
    """An expert that counts the bytes it reads."""

    def __init__(self, expert: ByteExpert) -> None:
        """Nothing is read yet."""
        self.expert, self.bytes = expert, 0

    @property
    def spec(self) -> ExpertSpec:
        """The expert's description."""
        return self.expert.spec

    def predict(self, context: Context, at: At) -> Tensor:
        """What the expert predicts."""
        self.bytes += context.tokens.numel()
        return self.expert.predict(context, at)


def measure(options: argparse.Namespace, way: str, size: int, rate: float) -> dict[str, float | str]:
    """Restore one document in one way."""
    chosen = [options.generalist] if way == "one pass" else options.experts
    experts = [Measured(expert) for expert in load_experts(chosen)]
    team, restorer = Team(experts), Restorer(experts, RestoreOptions(seed=options.seed), select=True)
    raw, _ = build(options.corpora, size, options.seed)
    tokens = torch.tensor(list(bytes(raw.tolist()).decode(errors="ignore").encode()))  # no character is cut
    size = len(tokens)
    lost = torch.rand(size, generator=torch.Generator().manual_seed(options.seed)) < rate
    if options.clustered:
        lost[size // 10 :] = False
    marked = [MARK.encode() if gone else bytes([token]) for token, gone in zip(tokens.tolist(), lost, strict=True)]
    document = b"".join(marked)
    if way != "one pass":
        restorer.restore("A small na\u00efve document, in which a little is l\ufffdst.")
    else:
        team.predict(Context(tokens[None, :256], lost[None, :256]), (torch.zeros(1).long(), torch.zeros(1).long()))
    for expert in experts:
        expert.bytes = 0
    start, cpu = time.perf_counter(), time.process_time()
    if way == "one pass":
        observation = MaskChannel(BYTES.size, 0.5).observe(tokens.masked_fill(lost, BYTES.mask)[None])
        alone = Inferred.given(torch.ones(1, size, 1, dtype=torch.float64))
        decoded = decode_one_step(team, observation, alone.composition)
        restored, cost = decoded.tokens[0], decoded.cost
    else:
        evidence_radius = {} if way == "product" else {"evidence_radius": None}
        found = restorer.restore(document, **evidence_radius)
        restored, cost = torch.from_numpy(found.tokens).long(), found.cost
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    right = restored[lost] == tokens[lost]
    return {
        "way": way,
        "bytes": size,
        "rate": rate,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "kilobytes_a_second": size / seconds / 1000,
        "kilobytes_a_cpu_second": size / cpu / 1000,
        "network_share": network_share(cost),
        "read_a_byte": sum(expert.bytes for expert in experts) / size,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "accuracy": float(right.double().mean()),
    }


def network_share(cost: Cost) -> float:
    """The share of the time that the experts took."""
    return cost.expert_seconds / cost.seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="the folder with NAME.eval.jsonl.gz")
    parser.add_argument("--experts", nargs="+", default=list(EXPERTS), help="of the product")
    parser.add_argument("--generalist", default="generalist", help="what fills the marks in one pass")
    parser.add_argument("--sizes", nargs="+", type=int, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--rates", nargs="+", type=float, default=[0.01, 0.05, 0.2])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--clustered", action="store_true", help="damage the first tenth alone")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.alone:
        print(json.dumps(measure(options, options.ways[0], options.sizes[0], options.rates[0])))
        return
    rows = []
    common = ["--corpora", str(options.corpora), "--experts", *options.experts, "--seed", str(options.seed), "--alone"]
    common += ["--generalist", options.generalist, "--threads", str(options.threads)]
    common += ["--clustered"] if options.clustered else []
    for size in options.sizes:
        for rate in options.rates:
            for way in options.ways:
                command = [sys.executable, __file__, *common, "--sizes", str(size), "--rates", str(rate), "--ways", way]
                row = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
                rows.append(row)
                texts = (f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values())
                print(
                    "  ".join(f"{key.replace('_', ' ')} {text}" for key, text in zip(row, texts, strict=True)),
                    flush=True,
                )
    if options.json:
        record = {
            "commit": commit(),
            "versions": versions(),
            "seed": options.seed,
            "clustered": options.clustered,
            "rows": rows,
        }
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
