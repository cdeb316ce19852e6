"""Concurrent restorations in separate processes, compared with sequential ones.

    python benchmarks/side_by_side.py [--counts 1 2 4] [--json FILE]

Each restoration is a ``conservator restore`` process for the example. OpenMP threads that spin while they wait take CPU
time from other processes, so the command makes them sleep. For comparison, counts of up to ``--spinning`` are also run
with spinning threads (``OMP_WAIT_POLICY=ACTIVE``), which is slow.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from conservator.evaluation.provenance import commit, versions
from conservator.system.files import write_atomically

DOCUMENT = Path(__file__).parent.parent / "examples" / "field_station.damaged.md"


def run(count: int, *, concurrent: bool, policy: str | None) -> dict[str, float]:
    """Restore the example ``count`` times; return wall-clock seconds and CPU seconds."""
    command = [sys.executable, "-m", "conservator", "restore", str(DOCUMENT), "-o", os.devnull]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OMP_")}
    environment |= {"OMP_WAIT_POLICY": policy} if policy else {}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    processes = []
    for _ in range(count):
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL))
        if not concurrent:
            processes[-1].wait()
    codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit(f"conservator restore failed; exit codes: {codes}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": time.perf_counter() - start, "cpu_seconds": cpu}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", nargs="+", type=int, default=[1, 2, 4], help="numbers of restorations")
    parser.add_argument("--spinning", type=int, default=2, help="maximum count with spinning threads")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    run(1, concurrent=True, policy=None)  # warm-up: compiles the kernels
    rows = []
    for count in options.counts:
        for policy in (None, "ACTIVE") if count <= options.spinning else (None,):
            sequential, concurrent = (run(count, concurrent=mode, policy=policy) for mode in (False, True))
            ratio, waiting = concurrent["seconds"] / sequential["seconds"], "spinning" if policy else "sleeping"
            row = {
                "count": count,
                "waiting": waiting,
                "in_turn": sequential,
                "side_by_side": concurrent,
                "ratio": ratio,
            }
            rows.append(row)
            print(
                f"{count} restorations, {waiting} threads: sequential {sequential['seconds']:.1f} s "
                f"({sequential['cpu_seconds']:.1f} CPU s), concurrent {concurrent['seconds']:.1f} s "
                f"({concurrent['cpu_seconds']:.1f} CPU s), ratio {ratio:.2f}",
                flush=True,
            )
    if options.json:
        record = {"commit": commit(), "versions": versions(), "cores": os.cpu_count(), "rows": rows}
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
