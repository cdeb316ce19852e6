import atexit
import os
import shutil
import tempfile

# One thread: the tensors of tests are small, and threads that wait for each other are slow on a busy machine.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch
from hypothesis import settings

from support.programs import hide_programs

# Where transformers copies code that comes with a model: not into the user's cache.
os.environ["HF_MODULES_CACHE"] = tempfile.mkdtemp(prefix="conservator-modules.")
atexit.register(shutil.rmtree, os.environ["HF_MODULES_CACHE"], ignore_errors=True)

LINKS = tempfile.mkdtemp(prefix="conservator-programs.")
atexit.register(shutil.rmtree, LINKS, ignore_errors=True)
PATH_WITHOUT_PROGRAMS = hide_programs(os.environ["PATH"], LINKS)

# The same examples in every run, and no clock: tests do not time things.
settings.register_profile("conservator", derandomize=True, deadline=None, max_examples=60)
# pytest -k any_document --hypothesis-profile thorough
settings.register_profile("thorough", derandomize=True, deadline=None, max_examples=10_000)
settings.load_profile("conservator")


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Only tests marked ``external_programs`` find external programs; .ci/run repeats those without the programs.

    So every test runs without the programs at least once, and a new test that needs one fails until it is marked.
    """
    path = os.environ["PATH"]
    if item.get_closest_marker("external_programs") is None:
        os.environ["PATH"] = PATH_WITHOUT_PROGRAMS
    try:
        return (yield)
    finally:
        os.environ["PATH"] = path
