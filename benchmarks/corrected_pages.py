"""Pages that were typeset, degraded and read by Tesseract: errors before and after correction, by kind of document.

    python benchmarks/rendered.py --corpora PATH --split eval --pages 16 --out FOLDER
    python benchmarks/corrected_pages.py --pages FOLDER/eval.jsonl --json results/benchmark_rendered.json

Each page is corrected with the built-in channel and models: its text alone, and with the confidences and other readings
that Tesseract gave. Spell checkers that are installed stand beside it. Errors are counted over whole pages, without
empty lines and indentation, by jiwer and by rapidfuzz. Corrected and harmed are characters: wrong ones that became
right, right ones that became wrong. Intervals are 95 %, by a bootstrap over pages. Each page is kept in FILE.pages as
soon as it is done, so that a run that was interrupted goes on where it was.
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
from newspapers import by_word, checkers, right
from rapidfuzz.distance import Levenshtein

from conservator import RestoreOptions, Restorer
from conservator.evaluation.provenance import commit, versions
from conservator.pages import Transcript, ocr_confidence_of, read_pages
from conservator.system.files import write_atomically
from conservator_studies.scanned import plain_lines, read_rows

RESAMPLES = 10_000
SEED = 0  # of the bootstrap
COLUMNS = ("characters", "before", "errors", "errors_jiwer", "corrected", "harmed", "seconds")
Fix = Callable[[Transcript], str]


def main() -> None:
    """Correct the pages, print and write what that cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=Path, required=True, help="readings that benchmarks/rendered.py kept")
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    keep = options.json.with_suffix(".pages")
    done = {(row["name"], row["method"]): row for row in read_rows(keep)}
    ways = dict(methods())
    for row in read_rows(options.pages):
        left = [name for name in ways if (row["name"], name) not in done]
        transcript = read_pages(row["hocr"].encode()) if left else None
        for name in left:
            assert transcript is not None
            began = time.process_time()
            text = ways[name](transcript)
            spent = time.process_time() - began
            found = {"name": row["name"], "kind": row["kind"], "level": row["level"], "method": name}
            found |= judge(row["truth"], transcript.text, text) | {"seconds": spent}
            done[row["name"], name] = found
            with keep.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
        print(row["name"], flush=True)
    rows = list(summaries(list(done.values()), list(ways)))
    for one in rows:
        print(
            f"{one['group']:8} {one['method']:24} {one['rate']:7.2%} [{one['rate_low']:.2%}, {one['rate_high']:.2%}]  "
            f"corrected {one['corrected']:5.0f} harmed {one['harmed']:5.0f}  {one['seconds']:.0f} s"
        )
    command = f"python benchmarks/corrected_pages.py --pages FOLDER/{options.pages.name} --json FILE"
    record = {"commit": commit(), "versions": versions(), "command": command}
    record |= {"seed": SEED, "resamples": RESAMPLES, "rows": rows}
    write_atomically(options.json, (json.dumps(record, indent=1) + "\n").encode())


def methods() -> Iterator[tuple[str, Fix]]:
    """The ways of correcting a page, by name."""
    restorer = Restorer(options=RestoreOptions(channel="ocr"))
    yield "as read", lambda page: page.text
    yield "text alone", lambda page: restorer.restore(page.text).text
    yield "with confidences", lambda page: restorer.restore(page.text, ocr_confidence=ocr_confidence_of(page)).text
    for name, fix in checkers():
        yield name, partial(spelled, fix)


def spelled(fix: Callable[[str], str], page: Transcript) -> str:
    """A page, corrected word by word."""
    return "\n".join(by_word(fix, [{"ocr": line} for line in page.text.split("\n")]))


def judge(truth: str, read: str, text: str) -> dict[str, float]:
    """What a page cost, given its correction."""
    clean, before, after = ("\n".join(plain_lines(one)) for one in (truth, read, text))
    (was, invented_before), (now, invented_after) = (right(clean, one) for one in (before, after))
    found = jiwer.process_characters(clean, after)
    return {
        "characters": len(clean),
        "before": Levenshtein.distance(clean, before),
        "errors": Levenshtein.distance(clean, after),
        "errors_jiwer": found.substitutions + found.deletions + found.insertions,
        "corrected": int((~was & now).sum()) + max(0, invented_before - invented_after),
        "harmed": int((was & ~now).sum()) + max(0, invented_after - invented_before),
    }


def summaries(pages: list[dict[str, Any]], names: list[str]) -> Iterator[dict[str, Any]]:
    """What each way cost, by kind, by level and in all."""
    kinds, levels = (list(dict.fromkeys(page[key] for page in pages)) for key in ("kind", "level"))
    for group in [*kinds, *levels, "all"]:
        for name in names:
            inside = [
                page for page in pages if page["method"] == name and group in (page["kind"], page["level"], "all")
            ]
            table = np.array([[page[column] for column in COLUMNS] for page in inside])
            totals = dict(zip(COLUMNS, table.sum(axis=0).tolist(), strict=True))
            draws = table[np.random.default_rng(SEED).integers(len(table), size=(RESAMPLES, len(table)))].sum(axis=1)
            low, high = np.quantile(draws[:, 2] / draws[:, 0], [0.025, 0.975]).tolist()
            fell = np.quantile((draws[:, 1] - draws[:, 2]) / draws[:, 0], [0.025, 0.975]).tolist()
            rates = {key: totals[of] / totals["characters"] for key, of in RATES.items()}
            yield {"group": group, "method": name, "pages": len(inside), **totals, **rates} | {
                "rate_low": low,
                "rate_high": high,
                "fall_low": fell[0],
                "fall_high": fell[1],
            }


RATES = {"rate_before": "before", "rate": "errors", "rate_jiwer": "errors_jiwer"}

if __name__ == "__main__":
    main()
