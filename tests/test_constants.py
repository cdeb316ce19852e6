"""Every numeric constant of the core packages states its unit and where its value comes from.

The comment has the form ``# UNIT: MEANING [SOURCE]``, on the same line or directly above. SOURCE is one of

- ``LOG: anchor``, a section of docs/LOG.md with the measurement,
- ``definition``: fixed by the paper, a standard or a file format,
- ``numerical``: a tolerance or a bound of the arithmetic,
- ``safety limit``: a bound on size, time or memory,
- ``untuned``: chosen by hand and not measured.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("experts", "field", "decoders", "channels")
PATHS = sorted(path for name in PACKAGES for path in (ROOT / "src" / "conservator" / name).rglob("*.py"))
FORM = re.compile(r"# [^:\[\]]+: .+ \[(LOG: (?P<anchor>[a-z0-9-]+)|definition|numerical|safety limit|untuned)\]")


def anchors():
    """The anchors of the sections of docs/LOG.md."""
    heads = re.findall(r"^#+ (.+)$", (ROOT / "docs" / "LOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def is_number(node):
    """Whether an expression is a number, or a tuple of numbers."""
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    if isinstance(node, ast.Tuple):
        return bool(node.elts) and all(is_number(part) for part in node.elts)
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def constants(path):
    """Module-level numeric constants, and numeric fields of configuration classes, by their lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bodies = [tree.body]
    bodies += [node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name.endswith("Config")]
    for body in bodies:
        for node in body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and is_number(node.value):
                yield node.lineno, node.end_lineno


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_numeric_constant_has_a_unit_and_a_source(path):
    lines, known = path.read_text(encoding="utf-8").splitlines(), anchors()
    for first, last in constants(path):
        comments, above = [lines[last - 1].partition("#")[2]], first - 2
        while above >= 0 and lines[above].strip().startswith("#"):
            comments.insert(0, lines[above].strip().lstrip("#"))
            above -= 1
        comment = "# " + " ".join(part.strip() for part in comments if part.strip())
        form = FORM.search(comment)
        assert form, f"line {first}: {lines[first - 1].strip()!r} needs '# UNIT: MEANING [SOURCE]', got {comment!r}"
        assert form["anchor"] is None or form["anchor"] in known, f"line {first}: docs/LOG.md has no {form['anchor']}"
