"""Typeset and degraded documents with their OCR by Tesseract, and the clean text.

The OCR of a page takes seconds, so a file caches it: one JSON object per line, written after each page. An object has
the name, kind and level of the page, its clean text (``truth``), the recognised text (``ocr``), the ``hocr``, and a
``key``, a hash of all inputs.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rapidfuzz.distance import Levenshtein

from conservator.pages import Transcript, find_tesseract, read_pages, read_scan
from conservator_studies.corpora import read_domains
from conservator_studies.degraded import LEVELS, degrade
from conservator_studies.study import Track
from conservator_studies.typeset import ROWS, draw, paginate

REVISION = 1  # version of typesetting and degradation; part of the cache key
LAYOUT = "block"  # pages have one column, and lines of code have wide blanks
MIN_LINES = ROWS // 2  # lines: minimum number of non-empty lines per page [untuned]


@dataclass(frozen=True)
class ScannedPage:
    """A page with its OCR.

    Attributes:
        truth: typeset lines, with indentation and empty lines.
        transcript: OCR by Tesseract.
        level: level of the damage, a key of LEVELS.
        kind: kind of the document.
        name: name of the document, and number of the page.
    """

    truth: str
    transcript: Transcript
    level: str
    kind: str
    name: str


@dataclass(frozen=True)
class PagePlan:
    """Inputs of a page: its lines, and how they are typeset and degraded."""

    lines: tuple[str, ...]
    level: str
    kind: str
    name: str

    @property
    def text(self) -> str:
        """Lines as one text."""
        return "".join(line + "\n" for line in self.lines)

    def draw(self, seed: int) -> bytes:
        """Draw the degraded image of the page."""
        page_seed = int.from_bytes(hashlib.sha256(f"{seed} {self.name}".encode()).digest()[:8], "big")
        return degrade(draw(self.lines, self.kind), self.level, np.random.default_rng(page_seed))

    def key(self, seed: int, version: str) -> str:
        """Hash of all inputs of the OCR: text, degradation and version of Tesseract."""
        inputs = [REVISION, LAYOUT, version, seed, self.name, self.kind, asdict(LEVELS[self.level]), self.text]
        return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()


def choose_pages(documents: Sequence[bytes], kind: str, count: int, generator: np.random.Generator) -> list[PagePlan]:
    """Draw pages from as many documents as possible, with alternating levels.

    A second page of a document is selected only after one page of every document. Pages with fewer than MIN_LINES
    non-empty lines are excluded.
    """
    candidates: list[tuple[int, float, str, tuple[str, ...]]] = []
    for number, document in enumerate(documents):
        pages = enumerate(paginate(document.decode(errors="replace"), kind), 1)
        full = [(page, lines) for page, lines in pages if sum(map(bool, lines)) >= MIN_LINES]
        for turn, index in enumerate(generator.permutation(len(full))):
            page, lines = full[index]
            candidates.append((turn, generator.random(), f"{kind} {number}, page {page}", tuple(lines)))
    chosen = sorted(candidates)[:count]
    levels = list(LEVELS)
    return [PagePlan(lines, levels[index % len(levels)], kind, name) for index, (*_, name, lines) in enumerate(chosen)]


def scan_corpora(corpora: Path, split: str, count: int, cache: Path, seed: int, track: Track) -> list[ScannedPage]:
    """Make pages of prose, code and config, and run Tesseract on them.

    Args:
        corpora: folder of the texts.
        split: ``eval`` or ``train``; only documents of ``train`` that no built-in expert was trained on.
        count: number of pages of each kind.
        cache: file with cached OCR; it is extended.
        seed: random seed of the selection of pages and of the damage.
        track: shows progress.
    """
    domains = read_domains(corpora, split, held_out=split == "train")
    plans = [
        choose_pages(documents, kind, count, np.random.default_rng([seed, number]))
        for number, (kind, documents) in enumerate(domains.items())
    ]
    ocr = OcrCache(cache)
    alternating = [plan for turn in zip(*plans, strict=False) for plan in turn]  # an interrupted run has all kinds
    return [ocr.read(plan, seed) for plan in track(alternating, "pages")]


class OcrCache:
    """OCR of pages, cached in a file."""

    def __init__(self, path: Path) -> None:
        """Read the cache file ``path``, if it exists."""
        self.path = path
        self.rows = {row["key"]: row for row in read_rows(path)}
        self.version = find_tesseract().version

    def read(self, plan: PagePlan, seed: int) -> ScannedPage:
        """Return a page from the cache, or run Tesseract."""
        key = plan.key(seed, self.version)
        if key in self.rows:
            transcript = read_pages(self.rows[key]["hocr"].encode())
        else:
            transcript = read_scan(plan.draw(seed), layout=LAYOUT)
            row = {"key": key, "name": plan.name, "kind": plan.kind, "level": plan.level, "truth": plan.text}
            row |= {"ocr": transcript.text, "hocr": transcript.data.decode()}
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        return ScannedPage(plan.text, transcript, plan.level, plan.kind, plan.name)


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """Read the rows of a file; an incomplete last row is removed from the file."""
    if not path.exists():
        return
    complete_bytes = 0
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                complete_bytes += len(line)
                yield json.loads(line)
    if complete_bytes < path.stat().st_size:
        os.truncate(path, complete_bytes)


def plain_lines(text: str) -> list[str]:
    """Return the non-empty lines of a text, without indentation and with single blanks, as in OCR files."""
    return [" ".join(line.split()) for line in text.split("\n") if line.strip()]


def pair_lines(truth: str, recognised: str) -> list[tuple[str, str]]:
    """Align the lines of two texts with the fewest edits; a missing or additional line is paired with an empty line."""
    rows, columns = plain_lines(truth), plain_lines(recognised)
    cost = np.zeros((len(rows) + 1, len(columns) + 1), dtype=int)
    cost[1:, 0], cost[0, 1:] = np.cumsum([len(line) for line in rows]), np.cumsum([len(line) for line in columns])
    distances = [[Levenshtein.distance(row, column) for column in columns] for row in rows]
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            cost[i + 1, j + 1] = min(
                cost[i, j] + distances[i][j], cost[i, j + 1] + len(row), cost[i + 1, j] + len(column)
            )
    pairs, i, j = [], len(rows), len(columns)
    while i or j:
        if i and j and cost[i, j] == cost[i - 1, j - 1] + distances[i - 1][j - 1]:
            i, j = i - 1, j - 1
            pairs.append((rows[i], columns[j]))
        elif i and cost[i, j] == cost[i - 1, j] + len(rows[i - 1]):
            i -= 1
            pairs.append((rows[i], ""))
        else:
            j -= 1
            pairs.append(("", columns[j]))
    return pairs[::-1]
