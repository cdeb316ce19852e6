"""Comment filters: the result is the same program without comments."""

import ast
import io
import tokenize
from pathlib import Path

import pytest
import yaml

import conservator
import conservator_studies
from conservator.training.strip import strip_python_comments, strip_yaml_comments

SOURCES = sorted(
    path for package in (conservator, conservator_studies) for path in Path(package.__file__).parent.rglob("*.py")
)
TRICKY = '''\
#!/usr/bin/env python
# -*- coding: utf-8 -*-
"""Module é docstring"""  # and a comment
s = "# no comment"  # a comment
t = """# no
# comment either"""


class Only:
    """All of the body."""


def one(): "doc"


def two(): "doc"; return 1


def three(x):
    # first
    """Doc
    over lines."""
    # second

    def inner():
        r"""doc"""
        return f"# {x}"

    return [  # third
        1,
        # fourth
        2,
    ]
ü = "é"  # ü


def four():
    (
        "doc"  # inside
        # a docstring
        "more"
    )
    return 1


def five():
    "doc" \\
        # after a backslash
    return 1


x = 1 \\
# also
y = 2
'''


class WithoutDocstrings(ast.NodeTransformer):
    """Removes docstrings from a syntax tree: the expected result of the filter."""

    def visit(self, node):
        self.generic_visit(node)
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            remaining = [statement for statement in node.body[1:] if not isinstance(statement, ast.Pass)]
            node.body = remaining or ([] if isinstance(node, ast.Module) else [ast.Pass()])
        return node


def without_passes(tree):
    """Dump a syntax tree without ``pass``, which may replace a docstring before another statement."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and len(body) > 1:
            node.body = [statement for statement in body if not isinstance(statement, ast.Pass)] or body[:1]
    return ast.dump(tree)


@pytest.mark.parametrize("text", [TRICKY, *(path.read_text() for path in SOURCES)])
def test_the_program_is_unchanged(text):
    stripped = strip_python_comments(text)
    tokens = tokenize.generate_tokens(io.StringIO(stripped).readline)
    assert not [token for token in tokens if token.type == tokenize.COMMENT]
    expected = WithoutDocstrings().visit(ast.parse(text))
    assert without_passes(ast.parse(stripped)) == without_passes(expected)
    assert '"""Doc' not in stripped


def test_lines_with_only_a_comment_are_removed():
    assert strip_python_comments("# a\nx = 1  # b\n    # c\ny = 2\n") == "x = 1\ny = 2\n"
    assert strip_python_comments("x = 1  # no newline") == "x = 1"


@pytest.mark.parametrize("text", ["def f(:\n", "x = '", "\0", "if x:\n  a\n b\n"])
def test_invalid_python_is_rejected(text):
    assert strip_python_comments(text) is None


MANIFEST = """\
# a comment
kind: ConfigMap  # stays: not a full line
data:
  # another
  script: |
    #!/bin/sh
    # part of the script
    echo "#"
  # after the script
  folded: >-
    text
    # also text

  plain: "over
    # lines"
# last
"""


def test_full_line_comments_are_removed_and_scripts_are_preserved():
    stripped = strip_yaml_comments(MANIFEST)
    assert yaml.safe_load(stripped) == yaml.safe_load(MANIFEST)
    assert [line for line in MANIFEST.split("\n") if line not in stripped.split("\n")] == [
        "# a comment",
        "  # another",
        "  # after the script",
        "# last",
    ]


def test_windows_line_breaks_are_converted():
    assert strip_python_comments("# a\r\nx = 1  # b\r\n") == "x = 1\n"
    assert strip_yaml_comments("# a\r\nb: 1\r\n") == "b: 1\n"


def test_invalid_escapes_do_not_warn():
    assert strip_python_comments("x = '\\d'  # a\n") == "x = '\\d'\n"


def test_invalid_yaml_is_rejected():
    assert strip_yaml_comments('a: "x\u2028y"\n# c\nb: |\n  # t\n') is None
    assert strip_yaml_comments('a: "never closed\n# b\n') is None
    assert strip_yaml_comments("a:\n\t- b\n") is None
