"""Correct pages that were rendered, degraded and recognised by Tesseract; errors before and after, by kind of document.

    python benchmarks/rendered.py --corpora PATH --split eval --pages 16 --out FOLDER
    python benchmarks/corrected_pages.py --pages FOLDER/eval.jsonl --json results/benchmark_rendered.json

Each page is corrected with the built-in channel and models, from its text alone and with the OCR confidences and
alternatives of Tesseract. Installed spell checkers are baselines. Errors are counted over whole pages, without empty
lines and indentation, by jiwer and by rapidfuzz. ``corrected`` counts wrong characters that became correct, ``harmed``
counts correct characters that became wrong. Intervals are 95 %, from a bootstrap over pages. Every finished page is
appended to FILE.pages, and an interrupted run resumes from there.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
from newspapers import correct_words, find_errors, spell_checkers
from rapidfuzz.distance import Levenshtein

from conservator import RestoreOptions, Restorer
from conservator.evaluation.provenance import commit, versions
from conservator.pages import Transcript, ocr_confidence_of, read_pages
from conservator.system.files import write_atomically
from conservator_studies.scanned import plain_lines, read_rows

RESAMPLES = 10_000  # bootstrap samples
SEED = 0  # of the bootstrap
COLUMNS = ("characters", "before", "errors", "errors_jiwer", "corrected", "harmed", "seconds")
RATES = {"rate_before": "before", "rate": "errors", "rate_jiwer": "errors_jiwer"}  # rate -> column of its errors
Method = Callable[[Transcript], str]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=Path, required=True, help="file of benchmarks/rendered.py")
    parser.add_argument("--json", type=Path, required=True, help="output file")
    options = parser.parse_args()
    pages_file = options.json.with_suffix(".pages")
    done = {(row["name"], row["method"]): row for row in read_rows(pages_file)}
    by_name = dict(methods())
    for source in read_rows(options.pages):
        pending = [name for name in by_name if (source["name"], name) not in done]
        transcript = read_pages(source["hocr"].encode()) if pending else None
        for name in pending:
            assert transcript is not None
            start = time.process_time()
            text = by_name[name](transcript)
            seconds = time.process_time() - start
            page: dict[str, Any] = {
                "name": source["name"],
                "kind": source["kind"],
                "level": source["level"],
                "method": name,
            }
            page |= measure(source["truth"], transcript.text, text) | {"seconds": seconds}
            done[source["name"], name] = page
            with pages_file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(page) + "\n")
        print(source["name"], flush=True)
    rows = list(summaries(list(done.values()), list(by_name)))
    for row in rows:
        print(
            f"{row['group']:8} {row['method']:24} {row['rate']:7.2%} [{row['rate_low']:.2%}, {row['rate_high']:.2%}]  "
            f"corrected {row['corrected']:5.0f} harmed {row['harmed']:5.0f}  {row['seconds']:.0f} s"
        )
    command = f"python benchmarks/corrected_pages.py --pages FOLDER/{options.pages.name} --json FILE"
    record: dict[str, Any] = {"commit": commit(), "versions": versions(), "command": command}
    record |= {"seed": SEED, "resamples": RESAMPLES, "rows": rows}
    write_atomically(options.json, (json.dumps(record, indent=1) + "\n").encode())


def methods() -> Iterator[tuple[str, Method]]:
    """Yield the names and functions of the methods that correct a page."""
    restorer = Restorer(options=RestoreOptions(channel="ocr"))
    yield "as read", lambda page: page.text
    yield "text alone", lambda page: restorer.restore(page.text).text
    yield "with confidences", lambda page: restorer.restore(page.text, ocr_confidence=ocr_confidence_of(page)).text
    for name, correct_word in spell_checkers():
        yield name, partial(spell_check, correct_word)


def spell_check(correct_word: Callable[[str], str], page: Transcript) -> str:
    """Correct a page word by word."""
    return "\n".join(correct_words(correct_word, [{"ocr": line} for line in page.text.split("\n")]))


def measure(truth: str, observed: str, corrected: str) -> dict[str, float]:
    """Count the characters and errors of a page before and after correction."""
    clean, before, after = ("\n".join(plain_lines(text)) for text in (truth, observed, corrected))
    (was_correct, inserted_before), (is_correct, inserted_after) = (
        find_errors(clean, text) for text in (before, after)
    )
    alignment = jiwer.process_characters(clean, after)
    return {
        "characters": len(clean),
        "before": Levenshtein.distance(clean, before),
        "errors": Levenshtein.distance(clean, after),
        "errors_jiwer": alignment.substitutions + alignment.deletions + alignment.insertions,
        "corrected": int((~was_correct & is_correct).sum()) + max(0, inserted_before - inserted_after),
        "harmed": int((was_correct & ~is_correct).sum()) + max(0, inserted_after - inserted_before),
    }


def summaries(pages: list[dict[str, Any]], names: list[str]) -> Iterator[dict[str, Any]]:
    """Summarise each method by kind, by level and over all pages."""
    kinds, levels = (list(dict.fromkeys(page[key] for page in pages)) for key in ("kind", "level"))
    for group in [*kinds, *levels, "all"]:
        for name in names:
            selected = [
                page for page in pages if page["method"] == name and group in (page["kind"], page["level"], "all")
            ]
            table = np.array([[page[column] for column in COLUMNS] for page in selected])
            totals = dict(zip(COLUMNS, table.sum(axis=0).tolist(), strict=True))
            draws = table[np.random.default_rng(SEED).integers(len(table), size=(RESAMPLES, len(table)))].sum(axis=1)
            low, high = np.quantile(draws[:, 2] / draws[:, 0], [0.025, 0.975]).tolist()
            reduction = np.quantile((draws[:, 1] - draws[:, 2]) / draws[:, 0], [0.025, 0.975]).tolist()
            rates = {rate: totals[column] / totals["characters"] for rate, column in RATES.items()}
            yield {"group": group, "method": name, "pages": len(selected), **totals, **rates} | {
                "rate_low": low,
                "rate_high": high,
                "fall_low": reduction[0],
                "fall_high": reduction[1],
            }


if __name__ == "__main__":
    main()
