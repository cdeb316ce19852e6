"""Throughput of an expert by batch size and length, compared with a matrix product on the same machine.

    python benchmarks/experts.py [--expert prose] [--json FILE]

The limit is the throughput of the best float32 matrix product in the same process, with the same number of threads.
``share`` is the throughput of the network, from the floating-point operations that torch counts, divided by the limit.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from conservator.evaluation.provenance import commit, versions
from conservator.experts import Context, load_experts
from conservator.experts.network import HIDDEN
from conservator.system.files import write_atomically
from conservator.vocabularies import BYTES

BATCHES, LENGTHS = (1, 4, 16, 64), (64, 256, 512, 1024)  # sequences, bytes
REPEATS = 5  # timed calls


def seconds(work: Callable[[], object]) -> float:
    """Return the median time of REPEATS calls after a warm-up call."""
    work()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure_limit() -> float:
    """Return the floating-point operations per second of the best square matrix product."""
    best = 0.0
    for size in (512, 1024, 2048):
        left, right = torch.rand(size, size), torch.rand(size, size)
        best = max(best, 2 * size**3 / seconds(lambda a=left, b=right: a @ b))
    return best


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--expert", default="prose", help="name of a built-in expert, or a folder")
    parser.add_argument("--json", help="output file")
    options = parser.parse_args()
    (expert,) = load_experts([options.expert])
    generator = torch.Generator().manual_seed(0)
    limit = measure_limit()
    print(f"matrix product: {limit / 1e9:.0f} GFLOP/s on {torch.get_num_threads()} threads")
    print(f"{'length':>6} {'batch':>5} {'kB/s':>8} {'GFLOP/s':>8} {'share':>6}")
    rows = []
    for length in (length for length in LENGTHS if length <= (expert.spec.max_length or length)):
        for batch in BATCHES:
            tokens = torch.randint(BYTES.size, (batch, length), generator=generator)
            hidden = torch.rand(batch, length, generator=generator) < 0.5
            # FlopCounterMode does not count fused attention on the CPU; the math backend has the same operations.
            with FlopCounterMode(display=False) as counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
                expert.network(tokens.masked_fill(hidden, HIDDEN), torch.ones_like(hidden))
            context = Context(tokens, hidden)
            positions = context.everywhere()
            elapsed = seconds(lambda c=context, at=positions: expert.predict(c, at))
            speed = counter.get_total_flops() / elapsed
            rows.append(
                {"length": length, "batch": batch, "bytes_per_second": batch * length / elapsed, "share": speed / limit}
            )
            print(f"{length:6} {batch:5} {batch * length / elapsed / 1e3:8.1f} {speed / 1e9:8.1f} {speed / limit:6.0%}")
    best = max(rows, key=lambda row: row["share"])
    print(f"best: {best['share']:.0%} of the limit, at batch {best['batch']} and length {best['length']}")
    if options.json:
        record = {"commit": commit(), "versions": versions(), "threads": torch.get_num_threads()}
        record |= {"expert": options.expert, "limit_flops": limit, "rows": rows}
        write_atomically(Path(options.json), (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
