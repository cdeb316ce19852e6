"""The imports and public names of the package, and the documents that refer to it."""

import contextlib
import io
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import conservator

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("module", ["conservator", "conservator.cli", "conservator.options", "conservator_studies"])
def test_the_import_is_light(module):
    heavy = "{'torch', 'numba', 'matplotlib', 'scipy', 'numpy'}"
    program = f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


RESTORE_WITHOUT = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"matplotlib", "scipy"}:
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())
sys.argv = ["conservator", "restore", sys.argv[1], "--quiet"]
from conservator.__main__ import main
main()
"""


def test_restoring_needs_neither_matplotlib_nor_scipy(tmp_path):
    damaged = tmp_path / "damaged.txt"
    damaged.write_text("The quick bro\ufffdn fox.")
    command = [sys.executable, "-c", RESTORE_WITHOUT, str(damaged)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "The quick brown fox."


def test_every_public_name_can_be_imported():
    for name in conservator.__all__:
        assert getattr(conservator, name) is not None
    assert set(conservator.__all__) <= set(dir(conservator))
    with pytest.raises(AttributeError, match="nonsense"):
        conservator.nonsense  # noqa: B018


def block(text, marker):
    """The fenced code block after a marker line."""
    return re.search(rf"^{re.escape(marker)}\n+```\w+\n(.*?)^```", text, re.MULTILINE | re.DOTALL).group(1)


def test_the_first_example_prints_the_documented_output():
    text = (ROOT / "docs" / "extending.md").read_text()
    program = block(text, "<!-- first use -->")
    assert len(program.splitlines()) <= 15
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, {})
    assert printed.getvalue() == block(text, "<!-- first use prints -->")


@pytest.mark.parametrize("which", ["main", "test"])
def test_the_quick_start_is_one_command(which):
    assert len(block(README, f"<!-- fresh: {which} -->").splitlines()) == 1


@pytest.mark.parametrize("study", ["readme", "byte3"])
def test_the_documentation_shows_the_recorded_results(study):
    recorded = (ROOT / "results" / f"{study}.md").read_text().splitlines()
    text = (ROOT / "docs" / "results.md").read_text()
    shown = re.search(rf"<!-- results: {study} -->\n+((?:\|.*\n)+)", text).group(1).splitlines()
    assert len(shown) > 5
    assert set(shown) <= set(recorded)


def test_every_name_in_the_map_of_the_paper_exists():
    text = (ROOT / "docs" / "paper_to_code.md").read_text()
    names = re.findall(r"`(conservator(?:_studies)?(?:\.\w+)+)`", text)
    assert len(names) > 20
    for name in names:
        module, _, attribute = name.rpartition(".")
        try:
            import_module(name)
        except ModuleNotFoundError:
            assert hasattr(import_module(module), attribute), name


def test_every_test_in_the_map_of_the_paper_exists():
    text = (ROOT / "docs" / "paper_to_code.md").read_text()
    tests = {
        name for path in ROOT.glob("tests/**/test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    named = re.findall(r"`(test_\w+)`", text)
    assert named
    assert set(named) <= tests


def anchors(path):
    """The anchors of the headings of a Markdown file."""
    heads = re.findall(r"^#+ (.+)$", path.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_in_the_documentation_exist(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if not target.startswith("https://"):
            file, _, anchor = target.partition("#")
            linked = (path.parent / file) if file else path
            assert linked.exists(), target
            assert not anchor or anchor in anchors(linked), target


def test_the_readme_has_at_most_150_lines():
    assert len(README.splitlines()) <= 150
