"""Typeset and degraded pages with OCR: lines, seeds, and the cache file."""

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
from conservator_studies.scanned import OcrCache, choose_pages, pair_lines, plain_lines, read_rows, scan_corpora
from conservator_studies.study import untracked
from conservator_studies.typeset import COLUMNS, ROWS

CODE = "def one(two):\n\treturn two + 1  # " + "long " * 30 + "\n\n\nprint(one(3))\n"


@pytest.mark.parametrize("kind", typeset.FONTS)
@given(text=st.text(alphabet="ab \n\t\u4e2d'-", max_size=400))
def test_lines_fit_the_page_and_no_character_is_lost(kind, text):
    pages = typeset.paginate(text, kind)
    assert all(1 <= len(lines) <= ROWS for lines in pages)
    assert all(len(line) <= COLUMNS for lines in pages for line in lines)
    shown = "".join(line for lines in pages for line in lines)
    assert shown.replace(" ", "") == "".join(text.replace("\u4e2d", "").split())


def test_pages_have_ink_and_text():
    (lines,) = typeset.paginate(CODE, "code")
    assert lines[0] == "def one(two):"
    assert lines[1].startswith("    return two + 1  # long")
    with Image.open(io.BytesIO(typeset.draw(lines, "code"))) as image:
        ink = np.asarray(image) < 128
        assert image.info["dpi"] == pytest.approx((300, 300), abs=0.1)
    margin = round(typeset.MARGIN * typeset.POINT)
    assert not ink[:margin].any()
    assert not ink[:, :margin].any()
    assert ink.any()
    assert len(typeset.paginate("a\n" * (ROWS + 1), "prose")) == 2


def test_damage_depends_on_the_seed(monkeypatch):
    monkeypatch.setattr(typeset, "ROWS", 4)
    page = typeset.draw(["a", "b", "c", ""], "prose")
    sizes = []
    for level, damage in LEVELS.items():
        first, repeated, other = (degrade(page, level, np.random.default_rng(seed)) for seed in (1, 1, 2))
        assert first == repeated != other
        with Image.open(io.BytesIO(first)) as image:
            assert image.info["dpi"] == pytest.approx((damage.dpi, damage.dpi), abs=0.1)
            sizes.append(image.width)
    assert sizes == sorted(sizes, reverse=True)


def min_edits(rows, columns):
    """Smallest number of edits of aligned lines, by enumeration."""

    @cache
    def suffix_edits(i, j):
        candidates = []
        if i < len(rows) and j < len(columns):
            candidates.append(Levenshtein.distance(rows[i], columns[j]) + suffix_edits(i + 1, j + 1))
        if i < len(rows):
            candidates.append(len(rows[i]) + suffix_edits(i + 1, j))
        if j < len(columns):
            candidates.append(len(columns[j]) + suffix_edits(i, j + 1))
        return min(candidates, default=0)

    return suffix_edits(0, 0)


@given(st.text(alphabet="ab \n", max_size=20), st.text(alphabet="ab \n", max_size=20))
def test_lines_are_aligned_with_the_fewest_edits(truth, recognised):
    pairs = pair_lines(truth, recognised)
    assert [line for line, _ in pairs if line] == plain_lines(truth)
    assert [line for _, line in pairs if line] == plain_lines(recognised)
    assert sum(Levenshtein.distance(*pair) for pair in pairs) == min_edits(plain_lines(truth), plain_lines(recognised))


def test_pages_are_drawn_from_many_documents(monkeypatch):
    monkeypatch.setattr(scanned, "MIN_LINES", 2)
    documents = [b"one\ntwo\n" * 40, b"three\nfour\n" * 40, b"short\n", b"five\nsix\n" * 40]
    plans = choose_pages(documents, "code", 5, np.random.default_rng(0))
    assert {plan.name.split(",")[0] for plan in plans[:3]} == {"code 0", "code 1", "code 3"}
    assert len({plan.name for plan in plans}) == 5
    assert [plan.level for plan in plans] == ["light", "medium", "heavy", "light", "medium"]
    assert choose_pages(documents, "code", 3, np.random.default_rng(0)) == plans[:3]


class CountingOcr:
    """An OCR engine that returns a page number and counts its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, image, *, layout):
        self.calls += 1
        return read_pages(
            f"<html><body><p class='ocr_page'><b class='ocr_line'>page {self.calls}</b></p></body></html>".encode()
        )


@pytest.fixture
def counting(monkeypatch):
    class Tesseract:
        version = "5.3.0"

    engine = CountingOcr()
    monkeypatch.setattr(scanned, "read_scan", engine)
    monkeypatch.setattr(scanned, "find_tesseract", Tesseract)
    monkeypatch.setattr(scanned, "MIN_LINES", 2)
    monkeypatch.setattr(scanned, "degrade", lambda image, level, generator: image)
    return engine


def test_an_interrupted_run_resumes(counting, tmp_path):
    corpora, cache = tmp_path / "corpora", tmp_path / "eval.jsonl"
    corpora.mkdir()
    for kind in ("prose", "code", "config"):
        rows = [{"text": f"name{number}: [{kind}]\n" * 30} for number in range(3)]
        (corpora / f"{kind}.eval.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    first = scan_corpora(corpora, "eval", 2, cache, 0, untracked)
    assert counting.calls == 6
    assert [page.kind for page in first[:3]] == ["prose", "code", "config"]
    assert first[1].truth.startswith("name")
    assert first[1].transcript.text == "page 2\n"
    rows = cache.read_text().splitlines(keepends=True)
    assert {*json.loads(rows[0])} == {"key", "name", "kind", "level", "truth", "ocr", "hocr"}
    cache.write_text("".join(rows[:4]) + rows[4][:50])
    assert len(list(read_rows(cache))) == 4
    assert cache.read_text() == "".join(rows[:4])
    resumed = scan_corpora(corpora, "eval", 2, cache, 0, untracked)
    assert counting.calls == 8
    assert [page.name for page in resumed] == [page.name for page in first]
    assert len(OcrCache(cache).rows) == 6
    scan_corpora(corpora, "eval", 2, cache, 1, untracked)
    assert counting.calls == 14
