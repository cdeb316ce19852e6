import pytest

from conservator.experts import save_expert
from support.networks import random_network


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Two experts that were never trained, as ``--experts`` takes them."""
    home = tmp_path_factory.mktemp("experts")
    for seed, name in enumerate(("one", "two")):
        save_expert(home / name, random_network(seed=seed), name, {})
    return f"{home / 'one'},{home / 'two'}"
