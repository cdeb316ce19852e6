"""Compiled kernels, also without a writable cache folder."""

from itertools import pairwise
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from conservator.numerics import runs
from support.commands import run_program


@given(st.lists(st.booleans(), max_size=30))
def test_runs_are_the_maximal_spans(flags):
    spans = runs(np.array(flags, dtype=bool))
    covered = [position for start, stop in spans for position in range(start, stop)]
    assert covered == [position for position, flag in enumerate(flags) if flag]
    assert all(stop < start for (_, stop), (start, _) in pairwise(spans))


def test_kernels_work_without_a_cache_folder_and_without_scipy(tmp_path):
    """No cache folder for machine code is writable, neither in the package nor in the home folder."""
    program = f"""
import sys
from numba.core import caching

sys.modules["scipy"] = None
sys.path.append({str(Path(__file__).parent)!r})
caching.CacheImpl._locator_classes = []
from conservator import restore
from support.fakes import FakeExpert

text = list("0123456789" * 200)
text[100] = text[1600] = text[1601] = chr(0xFFFD)
restoration = restore("".join(text), [FakeExpert(0), FakeExpert(1)], evidence_radius=9)
print(len(restoration.text), len(restoration.positions) < 2000)
"""
    completed = run_program(program, tmp_path)
    assert completed.stdout == "2000 True\n", completed.stderr
    assert completed.stderr == ""
