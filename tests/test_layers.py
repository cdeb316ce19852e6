"""The layers of the library: each imports only what stands below it; studies use public names alone."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIBRARY, STUDIES = ROOT / "src" / "conservator", ROOT / "src" / "conservator_studies"
# From the bottom to the top; those on one line do not import each other.
LAYERS = [
    {"errors"},
    {"numerics", "system"},
    {"vocabularies"},
    {"documents", "channels"},
    {"options", "pages"},
    {"experts"},
    {"evaluation"},
    {"training", "field"},
    {"decoders", "alignment"},
    {"results", "reference"},
    {"pipelines"},
    {"restorer"},
    {"web", "batch"},
    {"cli"},
]
OPEN = {"evaluation", "pipelines", "system"}  # packages whose modules are public
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def imports(path):
    """The modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, [name.name for name in node.names]
        elif isinstance(node, ast.Import):
            yield from ((name.name, []) for name in node.names)


def layer(path):
    return path.relative_to(LIBRARY).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", sorted(LIBRARY.rglob("*.py")), ids=lambda path: str(path.relative_to(LIBRARY)))
def test_a_layer_imports_only_what_stands_below_it(path):
    own = layer(path)
    if own in ("__init__", "__main__"):
        return
    for module, names in imports(path):
        parts = module.split(".")
        if parts[0] == "conservator_studies":
            assert own == "cli", f"{own} imports the studies"
        if parts[0] != "conservator":
            continue
        for other in [parts[1]] if len(parts) > 1 else names:
            if other in RANK and other != own:
                assert RANK[other] < RANK[own], f"{own} imports {other}, which stands above or beside it"


def test_every_package_has_a_layer():
    found = {layer(path) for path in LIBRARY.rglob("*.py")} - {"__init__", "__main__"}
    assert found == set(RANK)


@pytest.mark.parametrize("path", sorted(STUDIES.rglob("*.py")), ids=lambda path: str(path.relative_to(STUDIES)))
def test_studies_use_public_names_alone(path):
    for module, _ in imports(path):
        name, *parts = module.split(".")
        if name == "conservator":
            public = len(parts) <= 1 or parts[0] in OPEN or LIBRARY.joinpath(*parts).is_dir()
            assert public, f"{module} is inside a package"


def test_no_channel_is_told_by_its_class():
    for path in LIBRARY.rglob("*.py"):
        if layer(path) != "channels":
            assert not re.search(r"isinstance\([^)]*Channel\b", path.read_text()), path


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.name)
def test_what_a_benchmark_imports_of_ours_exists(path):
    for module, names in imports(path):
        if module.split(".")[0] in ("conservator", "conservator_studies"):
            found = importlib.import_module(module)
            for name in names:
                assert hasattr(found, name) or importlib.util.find_spec(f"{module}.{name}"), f"{module}.{name}"
