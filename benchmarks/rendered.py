"""OCR error rates of pages that were rendered, degraded and recognised by Tesseract, by kind and level of damage.

    python benchmarks/rendered.py --corpora PATH --split eval --pages 16 --out FOLDER

FOLDER/SPLIT.jsonl gets one row per page with its ``truth``, the recognised text (``ocr``) and the ``hocr``; an
interrupted run resumes from there. The split ``train`` excludes documents that the built-in experts were trained on.
The error rate is the number of inserted, deleted and replaced characters divided by the number of true characters,
over all pages of a row. Empty lines and indentation, which OCR formats do not contain, are ignored; a line end counts
as a character. Intervals are 95 %, from a bootstrap over pages.
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

MAX_CONFUSIONS = 15  # confusions printed per kind
RESAMPLES = 10_000  # bootstrap samples


def count_errors(page: ScannedPage) -> tuple[int, int]:
    """Count the errors and the true characters of a page."""
    truth, observed = ("\n".join(plain_lines(text)) for text in (page.truth, page.transcript.text))
    alignment = jiwer.process_characters(truth, observed)
    return alignment.substitutions + alignment.deletions + alignment.insertions, len(truth)


def error_rate(pages: list[ScannedPage]) -> str:
    """Format the character error rate with its interval."""
    counts = np.array([count_errors(page) for page in pages])
    samples = counts[np.random.default_rng(0).integers(len(pages), size=(RESAMPLES, len(pages)))].sum(1)
    low, high = np.quantile(samples[:, 0] / samples[:, 1], [0.025, 0.975])
    errors, characters = counts.sum(0)
    rate = errors / characters
    return f"{rate:6.2%} [{low:.2%}, {high:.2%}]  {errors} errors in {characters} characters, {len(pages)} pages"


def confusions(pages: Iterable[ScannedPage]) -> Counter[tuple[str, str]]:
    """Count the pairs of true and recognised strings that differ, in lines that could be paired."""
    counts: Counter[tuple[str, str]] = Counter()
    for page in pages:
        for truth, observed in pair_lines(page.truth, page.transcript.text):
            if truth and observed:
                for edit in Levenshtein.opcodes(truth, observed):
                    if edit.tag != "equal":
                        counts[truth[edit.src_start : edit.src_end], observed[edit.dest_start : edit.dest_end]] += 1
    return counts


def track(items: Iterable[Any], title: str) -> Iterable[Any]:
    """Print the number of finished items."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % 12 == 0:
            print(number, title, flush=True)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="folder with NAME.SPLIT.jsonl.gz")
    parser.add_argument("--split", choices=["train", "eval"], default="eval")
    parser.add_argument("--pages", type=int, default=16, help="pages per kind")
    parser.add_argument("--out", type=Path, required=True, help="output folder")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    output = make_folder(options.out) / f"{options.split}.jsonl"
    pages = scan_corpora(options.corpora, options.split, options.pages, output, options.seed, track)
    kinds: dict[str, list[ScannedPage]] = defaultdict(list)
    for page in pages:
        kinds[page.kind].append(page)
    for kind, pages_of_kind in kinds.items():
        for level in LEVELS:
            selected = [page for page in pages_of_kind if page.level == level]
            if selected:
                print(f"{kind:7} {level:7}", error_rate(selected))
        print(f"{kind:7} all    ", error_rate(pages_of_kind))
        common = confusions(pages_of_kind).most_common(MAX_CONFUSIONS)
        print("  ", "  ".join(f"{truth!r} > {observed!r} {count}" for (truth, observed), count in common))
    for level in LEVELS:
        print(f"all     {level:7}", error_rate([page for page in pages if page.level == level]))


if __name__ == "__main__":
    main()
