"""The documents of docs/ that hold code, and names of files."""

import contextlib
import io
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.commands import call
from support.ocr_files import write_hocr

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


RIGHT = "The constable found the prisoner in the burning house in the morning.\n"
# Commands that note how they were called, so that they can be run in this process.
NOTED = """#!/bin/sh
printf '%s\\0' "$@" >>"$CALLS"
printf '\\0' >>"$CALLS"
"""
OCRMYPDF = """#!/bin/sh
[ "$1 $2" = "-k book.pdf" ] || exit 2
mkdir "$TMPDIR/ocrmypdf.io.a b"
for number in 1 2; do cp page.hocr "$TMPDIR/ocrmypdf.io.a b/00000${number}_ocr_hocr.hocr"; done
cp page.png "$TMPDIR/ocrmypdf.io.a b/000001_ocr.png"
"""


def cook(recipe, folder):
    """Run a recipe of docs/ocr.md in a shell; the calls of conservator in it, one after the other."""
    text = (ROOT / "docs" / "ocr.md").read_text()
    script = re.search(rf"<!-- recipe: {recipe} -->\n```sh\n(.*?)```", text, re.DOTALL).group(1)
    (folder / "bin").mkdir()
    for name, program in [("conservator", NOTED), ("ocrmypdf", OCRMYPDF)]:
        (folder / "bin" / name).write_text(program)
        (folder / "bin" / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "CALLS": "calls"}
    subprocess.run(["sh", "-eu", "-c", script], cwd=folder, env=environment, check=True)
    for line in (folder / "calls").read_text().split("\0\0")[:-1]:
        done = call(*line.split("\0"), cwd=folder)
        assert done.returncode == 0, done.stderr
        yield done


@pytest.mark.external_programs
@pytest.mark.skipif(shutil.which("tesseract") is None, reason="there is no Tesseract, which reads scans")
def test_the_recipe_for_a_scan(tmp_path):
    from conservator_studies.typeset import render

    (tmp_path / "scan.png").write_bytes(render(RIGHT, "prose")[0].image)
    assert len(list(cook("scan", tmp_path))) == 2
    assert (tmp_path / "scan.txt").read_text() == RIGHT
    assert "ocrx_word" in (tmp_path / "scan.hocr").read_text()
    assert "ConservatorView.start()" in (tmp_path / "scan.html").read_text()


def test_the_recipe_for_a_folder_of_hocr(tmp_path):
    from PIL import Image

    Image.new("L", (120, 60), "white").save(tmp_path / "page.png")
    lines = write_hocr([RIGHT.replace("found the", "found tbe").split()])
    page = b"<div class='ocr_page' title='image \"/tmp/gone/000001_ocr.png\"; bbox 0 0 120 60'>"
    (tmp_path / "page.hocr").write_bytes(lines.replace(b"<div class='ocr_page'>", page))
    assert len(list(cook("hocr", tmp_path))) == 2
    for number in (1, 2):
        assert "data-original='tbe'" in (tmp_path / f"corrected/00000{number}.hocr").read_text().replace('"', "'")
        assert "data:image/png" in (tmp_path / f"corrected/00000{number}.html").read_text()


def test_the_recipe_for_a_text(tmp_path):
    wrong = RIGHT.replace("rn", "m").replace("found the", "found tbe")
    (tmp_path / "page.txt").write_text(wrong)
    (tmp_path / "read.txt").write_text(wrong * 20 + RIGHT * 20)
    (tmp_path / "right.txt").write_text(RIGHT * 40)
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "old.txt").write_text(RIGHT * 30)
    assert len(list(cook("text", tmp_path))) == 3
    assert "found the prisoner" in (tmp_path / "corrected.txt").read_text()
    assert (tmp_path / "better.txt").read_text() == RIGHT
    assert '"observed": "m", "text": "rn"' in (tmp_path / "better.json").read_text()
