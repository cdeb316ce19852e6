"""Compiled kernels, also where nothing can be written."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from commands import run_program
from conservator.numerics import runs


@given(st.lists(st.booleans(), max_size=30))
def test_runs_are_the_maximal_stretches(flags):
    found = runs(np.array(flags, dtype=bool))
    covered = [place for start, stop in found for place in range(start, stop)]
    assert covered == [place for place, flag in enumerate(flags) if flag]
    assert all(stop < start for (_, stop), (start, _) in pairwise(found))


def test_a_kernel_works_where_its_machine_code_cannot_be_kept(tmp_path):
    """numba finds no folder to write to: neither the package's nor one below the home folder."""
    program = """
from numba.core import caching

caching.CacheImpl._locator_classes = []
from conservator.vocabularies import BYTES
from itertools import pairwise

import numpy as np

print(BYTES.constraint.violations(np.array([0xC3, 0xA9, 0xE9])).tolist())
"""
    done = run_program(program, tmp_path)
    assert done.stdout == "[False, False, True]\n", done.stderr
    assert done.stderr == ""
