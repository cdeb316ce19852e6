"""Restoration of mojibake, next to ftfy: repaired cases, changes of intact text, and characters restored.

    python benchmarks/mojibake.py cases CASES.jsonl.gz
    python benchmarks/mojibake.py intact TEXTS.jsonl.gz ...
    python benchmarks/mojibake.py pages PATH [--documents 15] [--lengths 0 600 150]
    python benchmarks/mojibake.py round TEXTS.jsonl.gz ... [--encodings windows-1252 latin-1] [--documents 4]

cases: lines with "damaged", "restored_by_editors" and "kind". A text counts as restored if it is equal to that of the
editors; where that has U+FFFD, any one character counts, and such cases are counted as ``chosen`` if the result has no
U+FFFD. ftfy is ``fix_encoding`` and ``fix_text``; both are compared with the same rule.

intact: undamaged texts ("text"); the number of changed spans. pages: as in encodings.py, files in legacy encodings
that are opened with their encoding detected.

round: each text is encoded in UTF-8 and decoded with an encoding; undefined bytes become U+FFFD. Errors are characters
that differ, from an alignment; the share refers to the characters outside ASCII.
"""

import argparse
import gzip
import importlib.util
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import ftfy
from rapidfuzz.distance import Levenshtein

from conservator import Restorer

MARK = "\ufffd"
SPEC = importlib.util.spec_from_file_location("encodings_benchmark", Path(__file__).parent / "encodings.py")
PAGES = importlib.util.module_from_spec(SPEC)  # the name of the file is that of a standard module
SPEC.loader.exec_module(PAGES)


def read_lines(path: Path) -> Iterator[dict[str, str]]:
    """Read a file with one JSON object per line."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def fix_lines(text: str) -> str:
    """Return the text of ``ftfy.fix_encoding``, line by line as in ``ftfy.fix_text``."""
    return "\n".join(map(ftfy.fix_encoding, text.split("\n")))


def is_restored(text: str, expected: str) -> bool:
    """Return whether a text is the expected one; U+FFFD of the expected one stands for any character."""
    return re.fullmatch(".".join(map(re.escape, expected.split(MARK))), text, re.DOTALL) is not None


def count_errors(text: str, expected: str) -> int:
    """Return the number of characters that differ in an optimal alignment."""
    return sum(
        max(part.src_end - part.src_start, part.dest_end - part.dest_start)
        for part in Levenshtein.opcodes(expected, text)
        if part.tag != "equal"
    )


def run_cases(restorer: Restorer, path: Path) -> None:
    """Print the number of restored cases of each kind, and the cases that are not."""
    counts: dict[str, Counter[str]] = {}
    for case in read_lines(path):
        expected = case["restored_by_editors"]
        results = {
            "conservator": restorer.restore(case["damaged"], channel="mojibake").text,
            "fix_encoding": ftfy.fix_encoding(case["damaged"]),
            "fix_text": ftfy.fix_text(case["damaged"]),
        }
        count = counts.setdefault(case["kind"], Counter())
        count["cases"] += 1
        count["with U+FFFD"] += MARK in expected
        for name, text in results.items():
            count[name] += is_restored(text, expected)
            count[f"{name} chosen"] += MARK in expected and MARK not in text and is_restored(text, expected)
        if not is_restored(results["conservator"], expected):
            print(f"  {case['id']}: {case['damaged']!r} -> {results['conservator']!r}, expected {expected!r}")
    for kind, count in counts.items():
        print(f"{kind}: {dict(count)}")


def run_intact(restorer: Restorer, paths: list[Path]) -> None:
    """Print the number of changed spans of undamaged texts."""
    for path in paths:
        size = changes = 0
        for line in read_lines(path):
            result = restorer.restore(line["text"].replace(MARK, ""), channel="mojibake")
            size, changes = size + len(line["text"]), changes + len(result.edits)
            for edit in result.edits:
                print(f"  {result.observed[slice(*edit.span)].decode()!r} -> {edit.text!r}")
        print(f"{path.name}: {changes} changes in {size} characters", flush=True)


def run_pages(restorer: Restorer, path: Path, documents: int, lengths: list[int]) -> None:
    """Print the number of pages in legacy encodings that are changed."""
    for length in lengths:
        pages = changed = 0
        for language, encodings in PAGES.ENCODINGS.items():
            for encoding in encodings:
                for text in PAGES.cases(path / language, encoding, documents, length):
                    result = restorer.restore(text.encode(encoding), channel="mojibake")
                    pages += 1
                    if result.edits:
                        changed += 1
                        spans = [(result.observed[slice(*edit.span)].decode(), edit.text) for edit in result.edits]
                        print(f"  {language} in {encoding}, read as {result.encoding}: {len(spans)}, {spans[:3]}")
        print(f"length {length or 'whole'}: {changed} of {pages} pages changed", flush=True)


def run_round(restorer: Restorer, paths: list[Path], encodings: list[str], documents: int, characters: int) -> None:
    """Print the share of characters restored for each language and encoding."""
    for encoding in encodings:
        total: Counter[str] = Counter()
        for path in paths:
            count: Counter[str] = Counter()
            for line, _ in zip(read_lines(path), range(documents), strict=False):
                clean = line["text"][:characters]
                damaged = clean.encode().decode(encoding, "replace")
                if damaged == clean:
                    continue
                start = time.perf_counter()
                text = restorer.restore(damaged, channel="mojibake").text
                count["milliseconds"] += round(1000 * (time.perf_counter() - start))
                count["characters"] += sum(not character.isascii() for character in clean)
                count["lost bytes"] += damaged.count(MARK)
                count["errors"] += count_errors(text, clean)
                count["errors of ftfy"] += count_errors(fix_lines(damaged), clean)
            total += count
            if count["characters"]:
                print_round(f"{encoding} {path.name.split('.')[0]}", count)
        print_round(f"{encoding}, all", total)


def print_round(name: str, count: Counter[str]) -> None:
    """Print one line of the result of ``run_round``."""
    share, peer = (1 - count[key] / max(1, count["characters"]) for key in ("errors", "errors of ftfy"))
    print(f"{name}: {share:.4f}, ftfy {peer:.4f}, {dict(count)}", flush=True)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("cases", "intact", "pages", "round"))
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--documents", type=int, default=15, help="documents per language (and encoding)")
    parser.add_argument("--characters", type=int, default=4000, help="first characters of each document of round")
    parser.add_argument("--lengths", type=int, nargs="+", default=[0], help="characters of pages; 0: the whole page")
    parser.add_argument("--encodings", nargs="+", default=["windows-1252"], help="wrong encodings of round")
    arguments = parser.parse_args()
    restorer = Restorer()
    if arguments.kind == "cases":
        run_cases(restorer, arguments.paths[0])
    elif arguments.kind == "intact":
        run_intact(restorer, arguments.paths)
    elif arguments.kind == "pages":
        run_pages(restorer, arguments.paths[0], arguments.documents, arguments.lengths)
    else:
        run_round(restorer, arguments.paths, arguments.encodings, arguments.documents, arguments.characters)


if __name__ == "__main__":
    main()
