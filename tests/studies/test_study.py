"""Definition of a study, and imports between the studies and the library."""

import ast
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import conservator
import conservator_studies
from conservator_studies import PRESETS, STUDIES, contextual
from conservator_studies.study import load_study

OPEN = {"evaluation", "pipelines", "system"}  # packages whose modules are public
SOURCES = [path for module in (conservator, conservator_studies) for path in Path(module.__file__).parent.rglob("*.py")]


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_presets_that_can_be_limited(name):
    study = load_study(name)
    assert tuple(study.presets) == PRESETS
    for preset in PRESETS:
        config = study.config(preset, 1)
        assert is_dataclass(config)
        assert study.unit in {field.name for field in fields(config)}
        assert getattr(config, study.unit) == 1
        assert study.config(preset) == study.presets[preset]


def test_required_texts_of_each_study():
    simulated = [name for name in STUDIES if not load_study(name).needs_resources]
    assert simulated == ["simulator", "recoverability", "contextual"]
    assert {name: load_study(name).domain for name in STUDIES if load_study(name).domain} == {
        "readme": "readme",
        "documents": "readme",
        "language-models": "readme",
        "scale": "arxiv",
        "arxiv": "arxiv",
        "arxiv-bytes": "arxiv",
        "readme-tokens": "readme",
        "sevenb": "arxiv",
        "rule": "readme",
        "blackdots": "earlyprint",
        "uniform": "arxiv",
    }


def test_a_conclusion_is_optional():
    assert contextual.STUDY.conclude([]) == ""


def test_listing_the_studies_imports_no_heavy_package():
    heavy = {"torch", "numba", "matplotlib", "scipy", "numpy"}
    program = f"import sys, conservator_studies; print(sorted({heavy} & set(sys.modules)))"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert process.stdout == "[]\n"


def imported_modules(path):
    """Yield the modules that a file imports, at any level."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_studies_use_public_names_and_the_library_does_not_use_studies():
    for path in SOURCES:
        modules = {module for module in imported_modules(path) if module}
        if "conservator_studies" in path.parts:
            used = [module.split(".")[1:] for module in modules if module.split(".")[0] == "conservator"]
            home = Path(conservator.__file__).parent
            inner = [parts for parts in used if len(parts) > 1 and parts[0] not in OPEN]
            deep = [parts for parts in inner if not home.joinpath(*parts).is_dir()]
            assert not deep, path
        elif path.parts[-2:] != ("cli", "reproduce.py"):
            assert not {module for module in modules if module.split(".")[0] == "conservator_studies"}, path
