"""Restoration of whole documents: throughput, share of the time in the experts, and memory, for three methods.

    python benchmarks/restore.py --corpora PATH [--sizes 10000 100000 1000000] [--rates 0.01 0.05 0.2] [--json FILE]

A document consists of segments of prose, code and config from ``eval``, 500 to 5,000 bytes each. The methods:

- product: a ``Restorer`` with default options, which selects among the built-in experts;
- everywhere: the same, with evidence for the weights from the whole document, not only near damage;
- one pass: one generalist fills the marks in one forward pass, a lower bound of the cost.

``--clustered`` puts all the damage into the first tenth of the document, where "product" should cost a tenth of
"everywhere". ``read a byte`` is the number of bytes that all experts evaluate per byte of the document. Each run is a
separate process, so that peak memory is measured per run; it restores a small document first, to load experts, compiled
kernels and phrases. The default is one thread, because small batches do not profit from more. CPU seconds are reported
with wall-clock seconds, because other work may share the cores.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch
from long_documents import make_document
from torch import Tensor

from conservator import ExpertSpec, RestoreOptions, Restorer, load_experts
from conservator.channels import MaskChannel
from conservator.documents import MARK
from conservator.evaluation.provenance import commit, versions
from conservator.experts import At, ByteExpert, Context, Cost, Team
from conservator.field import Inferred
from conservator.options import DEFAULTS, EXPERTS
from conservator.reference import decode_one_step
from conservator.system.files import write_atomically
from conservator.vocabularies import BYTES

METHODS = ("product", "everywhere", "one pass")


class CountingExpert:
    """An expert that counts the bytes that it evaluates."""

    def __init__(self, expert: ByteExpert) -> None:
        """Start the count at zero."""
        self.expert, self.bytes = expert, 0

    @property
    def spec(self) -> ExpertSpec:
        """The expert's description."""
        return self.expert.spec

    def predict(self, context: Context, at: At) -> Tensor:
        """Return the predictions of the expert, and count the bytes."""
        self.bytes += context.tokens.numel()
        return self.expert.predict(context, at)


def measure(options: argparse.Namespace, method: str, size: int, rate: float) -> dict[str, float | str]:
    """Restore a document with a method."""
    names = [options.generalist] if method == "one pass" else options.experts
    experts = [CountingExpert(expert) for expert in load_experts(names)]
    team, restorer = Team(experts), Restorer(experts, RestoreOptions(seed=options.seed), select=True)
    raw, _ = make_document(options.corpora, size, options.seed)
    tokens = torch.tensor(
        list(bytes(raw.tolist()).decode(errors="ignore").encode())
    )  # without an incomplete last character
    size = len(tokens)
    lost = torch.rand(size, generator=torch.Generator().manual_seed(options.seed)) < rate
    if options.clustered:
        lost[size // 10 :] = False
    marked = [
        MARK.encode() if is_lost else bytes([token]) for token, is_lost in zip(tokens.tolist(), lost, strict=True)
    ]
    document = b"".join(marked)
    if method != "one pass":
        restorer.restore("A small na\u00efve document, in which a little is l\ufffdst.")
    else:
        team.predict(Context(tokens[None, :256], lost[None, :256]), (torch.zeros(1).long(), torch.zeros(1).long()))
    for expert in experts:
        expert.bytes = 0
    start, cpu = time.perf_counter(), time.process_time()
    if method == "one pass":
        observation = MaskChannel(BYTES.size, 0.5).observe(tokens.masked_fill(lost, BYTES.mask)[None])
        inferred = Inferred.given(torch.ones(1, size, 1, dtype=torch.float64))
        decoded = decode_one_step(team, observation, inferred.composition)
        restored, cost = decoded.tokens[0], decoded.cost
    else:
        evidence_radius = DEFAULTS.evidence_radius if method == "product" else None
        restoration = restorer.restore(document, lost="bytes", evidence_radius=evidence_radius)
        restored, cost = torch.from_numpy(restoration.tokens).long(), restoration.cost
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    correct = restored[lost] == tokens[lost]
    return {
        "way": method,
        "bytes": size,
        "rate": rate,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "kilobytes_a_second": size / seconds / 1000,
        "kilobytes_a_cpu_second": size / cpu / 1000,
        "network_share": network_share(cost),
        "read_a_byte": sum(expert.bytes for expert in experts) / size,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "accuracy": float(correct.double().mean()),
    }


def network_share(cost: Cost) -> float:
    """Return the share of the time that was spent in the experts."""
    return cost.expert_seconds / cost.seconds


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="folder with NAME.eval.jsonl.gz")
    parser.add_argument("--experts", nargs="+", default=list(EXPERTS), help="experts of the product")
    parser.add_argument("--generalist", default="generalist", help="expert of the one pass")
    parser.add_argument("--sizes", nargs="+", type=int, default=[10_000, 100_000, 1_000_000], help="bytes")
    parser.add_argument("--rates", nargs="+", type=float, default=[0.01, 0.05, 0.2], help="fractions of lost bytes")
    parser.add_argument("--ways", nargs="+", choices=METHODS, default=list(METHODS), help="methods to run")
    parser.add_argument("--clustered", action="store_true", help="damage only the first tenth")
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
            for method in options.ways:
                command = [
                    sys.executable,
                    __file__,
                    *common,
                    "--sizes",
                    str(size),
                    "--rates",
                    str(rate),
                    "--ways",
                    method,
                ]
                row = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
                rows.append(row)
                for key, value in row.items():
                    text = f"{value:.4g}" if isinstance(value, float) else str(value)
                    print(f"{key.replace('_', ' ')} {text}", end="  ")
                print(flush=True)
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
