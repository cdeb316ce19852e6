"""What the memory costs: its index, its queries, and a restoration with it beside one without it.

    python benchmarks/memory.py --corpora PATH [--sizes 10000 1000000] [--references 1000000 20000000] [--json FILE]

The text is that of the training documents of all domains, one after the other. Each size of a document is indexed and
asked about a tenth of its bytes, which are lost (and so are the common phrases); each size of references is indexed and
asked about 10,000 bytes of another text. Restorations with and without memory alternate, so that a busy machine slows
down both alike. Seconds are CPU seconds of one thread.
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
    """CPU seconds of a call, and what it returns."""
    began = time.process_time()
    found = work()
    return time.process_time() - began, found


def ask(memory: MemoryExpert, tokens: torch.Tensor, lost: torch.Tensor) -> None:
    """Ask about lost bytes of a document, in windows of 1,024 as networks read it."""
    for start in range(0, len(tokens), 1024):
        hidden = lost[start : start + 1024]
        at = hidden.nonzero()[:, 0]
        context = Context(tokens[None, start : start + 1024], hidden[None], start=torch.tensor([start]))
        memory.predict(context, (torch.zeros_like(at), at))


def of_document(text: Text, size: int) -> Row:
    """Index a document, and ask about a tenth of its bytes."""
    tokens = torch.from_numpy(text[:size].astype(np.int64))
    lost = torch.rand(size, generator=torch.Generator().manual_seed(0)) < 0.1
    observation = MaskChannel(BYTES.size, 0.5).observe(tokens.masked_fill(lost, BYTES.mask)[None])
    built, memory = timed(lambda: Memory().condition(observation))
    asked, _ = timed(lambda: ask(memory, tokens, lost))
    return row("document", size, built, asked, int(lost.sum()), memory.index)


def of_references(text: Text, size: int) -> Row:
    """Index references, and ask about 10,000 lost bytes of another text."""
    document, others = text[-100_000:], text[:size]
    tokens = torch.from_numpy(document.astype(np.int64))
    lost = torch.rand(len(tokens), generator=torch.Generator().manual_seed(0)) < 0.1
    nothing = MaskChannel(BYTES.size, 0.5).observe(torch.full((1, 8), BYTES.mask))  # so that only references are asked
    built, references = timed(lambda: make_references([("text", others)]))
    memory = Memory(references, phrases=False).condition(nothing)
    asked, _ = timed(lambda: ask(memory, tokens, lost))
    return row("references", size, built, asked, int(lost.sum()), references.index)


def row(what: str, size: int, built: float, asked: float, count: int, index: Any) -> Row:
    """The figures of one index."""
    kept = sum(part.nbytes for part in index if isinstance(part, np.ndarray))
    return {
        "what": what,
        "bytes": size,
        "build_microseconds_a_byte": 1e6 * built / size,
        "query_microseconds": 1e6 * asked / count,
        "memory_bytes_a_byte": kept / size,
    }


def of_restorations(text: Text, sizes: list[int], rate: float, repeats: int) -> Iterator[Row]:
    """Restore documents with memory and without, in turn."""
    restorer = Restorer()
    restorer.restore(damage(bytes(text[:2000].astype(np.uint8)), rate), lost="invalid")  # compiles, loads
    for size in sizes:
        spent: dict[bool, list[float]] = {True: [], False: []}
        for repeat in range(repeats):
            start = 1_000_000 * (repeat + 1)
            document = bytes(text[start : start + size].astype(np.uint8)).decode(errors="ignore").encode()
            damaged = damage(document, rate, seed=repeat)
            for memory in (False, True) if repeat % 2 else (True, False):
                spent[memory].append(timed(lambda: restorer.restore(damaged, memory=memory))[0])  # noqa: B023
        ratio = np.array(spent[True]) / np.array(spent[False])
        yield {
            "what": "restoration",
            "bytes": size,
            "rate": rate,
            "repeats": repeats,
            "seconds_without": float(np.mean(spent[False])),
            "seconds_with": float(np.mean(spent[True])),
            "ratio": float(np.sum(spent[True]) / np.sum(spent[False])),
            "ratios": ratio.round(3).tolist(),
        }


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--references", type=int, nargs="+", default=[100_000, 1_000_000, 5_000_000, 20_000_000])
    parser.add_argument("--restorations", type=int, nargs="*", default=[4_000, 100_000])
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    parts = [read_domain(options.corpora, name, "train", comments=True).documents for name in DOMAINS]
    text = np.frombuffer(b"\n".join(b"\n".join(part) for part in parts), dtype=np.uint8).astype(np.int16)
    of_document(text, 2_000)
    of_references(text, 2_000)
    rows = []
    for found in (
        *(of_document(text, size) for size in options.sizes),
        *(of_references(text, size) for size in options.references),
    ):
        rows.append(found)
        print(json.dumps(found), flush=True)
    for found in of_restorations(text, options.restorations, 0.1, options.repeats):
        rows.append(found)
        print(json.dumps(found), flush=True)
    if options.json:
        record = {"commit": commit(), "versions": versions(), "rows": rows}
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
