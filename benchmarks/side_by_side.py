"""Restorations side by side on a busy machine, against the same ones one after the other.

    python benchmarks/side_by_side.py [--counts 1 2 4] [--json FILE]

Each restoration is ``conservator restore`` of the example, a process of its own. Threads that spin while they wait take
the cores from other processes; the command tells them to sleep. Beside it: the same with threads that spin
(``OMP_WAIT_POLICY=ACTIVE``), for the smaller counts alone, because it takes long.
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


def run(count: int, *, together: bool, policy: str | None) -> dict[str, float]:
    """Restore the example so many times: wall seconds and CPU seconds."""
    command = [sys.executable, "-m", "conservator", "restore", str(DOCUMENT), "-o", os.devnull]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OMP_")}
    environment |= {"OMP_WAIT_POLICY": policy} if policy else {}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    running = []
    for _ in range(count):
        running.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL))
        if not together:
            running[-1].wait()
    codes = [process.wait() for process in running]
    if any(codes):
        raise SystemExit("a restoration failed")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": time.perf_counter() - start, "cpu_seconds": cpu}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--spinning", type=int, default=2, help="up to how many with threads that spin")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    run(1, together=True, policy=None)  # compiles the kernels
    rows = []
    for count in options.counts:
        for policy in (None, "ACTIVE") if count <= options.spinning else (None,):
            turns, beside = (run(count, together=together, policy=policy) for together in (False, True))
            ratio, waiting = beside["seconds"] / turns["seconds"], "spinning" if policy else "sleeping"
            rows.append({"count": count, "waiting": waiting, "in_turn": turns, "side_by_side": beside, "ratio": ratio})
            print(
                f"{count} restorations, {waiting} threads: in turn {turns['seconds']:.1f} s "
                f"({turns['cpu_seconds']:.1f} s of CPU), side by side {beside['seconds']:.1f} s "
                f"({beside['cpu_seconds']:.1f}), ratio {ratio:.2f}",
                flush=True,
            )
    if options.json:
        record = {"commit": commit(), "versions": versions(), "cores": os.cpu_count(), "rows": rows}
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
