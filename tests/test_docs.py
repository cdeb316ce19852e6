"""The code and the file names in docs/ are valid."""

import contextlib
import io
import json
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


def test_files_named_in_the_architecture_exist():
    text = (ROOT / "docs" / "architecture.md").read_text()
    names = set(re.findall(r"`((?:\w+/)+\w*(?:\.py)?|\w+\.py)`", text))
    assert len(names) > 12
    for name in names:
        assert (ROOT / "src" / "conservator" / name).exists() or (ROOT / name).exists(), name


CLEAN = "The constable found the prisoner in the burning house in the morning.\n"
# A command that records its arguments, so that the test can run the call in this process.
RECORDER = """#!/bin/sh
printf '%s\\0' "$@" >>"$CALLS"
printf '\\0' >>"$CALLS"
"""
OCRMYPDF = """#!/bin/sh
[ "$1 $2" = "-k book.pdf" ] || exit 2
mkdir "$TMPDIR/ocrmypdf.io.a b"
for number in 1 2; do cp page.hocr "$TMPDIR/ocrmypdf.io.a b/00000${number}_ocr_hocr.hocr"; done
cp page.png "$TMPDIR/ocrmypdf.io.a b/000001_ocr.png"
"""


def run_recipe(recipe, folder):
    """Run a recipe of docs/ocr.md in a shell, then its calls of conservator in this process; yield their results."""
    text = (ROOT / "docs" / "ocr.md").read_text()
    script = re.search(rf"<!-- recipe: {recipe} -->\n```sh\n(.*?)```", text, re.DOTALL).group(1)
    (folder / "bin").mkdir()
    for name, program in [("conservator", RECORDER), ("ocrmypdf", OCRMYPDF)]:
        (folder / "bin" / name).write_text(program)
        (folder / "bin" / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "CALLS": "calls"}
    subprocess.run(["sh", "-eu", "-c", script], cwd=folder, env=environment, check=True)
    for line in (folder / "calls").read_text().split("\0\0")[:-1]:
        process = call(*line.split("\0"), cwd=folder)
        assert process.returncode == 0, process.stderr
        yield process


@pytest.mark.external_programs
@pytest.mark.skipif(shutil.which("tesseract") is None, reason="needs Tesseract")
def test_the_recipe_for_a_scan(tmp_path):
    from conservator_studies.typeset import draw, paginate

    (tmp_path / "scan.png").write_bytes(draw(paginate(CLEAN, "prose")[0], "prose"))
    assert len(list(run_recipe("scan", tmp_path))) == 2
    assert (tmp_path / "scan.txt").read_text() == CLEAN
    assert "ocrx_word" in (tmp_path / "scan.hocr").read_text()
    assert "ConservatorView.start()" in (tmp_path / "scan.html").read_text()


def test_the_recipe_for_a_folder_of_hocr(tmp_path):
    from PIL import Image

    Image.new("L", (120, 60), "white").save(tmp_path / "page.png")
    lines = write_hocr([CLEAN.replace("found the", "found tbe").split()])
    page = b"<div class='ocr_page' title='image \"/tmp/gone/000001_ocr.png\"; bbox 0 0 120 60'>"
    (tmp_path / "page.hocr").write_bytes(lines.replace(b"<div class='ocr_page'>", page))
    assert len(list(run_recipe("hocr", tmp_path))) == 2
    for number in (1, 2):
        assert "data-original='tbe'" in (tmp_path / f"corrected/00000{number}.hocr").read_text().replace('"', "'")
        assert "data:image/png" in (tmp_path / f"corrected/00000{number}.html").read_text()


def test_the_recipe_for_a_text(tmp_path):
    observed = CLEAN.replace("rn", "m").replace("found the", "found tbe")
    (tmp_path / "page.txt").write_text(observed)
    (tmp_path / "read.txt").write_text(observed * 20 + CLEAN * 20)
    (tmp_path / "right.txt").write_text(CLEAN * 40)
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "old.txt").write_text(CLEAN * 30)
    assert len(list(run_recipe("text", tmp_path))) == 3
    assert "found the prisoner" in (tmp_path / "corrected.txt").read_text()
    assert (tmp_path / "better.txt").read_text() == CLEAN
    pieces = json.loads((tmp_path / "better.json").read_text())["pieces"]
    assert ("m", "rn") in [(piece.get("observed"), piece["text"]) for piece in pieces]


def test_the_recipe_for_several_readings(tmp_path):
    (tmp_path / "page.hocr").write_bytes(write_hocr([CLEAN.replace("prisoner", "prisouer").split()]))
    (tmp_path / "engine2.txt").write_text(CLEAN.replace("burning", "buming").replace(" in", "\nin"))
    (tmp_path / "engine3.txt").write_bytes(CLEAN.replace("constable", "c\u00f6nstable").encode("windows-1252"))
    assert len(list(run_recipe("readings", tmp_path))) == 1
    assert "data-original='prisouer'" in (tmp_path / "merged.hocr").read_text().replace('"', "'")
