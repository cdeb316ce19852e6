import pytest

from conservator.experts import save_expert
from support.networks import random_network


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Folders of two untrained experts, as a value of ``--experts``."""
    root = tmp_path_factory.mktemp("experts")
    for seed, name in enumerate(("one", "two")):
        save_expert(root / name, random_network(seed=seed), name, {})
    return f"{root / 'one'},{root / 'two'}"
