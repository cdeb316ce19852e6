"""Pages that were typeset, degraded and read by Tesseract: how much of them is misread, by kind and by level of damage.

    python benchmarks/rendered.py --corpora PATH --split eval --pages 16 --out FOLDER

FOLDER/SPLIT.jsonl gets a row for each page, with its ``truth``, what was read (``ocr``) and the ``hocr``; a run that
was interrupted goes on where it was. The split ``train`` is without documents that built-in experts were trained on.
Errors are the characters to insert, delete or replace on a whole page, over the characters of the truth, all pages of a
row together. Empty lines and indentation, which no format of OCR has, do not count; a line end counts as a character.
Intervals are 95 %, by a bootstrap over pages.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
from rapidfuzz.distance import Levenshtein

from conservator.system.files import make_folder
from conservator_studies.degraded import LEVELS
from conservator_studies.scanned import ScannedPage, pair_lines, plain_lines, scan_corpora

SHOWN = 15
RESAMPLES = 10_000


def count_errors(page: ScannedPage) -> tuple[int, int]:
    """The errors on a page, and the characters of its truth."""
    truth, read = ("\n".join(plain_lines(text)) for text in (page.truth, page.transcript.text))
    found = jiwer.process_characters(truth, read)
    return found.substitutions + found.deletions + found.insertions, len(truth)


def error_rate(pages: list[ScannedPage]) -> str:
    """The share of characters in error, with its interval."""
    counts = np.array([count_errors(page) for page in pages])
    drawn = counts[np.random.default_rng(0).integers(len(pages), size=(RESAMPLES, len(pages)))].sum(1)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    errors, characters = counts.sum(0)
    rate = errors / characters
    return f"{rate:6.2%} [{low:.2%}, {high:.2%}]  {errors} errors in {characters} characters, {len(pages)} pages"


def confusions(pages: Iterable[ScannedPage]) -> Counter[tuple[str, str]]:
    """What stood there and what was read instead, where lines were read as lines."""
    counts: Counter[tuple[str, str]] = Counter()
    for page in pages:
        for truth, read in pair_lines(page.truth, page.transcript.text):
            if truth and read:
                for edit in Levenshtein.opcodes(truth, read):
                    if edit.tag != "equal":
                        counts[truth[edit.src_start : edit.src_end], read[edit.dest_start : edit.dest_end]] += 1
    return counts


def track(items: Iterable[Any], title: str) -> Iterable[Any]:
    """Print how many are done."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % 12 == 0:
            print(number, title, flush=True)


def main() -> None:
    """Make the pages, print their errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--split", choices=["train", "eval"], default="eval")
    parser.add_argument("--pages", type=int, default=16, help="of each kind")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the readings")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    keep = make_folder(options.out) / f"{options.split}.jsonl"
    pages = scan_corpora(options.corpora, options.split, options.pages, keep, options.seed, track)
    kinds: dict[str, list[ScannedPage]] = defaultdict(list)
    for page in pages:
        kinds[page.kind].append(page)
    for kind, found in kinds.items():
        for level in LEVELS:
            chosen = [page for page in found if page.level == level]
            if chosen:
                print(f"{kind:7} {level:7}", error_rate(chosen))
        print(f"{kind:7} all    ", error_rate(found))
        common = confusions(found).most_common(SHOWN)
        print("  ", "  ".join(f"{truth!r} > {read!r} {count}" for (truth, read), count in common))
    for level in LEVELS:
        print(f"all     {level:7}", error_rate([page for page in pages if page.level == level]))


if __name__ == "__main__":
    main()
