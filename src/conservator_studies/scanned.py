"""Documents that were typeset, degraded and read by Tesseract: what was read, beside what stood there.

A reading takes seconds, so that a file keeps them: one JSON object a line, written as soon as a page is read. Each has
the name, kind and level of the page, its ``truth``, the text that was read (``ocr``), the ``hocr``, and a ``key``, by
which a reading is known again.
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

REVISION = 1  # of how pages are drawn and degraded: readings of another one are not taken from a file
LAYOUT = "block"  # the pages have one column, and lines of code have wide blanks
FULL = ROWS // 2  # lines with text that a page must have at least


@dataclass(frozen=True)
class Scanned:
    """A page that was read.

    Attributes:
        truth: its lines as they were typeset, with indentation and empty lines.
        transcript: what Tesseract read.
        level: of the damage, one of LEVELS.
        kind: of the document.
        name: of the document, and the number of the page.
    """

    truth: str
    transcript: Transcript
    level: str
    kind: str
    name: str


@dataclass(frozen=True)
class Plan:
    """A page that is to be read: its lines, and how they are typeset and degraded."""

    lines: tuple[str, ...]
    level: str
    kind: str
    name: str

    @property
    def text(self) -> str:
        """Its lines as a text."""
        return "".join(line + "\n" for line in self.lines)

    def draw(self, seed: int) -> bytes:
        """The degraded image of the page."""
        drawn = int.from_bytes(hashlib.sha256(f"{seed} {self.name}".encode()).digest()[:8], "big")
        return degrade(draw(self.lines, self.kind).image, self.level, np.random.default_rng(drawn))

    def key(self, seed: int, version: str) -> str:
        """A hash of all that the reading depends on: what is drawn, how it is degraded, and Tesseract's version."""
        parts = [REVISION, LAYOUT, version, seed, self.name, self.kind, asdict(LEVELS[self.level]), self.text]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def choose_pages(documents: Sequence[bytes], kind: str, count: int, generator: np.random.Generator) -> list[Plan]:
    """Draw pages from as many documents as there are, with levels in turn.

    Of a document, a second page is taken only when all have one. Pages with less than FULL lines of text are left out.
    """
    found: list[tuple[int, float, str, tuple[str, ...]]] = []
    for number, document in enumerate(documents):
        pages = enumerate(paginate(document.decode(errors="replace"), kind), 1)
        full = [(page, lines) for page, lines in pages if sum(map(bool, lines)) >= FULL]
        for turn, index in enumerate(generator.permutation(len(full))):
            page, lines = full[index]
            found.append((turn, generator.random(), f"{kind} {number}, page {page}", tuple(lines)))
    chosen = sorted(found)[:count]
    levels = list(LEVELS)
    return [Plan(lines, levels[at % len(levels)], kind, name) for at, (*_, name, lines) in enumerate(chosen)]


def read_pages_of(corpora: Path, split: str, count: int, keep: Path, seed: int, track: Track) -> list[Scanned]:
    """Pages of prose, code and config, read by Tesseract.

    Args:
        corpora: the folder of the texts.
        split: ``eval``, or ``train``, of which only documents are taken that no built-in expert was trained on.
        count: pages of each kind.
        keep: the file that keeps the readings; those that it has are not read again.
        seed: of the choice of pages and of the damage.
        track: shows progress.
    """
    domains = read_domains(corpora, split, held_out=split == "train")
    plans = [
        choose_pages(documents, kind, count, np.random.default_rng([seed, number]))
        for number, (kind, documents) in enumerate(domains.items())
    ]
    kept = Readings(keep)
    turns = [plan for turn in zip(*plans, strict=False) for plan in turn]  # so that a run that ends early has all kinds
    return [kept.read(plan, seed) for plan in track(turns, "pages")]


class Readings:
    """The readings that a file keeps."""

    def __init__(self, path: Path) -> None:
        """Take a file, which need not exist."""
        self.path = path
        self.rows = {row["key"]: row for row in read_rows(path)}
        self.version = find_tesseract().version

    def read(self, plan: Plan, seed: int) -> Scanned:
        """A page, from the file or by Tesseract."""
        key = plan.key(seed, self.version)
        if key in self.rows:
            transcript = read_pages(self.rows[key]["hocr"].encode())
        else:
            transcript = read_scan(plan.draw(seed), layout=LAYOUT)
            row = {"key": key, "name": plan.name, "kind": plan.kind, "level": plan.level, "truth": plan.text}
            row |= {"ocr": transcript.text, "hocr": transcript.data.decode()}
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        return Scanned(plan.text, transcript, plan.level, plan.kind, plan.name)


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a file; one that was cut off at its end is taken away."""
    if not path.exists():
        return
    whole = 0
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                whole += len(line)
                yield json.loads(line)
    if whole < path.stat().st_size:
        os.truncate(path, whole)


def plain_lines(text: str) -> list[str]:
    """The lines of a text that have any, without indentation and with single blanks, as files of OCR have them."""
    return [" ".join(line.split()) for line in text.split("\n") if line.strip()]


def pair_lines(truth: str, read: str) -> list[tuple[str, str]]:
    """The lines of two texts beside each other, with the fewest edits; "" beside a line that is lost or invented."""
    rows, columns = plain_lines(truth), plain_lines(read)
    cost = np.zeros((len(rows) + 1, len(columns) + 1), dtype=int)
    cost[1:, 0], cost[0, 1:] = np.cumsum([len(line) for line in rows]), np.cumsum([len(line) for line in columns])
    both = [[Levenshtein.distance(row, column) for column in columns] for row in rows]
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            cost[i + 1, j + 1] = min(cost[i, j] + both[i][j], cost[i, j + 1] + len(row), cost[i + 1, j] + len(column))
    pairs, i, j = [], len(rows), len(columns)
    while i or j:
        if i and j and cost[i, j] == cost[i - 1, j - 1] + both[i - 1][j - 1]:
            i, j = i - 1, j - 1
            pairs.append((rows[i], columns[j]))
        elif i and cost[i, j] == cost[i - 1, j] + len(rows[i - 1]):
            i -= 1
            pairs.append((rows[i], ""))
        else:
            j -= 1
            pairs.append(("", columns[j]))
    return pairs[::-1]
