"""One hole in a document of growing length: it must cost one hole, in time and in memory.

    python benchmarks/one_hole.py [--sizes 1000 100000 1000000 5000000] [--holes 1 16] [--json FILE]

The document repeats the example, and one byte in its middle is lost (or several, spread evenly). Each row is a process
of its own: seconds and evaluations of a first restoration, which loads compiled kernels, and of a second one with the
same ``Restorer``; peak memory of the process. Beside it: the same with everything read (``evidence_radius=None``), up to 100 KB.
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
ALL = 100_000  # bytes up to which everything is read for comparison


def measure(size: int, holes: int, evidence_radius: int | None) -> dict[str, float]:
    """Restore one document twice."""
    from conservator import Restorer

    text = EXAMPLE.read_text().encode("ascii", "replace")
    data = (text * (size // len(text) + 1))[:size]
    pieces, done = [], 0
    for number in range(holes):
        place = size * (2 * number + 1) // (2 * holes)
        pieces += [data[done:place], DEFAULTS.mark.encode()]
        done = place + 1
    document = b"".join([*pieces, data[done:]])
    restorer = Restorer()
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        found = restorer.restore(document, evidence_radius=evidence_radius)
        if len(found.data) != size:
            raise SystemExit("the restored document has another length")
        seconds.append(time.perf_counter() - start)
    return {
        "bytes": size,
        "holes": holes,
        "everything": evidence_radius is None,
        "first_seconds": seconds[0],
        "seconds": seconds[1],
        "evaluations": found.cost.evaluations,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[1_000, 100_000, 1_000_000, 5_000_000])
    parser.add_argument("--holes", nargs="+", type=int, default=[1, 16])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--alone", choices=["evidence_radius", "everything"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        evidence_radius = None if options.alone == "everything" else DEFAULTS.evidence_radius
        print(json.dumps(measure(options.sizes[0], options.holes[0], evidence_radius)))
        return
    rows = []
    for size in options.sizes:
        for holes in options.holes:
            for way in ("evidence_radius", "everything") if size <= ALL and holes == 1 else ("evidence_radius",):
                words = ["--sizes", str(size), "--holes", str(holes), "--alone", way]
                done = subprocess.run([sys.executable, __file__, *words], check=True, stdout=subprocess.PIPE, text=True)
                rows.append(json.loads(done.stdout))
                print("  ".join(f"{key} {value:.4g}" for key, value in rows[-1].items()), flush=True)
    if options.json:
        record = {"commit": commit(), "versions": versions(), "rows": rows}
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
