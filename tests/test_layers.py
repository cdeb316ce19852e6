"""The layers of the library: a layer imports only lower layers, and studies use only public names."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIBRARY, STUDIES = ROOT / "src" / "conservator", ROOT / "src" / "conservator_studies"
# From the bottom to the top; modules of the same layer do not import each other.
LAYERS = [
    {"channel_names", "errors"},
    {"arrays", "numerics", "system"},
    {"execution", "lattice"},
    {"vocabularies"},
    {"documents", "channels"},
    {"options", "pages"},
    {"experts", "notation"},
    {"evaluation"},
    {"training", "field"},
    {"decoders", "alignment"},
    {"results", "reference"},
    {"document"},
    {"pipelines"},
    {"restorer"},
    {"web", "batch"},
    {"cli"},
]
PUBLIC_PACKAGES = {"evaluation", "pipelines", "system"}  # packages whose modules are public
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def imports(path):
    """Yield the modules and names that a file imports, at any level."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, [name.name for name in node.names]
        elif isinstance(node, ast.Import):
            yield from ((name.name, []) for name in node.names)


def layer(path):
    return path.relative_to(LIBRARY).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", sorted(LIBRARY.rglob("*.py")), ids=lambda path: str(path.relative_to(LIBRARY)))
def test_a_layer_imports_only_lower_layers(path):
    importer = layer(path)
    if importer in ("__init__", "__main__"):
        return
    for module, names in imports(path):
        parts = module.split(".")
        if parts[0] == "conservator_studies":
            assert importer == "cli", f"{importer} imports the studies"
        if parts[0] != "conservator":
            continue
        for imported in [parts[1]] if len(parts) > 1 else names:
            if imported in RANK and imported != importer:
                assert RANK[imported] < RANK[importer], f"{importer} imports {imported}, which is not in a lower layer"


def test_every_package_has_a_layer():
    packages = {layer(path) for path in LIBRARY.rglob("*.py")} - {"__init__", "__main__"}
    assert packages == set(RANK)


@pytest.mark.parametrize("path", sorted(STUDIES.rglob("*.py")), ids=lambda path: str(path.relative_to(STUDIES)))
def test_studies_use_only_public_names(path):
    for module, _ in imports(path):
        name, *parts = module.split(".")
        if name == "conservator":
            public = len(parts) <= 1 or parts[0] in PUBLIC_PACKAGES or LIBRARY.joinpath(*parts).is_dir()
            assert public, f"{module} is private to its package"


def test_other_layers_do_not_depend_on_channel_classes():
    for path in LIBRARY.rglob("*.py"):
        if layer(path) != "channels":
            assert not re.search(r"isinstance\([^)]*Channel\b", path.read_text()), path


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.name)
def test_names_that_a_benchmark_imports_exist(path):
    for module, names in imports(path):
        if module.split(".")[0] in ("conservator", "conservator_studies"):
            imported = importlib.import_module(module)
            for name in names:
                assert hasattr(imported, name) or importlib.util.find_spec(f"{module}.{name}"), f"{module}.{name}"


def test_the_product_does_not_import_the_reference_package():
    for path in LIBRARY.rglob("*.py"):
        if "reference" not in path.relative_to(LIBRARY).parts:
            modules = [module for module, _ in imports(path)]
            assert not [module for module in modules if module.startswith("conservator.reference")], path
