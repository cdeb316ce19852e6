"""Restoration of one lost byte in documents of growing length: time and memory must not grow with the document.

    python benchmarks/one_hole.py [--sizes 1000 100000 1000000 5000000] [--holes 1 16] [--json FILE]

The document repeats the example, and one byte in its middle is lost (or several, spread evenly). Each row runs in a
separate process: seconds and evaluations of a first restoration, which loads compiled kernels, and of a second one with
the same ``Restorer``; peak memory of the process. For comparison, documents of up to 100 KB are also restored with
evidence from the whole document (``evidence_radius=None``).
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from conservator.evaluation.provenance import commit, versions
from conservator.options import DEFAULTS
from conservator.system.files import write_atomically

EXAMPLE = Path(__file__).parent.parent / "examples" / "field_station.md"
MAX_BYTES_EVERYWHERE = 100_000  # bytes: maximum size of a document with evidence from everywhere


def measure(size: int, holes: int, evidence_radius: int | None) -> dict[str, float]:
    """Restore a document twice."""
    from conservator import Restorer

    text = EXAMPLE.read_text().encode("ascii", "replace")
    data = (text * (size // len(text) + 1))[:size]
    pieces, start = [], 0
    for number in range(holes):
        position = size * (2 * number + 1) // (2 * holes)
        pieces += [data[start:position], DEFAULTS.mark.encode()]
        start = position + 1
    document = b"".join([*pieces, data[start:]])
    restorer = Restorer()
    seconds = []
    for _ in range(2):
        began = time.perf_counter()
        restoration = restorer.restore(document, lost="bytes", evidence_radius=evidence_radius)
        if len(restoration.data) != size:
            raise SystemExit(f"expected {size} restored bytes, got {len(restoration.data)}")
        seconds.append(time.perf_counter() - began)
    return {
        "bytes": size,
        "holes": holes,
        "everything": evidence_radius is None,
        "first_seconds": seconds[0],
        "seconds": seconds[1],
        "evaluations": restoration.cost.evaluations,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[1_000, 100_000, 1_000_000, 5_000_000], help="bytes")
    parser.add_argument("--holes", nargs="+", type=int, default=[1, 16], help="lost bytes")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--alone", choices=["near_damage", "everywhere"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        evidence_radius = None if options.alone == "everywhere" else DEFAULTS.evidence_radius
        print(json.dumps(measure(options.sizes[0], options.holes[0], evidence_radius)))
        return
    rows = []
    for size in options.sizes:
        for holes in options.holes:
            evidence = ["near_damage"]
            if size <= MAX_BYTES_EVERYWHERE and holes == 1:
                evidence.append("everywhere")
            for region in evidence:
                arguments = ["--sizes", str(size), "--holes", str(holes), "--alone", region]
                command = [sys.executable, __file__, *arguments]
                process = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                rows.append(json.loads(process.stdout))
                print("  ".join(f"{key} {value:.4g}" for key, value in rows[-1].items()), flush=True)
    if options.json:
        record = {"commit": commit(), "versions": versions(), "rows": rows}
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
