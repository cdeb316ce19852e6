"""A large vocabulary: every engine fits into a gigabyte."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "memory_large_vocabulary.py"


@pytest.mark.parametrize("engine", ["Bayes", "GLOBAL", "Maximum", "Ascent", "Particles"])
def test_a_large_vocabulary_fits_into_a_gigabyte(engine):
    """1,024 tokens of 50,257, three experts: the peak of the whole process, in MB."""
    words = [sys.executable, str(BENCHMARK), "--quick", "--engine", engine]
    found = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    # What the experts predict of half of a sequence takes 250 MB: less than that would have measured nothing.
    assert found["before"] + 250 < found["peak"] < 1024
