"""A large vocabulary: every engine fits into a gigabyte."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "memory_large_vocabulary.py"
ENGINES = ["Bayes", "GLOBAL", "Maximum", "Ascent", "Particles"]
# One process for each engine, because peak memory is measured per process; common imports happen once.
PROGRAM = f"""
import os, runpy, sys, traceback
import conservator.field

for engine in {ENGINES}:
    if os.fork() == 0:
        sys.argv = [{str(BENCHMARK)!r}, "--quick", "--engine", engine]
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(0)
    os.wait()
"""


@pytest.fixture(scope="module")
def measured():
    process = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert process.stderr == ""
    return dict(zip(ENGINES, map(json.loads, process.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_large_vocabulary_fits_into_a_gigabyte(engine, measured):
    """1,024 tokens of 50,257, three experts: the peak of the whole process, in MB."""
    memory = measured[engine]
    # The predictions of half of a sequence take 250 MB; a lower peak would mean that they were not measured.
    assert memory["before"] + 250 < memory["peak"] < 1024
