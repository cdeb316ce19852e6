"""Pages that are typeset, degraded and read: their lines, their seeds, and the file that keeps the readings."""

import io
import json
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from rapidfuzz.distance import Levenshtein

from conservator.pages import read_pages
from conservator_studies import scanned, typeset
from conservator_studies.degraded import LEVELS, degrade
from conservator_studies.scanned import Readings, choose_pages, pair_lines, plain_lines, read_pages_of, read_rows
from conservator_studies.study import untracked
from conservator_studies.typeset import COLUMNS, ROWS, render

CODE = "def one(two):\n\treturn two + 1  # " + "long " * 30 + "\n\n\nprint(one(3))\n"


@pytest.mark.parametrize("kind", typeset.FONTS)
@given(text=st.text(alphabet="ab \n\t\u4e2d'-", max_size=400))
def test_lines_fit_the_paper_and_nothing_is_lost(kind, text):
    pages = typeset.paginate(text, kind)
    assert all(1 <= len(lines) <= ROWS for lines in pages)
    assert all(len(line) <= COLUMNS for lines in pages for line in lines)
    shown = "".join(line for lines in pages for line in lines)
    assert shown.replace(" ", "") == "".join(text.replace("\u4e2d", "").split())


def test_pages_have_ink_and_their_text():
    (sheet,) = render(CODE, "code")
    assert sheet.text.startswith("def one(two):\n    return two + 1  # long")
    with Image.open(io.BytesIO(sheet.image)) as image:
        ink = np.asarray(image) < 128
        assert image.info["dpi"] == pytest.approx((300, 300), abs=0.1)
    margin = round(typeset.MARGIN * typeset.POINT)
    assert not ink[:margin].any()
    assert not ink[:, :margin].any()
    assert ink.any()
    assert len(render("a\n" * (ROWS + 1), "prose")) == 2


def test_damage_comes_from_the_seed(monkeypatch):
    monkeypatch.setattr(typeset, "ROWS", 4)
    (sheet,) = render("a\nb\nc\n", "prose")
    sizes = []
    for level, damage in LEVELS.items():
        one, same, other = (degrade(sheet.image, level, np.random.default_rng(seed)) for seed in (1, 1, 2))
        assert one == same != other
        with Image.open(io.BytesIO(one)) as image:
            assert image.info["dpi"] == pytest.approx((damage.dpi, damage.dpi), abs=0.1)
            sizes.append(image.width)
    assert sizes == sorted(sizes, reverse=True)


def least_edits(rows, columns):
    """The fewest edits of lines beside each other, by trying all ways."""

    @cache
    def least(i, j):
        ways = []
        if i < len(rows) and j < len(columns):
            ways.append(Levenshtein.distance(rows[i], columns[j]) + least(i + 1, j + 1))
        if i < len(rows):
            ways.append(len(rows[i]) + least(i + 1, j))
        if j < len(columns):
            ways.append(len(columns[j]) + least(i, j + 1))
        return min(ways, default=0)

    return least(0, 0)


@given(st.text(alphabet="ab \n", max_size=20), st.text(alphabet="ab \n", max_size=20))
def test_lines_beside_each_other(truth, read):
    pairs = pair_lines(truth, read)
    assert [one for one, _ in pairs if one] == plain_lines(truth)
    assert [other for _, other in pairs if other] == plain_lines(read)
    assert sum(Levenshtein.distance(*pair) for pair in pairs) == least_edits(plain_lines(truth), plain_lines(read))


def test_pages_of_many_documents(monkeypatch):
    monkeypatch.setattr(scanned, "FULL", 2)
    documents = [b"one\ntwo\n" * 40, b"three\nfour\n" * 40, b"short\n", b"five\nsix\n" * 40]
    plans = choose_pages(documents, "code", 5, np.random.default_rng(0))
    assert {plan.name.split(",")[0] for plan in plans[:3]} == {"code 0", "code 1", "code 3"}
    assert len({plan.name for plan in plans}) == 5
    assert [plan.level for plan in plans] == ["light", "medium", "heavy", "light", "medium"]
    assert choose_pages(documents, "code", 3, np.random.default_rng(0)) == plans[:3]


class Counting:
    """Reads nothing, and counts how often it is asked."""

    def __init__(self):
        self.asked = 0

    def __call__(self, image, *, layout):
        self.asked += 1
        return read_pages(
            f"<html><body><p class='ocr_page'><b class='ocr_line'>page {self.asked}</b></p></body></html>".encode()
        )


@pytest.fixture
def counting(monkeypatch):
    class Tesseract:
        version = "5.3.0"

    reader = Counting()
    monkeypatch.setattr(scanned, "read_scan", reader)
    monkeypatch.setattr(scanned, "find_tesseract", Tesseract)
    monkeypatch.setattr(scanned, "FULL", 2)
    monkeypatch.setattr(scanned, "degrade", lambda image, level, generator: image)
    return reader


def test_a_run_that_was_interrupted_goes_on(counting, tmp_path):
    corpora, keep = tmp_path / "corpora", tmp_path / "eval.jsonl"
    corpora.mkdir()
    for kind in ("prose", "code", "config"):
        rows = [{"text": f"name{number}: [{kind}]\n" * 30} for number in range(3)]
        (corpora / f"{kind}.eval.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    first = read_pages_of(corpora, "eval", 2, keep, 0, untracked)
    assert counting.asked == 6
    assert [page.kind for page in first[:3]] == ["prose", "code", "config"]
    assert first[1].truth.startswith("name")
    assert first[1].transcript.text == "page 2\n"
    rows = keep.read_text().splitlines(keepends=True)
    assert {*json.loads(rows[0])} == {"key", "name", "kind", "level", "truth", "ocr", "hocr"}
    keep.write_text("".join(rows[:4]) + rows[4][:50])
    assert len(list(read_rows(keep))) == 4
    assert keep.read_text() == "".join(rows[:4])
    again = read_pages_of(corpora, "eval", 2, keep, 0, untracked)
    assert counting.asked == 8
    assert [page.name for page in again] == [page.name for page in first]
    assert len(Readings(keep).rows) == 6
    read_pages_of(corpora, "eval", 2, keep, 1, untracked)
    assert counting.asked == 14
