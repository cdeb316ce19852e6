"""Compiled kernels, also where nothing can be written."""

from itertools import pairwise
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from conservator.numerics import runs
from support.commands import run_program


@given(st.lists(st.booleans(), max_size=30))
def test_runs_are_the_maximal_stretches(flags):
    found = runs(np.array(flags, dtype=bool))
    covered = [place for start, stop in found for place in range(start, stop)]
    assert covered == [place for place, flag in enumerate(flags) if flag]
    assert all(stop < start for (_, stop), (start, _) in pairwise(found))


def test_kernels_work_where_nothing_can_be_kept_and_scipy_is_missing(tmp_path):
    """numba finds no folder for its machine code: neither the package's nor one below the home folder."""
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
found = restore("".join(text), [FakeExpert(0), FakeExpert(1)], evidence_radius=9)
print(len(found.text), len(found.positions) < 2000)
"""
    done = run_program(program, tmp_path)
    assert done.stdout == "2000 True\n", done.stderr
    assert done.stderr == ""
