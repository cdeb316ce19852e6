"""The documents of docs/ that hold code, and names of files."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("kind", ["expert", "causal", "channel", "engine"])
def test_an_extension_works_and_is_short(kind):
    text = (ROOT / "docs" / "extending.md").read_text()
    program = re.search(rf"<!-- extend: {kind} -->\n```python\n(.*?)```", text, re.DOTALL).group(1)
    assert len(program.splitlines()) < 35
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, {})
    assert "�" not in printed.getvalue()
    assert printed.getvalue()


def test_the_files_that_the_architecture_names_exist():
    text = (ROOT / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`((?:\w+/)+\w*(?:\.py)?|\w+\.py)`", text))
    assert len(named) > 12
    for name in named:
        assert (ROOT / "src" / "conservator" / name).exists() or (ROOT / name).exists(), name
