"""Cost of the memory: its index, its queries, and restoration with and without it.

    python benchmarks/memory.py --corpora PATH [--sizes 10000 1000000] [--references 1000000 20000000] [--json FILE]

The text is the concatenation of the training documents of all domains. A document of each size is indexed, together
with the common phrases, and queried at its lost bytes, a tenth of all. References of each size are indexed and queried
at 10,000 lost bytes of another text. Restorations with and without memory alternate, so that other work on the machine
affects both equally. Seconds are CPU seconds of one thread.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from conservator import Restorer
from conservator.channels import MaskChannel
from conservator.documents import damage
from conservator.evaluation.provenance import commit, versions
from conservator.experts import Context, Memory, MemoryExpert, make_references
from conservator.system.files import write_atomically
from conservator.vocabularies import BYTES
from conservator_studies.corpora import read_domain

DOMAINS = ("prose", "code", "config", "readme", "arxiv")
Text = NDArray[np.int16]
Row = dict[str, Any]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of a call, and its result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def query(memory: MemoryExpert, tokens: torch.Tensor, lost: torch.Tensor) -> None:
    """Predict the lost bytes of a document, in windows of 1,024 bytes as the networks do."""
    for start in range(0, len(tokens), 1024):
        hidden = lost[start : start + 1024]
        positions = hidden.nonzero()[:, 0]
        context = Context(tokens[None, start : start + 1024], hidden[None], start=torch.tensor([start]))
        memory.predict(context, (torch.zeros_like(positions), positions))


def measure_document(text: Text, size: int) -> Row:
    """Index a document, and predict a tenth of its bytes."""
    tokens = torch.from_numpy(text[:size].astype(np.int64))
    lost = torch.rand(size, generator=torch.Generator().manual_seed(0)) < 0.1
    observation = MaskChannel(BYTES.size, 0.5).observe(tokens.masked_fill(lost, BYTES.mask)[None])
    build_seconds, memory = timed(lambda: Memory().condition(observation))
    query_seconds, _ = timed(lambda: query(memory, tokens, lost))
    return describe("document", size, build_seconds, query_seconds, int(lost.sum()), memory.index)


def measure_references(text: Text, size: int) -> Row:
    """Index references, and predict 10,000 lost bytes of another text."""
    document, reference = text[-100_000:], text[:size]
    tokens = torch.from_numpy(document.astype(np.int64))
    lost = torch.rand(len(tokens), generator=torch.Generator().manual_seed(0)) < 0.1
    empty = MaskChannel(BYTES.size, 0.5).observe(torch.full((1, 8), BYTES.mask))  # only the references are searched
    build_seconds, references = timed(lambda: make_references([("text", reference)]))
    memory = Memory(references, phrases=False).condition(empty)
    query_seconds, _ = timed(lambda: query(memory, tokens, lost))
    return describe("references", size, build_seconds, query_seconds, int(lost.sum()), references.index)


def describe(kind: str, size: int, build_seconds: float, query_seconds: float, queries: int, index: Any) -> Row:
    """Make the row of an index."""
    index_bytes = sum(array.nbytes for array in index if isinstance(array, np.ndarray))
    return {
        "what": kind,
        "bytes": size,
        "build_microseconds_a_byte": 1e6 * build_seconds / size,
        "query_microseconds": 1e6 * query_seconds / queries,
        "memory_bytes_a_byte": index_bytes / size,
    }


def measure_restorations(text: Text, sizes: list[int], rate: float, repeats: int) -> Iterator[Row]:
    """Restore documents with and without memory, alternating."""
    restorer = Restorer()
    restorer.restore(
        damage(bytes(text[:2000].astype(np.uint8)), rate), lost="invalid"
    )  # warm-up: loads experts and kernels
    for size in sizes:
        seconds: dict[bool, list[float]] = {True: [], False: []}
        for repeat in range(repeats):
            start = 1_000_000 * (repeat + 1)
            document = bytes(text[start : start + size].astype(np.uint8)).decode(errors="ignore").encode()
            damaged = damage(document, rate, seed=repeat)
            for memory in (False, True) if repeat % 2 else (True, False):
                seconds[memory].append(timed(lambda: restorer.restore(damaged, lost="bytes", memory=memory))[0])  # noqa: B023
        ratios = np.array(seconds[True]) / np.array(seconds[False])
        yield {
            "what": "restoration",
            "bytes": size,
            "rate": rate,
            "repeats": repeats,
            "seconds_without": float(np.mean(seconds[False])),
            "seconds_with": float(np.mean(seconds[True])),
            "ratio": float(np.sum(seconds[True]) / np.sum(seconds[False])),
            "ratios": ratios.round(3).tolist(),
        }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="folder with NAME.train.jsonl.gz")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000], help="bytes of documents")
    parser.add_argument("--references", type=int, nargs="+", default=[100_000, 1_000_000, 5_000_000, 20_000_000])
    parser.add_argument(
        "--restorations", type=int, nargs="*", default=[4_000, 100_000], help="bytes of restored documents"
    )
    parser.add_argument("--repeats", type=int, default=4, help="restorations per size")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    documents = [read_domain(options.corpora, name, "train", comments=True).documents for name in DOMAINS]
    text = np.frombuffer(b"\n".join(b"\n".join(texts) for texts in documents), dtype=np.uint8).astype(np.int16)
    measure_document(text, 2_000)
    measure_references(text, 2_000)
    rows = []
    for row in (
        *(measure_document(text, size) for size in options.sizes),
        *(measure_references(text, size) for size in options.references),
    ):
        rows.append(row)
        print(json.dumps(row), flush=True)
    for row in measure_restorations(text, options.restorations, 0.1, options.repeats):
        rows.append(row)
        print(json.dumps(row), flush=True)
    if options.json:
        record = {"commit": commit(), "versions": versions(), "rows": rows}
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
