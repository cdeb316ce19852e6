"""Merge the readings of several OCR engines: character error rates before and after, next to a majority vote.

    python benchmarks/readings.py --corpora PATH [--half report] [--repeats 1000] [--out FILE]

PATH has ``ocr/soduco_fr_ENGINE.dev.jsonl.gz``: entries of Paris trade directories (CC BY 4.0), recognised by PERO,
Tesseract and Kraken. The document of a page is its entries that all engines have, one after the other. Half of the
pages (by a hash of the name of the page) were used for tuning, the other half is for the report. Error rate: edit
distance divided by the length of the truth, both in NFC and with runs of whitespace as one space. Intervals: bootstrap
over blocks of ten consecutive entries.
"""

import argparse
import gzip
import hashlib
import json
import time
import unicodedata
from collections import Counter, defaultdict
from itertools import permutations
from pathlib import Path

import numpy as np
from rapidfuzz.distance import Levenshtein

from conservator import Restorer
from conservator.alignment import align_readings

ENGINES = ("pero", "tesseract", "kraken")
BLOCK = 10  # entries: of a page, resampled together
SEPARATOR = "\n"


def load(folder: Path) -> dict[str, dict[str, list[tuple[str, str]]]]:
    """Return engine -> page -> (truth, reading) of its entries."""
    pages: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for engine in ENGINES:
        pages[engine] = defaultdict(list)
        with gzip.open(folder / "ocr" / f"soduco_fr_{engine}.dev.jsonl.gz", "rt") as lines:
            for record in map(json.loads, lines):
                pages[engine][record["doc"]].append((record["truth"], record["ocr"]))
    return pages


def half_of(page: str) -> str:
    """Return the half that a page belongs to."""
    return ("tune", "report")[int(hashlib.sha256(page.encode()).hexdigest(), 16) % 2]


def select(pages, engines, half):
    """Yield (truths, readings of each engine) of the entries of each page that all engines have."""
    for page in sorted(set.intersection(*(set(pages[engine]) for engine in engines))):
        if half not in ("all", half_of(page)):
            continue
        entries = [{"".join(truth.split()): (truth, ocr) for truth, ocr in pages[engine][page]} for engine in engines]
        keys = [key for key in entries[0] if all(key in other for other in entries)]
        yield [entries[0][key][0] for key in keys], [[other[key][1] for key in keys] for other in entries]


def normalise(text: str) -> str:
    """Return a text in NFC, with runs of whitespace as one space."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def errors(truth: str, text: str) -> int:
    """Return the edit distance of the normalised texts."""
    return Levenshtein.distance(normalise(truth), normalise(text))


def majority_vote(base: str, others: list[str]) -> str:
    """Vote on each segment of the alignment; ties are resolved in favour of the base."""
    parts, done = [], 0
    for segment in align_readings(base, others):
        parts += [base[done : segment.start], Counter(segment.texts).most_common(1)[0][0]]
        done = segment.stop
    return "".join([*parts, base[done:]])


def split_like(text: str, pieces: list[str]) -> list[str]:
    """Split a text into parts that are aligned with the given pieces of another version of it."""
    joined = SEPARATOR.join(pieces)
    edges, position = [], 0
    for piece in pieces[:-1]:
        position += len(piece) + len(SEPARATOR)
        edges.append(position)
    opcodes = Levenshtein.opcodes(joined, text)
    cuts, index = [], 0
    for edge in edges:
        while opcodes[index].src_end < edge:
            index += 1
        part = opcodes[index]
        cuts.append(part.dest_start + min(edge - part.src_start, part.dest_end - part.dest_start))
    return [text[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def block_errors(truths: list[str], text: str) -> list[tuple[int, int]]:
    """Return (errors, characters) of each block of entries."""
    blocks = [SEPARATOR.join(truths[start : start + BLOCK]) for start in range(0, len(truths), BLOCK)]
    return [
        (errors(truth, part), len(normalise(truth)))
        for truth, part in zip(blocks, split_like(text, blocks), strict=True)
    ]


def interval(first, second, repeats: int) -> tuple[float, float]:
    """95 % bootstrap interval of the share of the errors ``first`` (n,) that ``second`` (n,) does not have."""
    generator = np.random.default_rng(0)
    drawn = generator.integers(len(first), size=(repeats, len(first)))
    gains = 1 - second[drawn].sum(axis=1) / np.maximum(1, first[drawn].sum(axis=1))
    return tuple(np.percentile(gains, [2.5, 97.5]).tolist())


def main() -> None:
    """Measure all combinations of engines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--half", choices=("tune", "report", "all"), default="report")
    parser.add_argument("--repeats", type=int, default=1000, help="bootstrap samples")
    parser.add_argument("--effort", default="fast")
    parser.add_argument("--all-orders", action="store_true", help="every engine as the base, not only the best one")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    pages, restorer = load(arguments.corpora), Restorer()
    combinations = [engines for count in (2, 3) for engines in permutations(ENGINES, count)]
    if not arguments.all_orders:  # ENGINES are in the order of their error rates
        combinations = [engines for engines in combinations if list(engines) == sorted(engines, key=ENGINES.index)]
    print("| base | also | pages | characters | CER of each | vote | merged | errors removed | CPU s/KB |")
    print("|---|---|--:|--:|---|--:|--:|---|--:|")
    records = []
    for engines in combinations:
        rows = defaultdict(list)
        seconds, size, count = 0.0, 0, 0
        for truths, readings in select(pages, engines, arguments.half):
            base, *others = (SEPARATOR.join(reading) for reading in readings)
            began = time.process_time()
            merged = restorer.restore(base, also=others, effort=arguments.effort).text
            seconds += time.process_time() - began
            size, count = size + len(base.encode()), count + 1
            for name, text in [
                *zip(engines, (base, *others), strict=True),
                ("vote", majority_vote(base, others)),
                ("merged", merged),
            ]:
                rows[name] += block_errors(truths, text)
        counts = {name: np.array([errors for errors, _ in row]) for name, row in rows.items()}
        characters = sum(characters for _, characters in rows["merged"])
        best = min(engines, key=lambda engine: counts[engine].sum())
        gain = 1 - counts["merged"].sum() / counts[best].sum()
        low, high = interval(counts[best], counts["merged"], arguments.repeats)
        rates = {name: float(values.sum() / characters) for name, values in counts.items()}
        records.append(
            {
                "engines": engines,
                "pages": count,
                "characters": characters,
                "rates": rates,
                "gain": float(gain),
                "interval": [low, high],
                "seconds_per_kb": seconds / size * 1000,
            }
        )
        print(
            f"| {engines[0]} | {', '.join(engines[1:])} | {count} | {characters:,} | "
            f"{', '.join(f'{rates[engine]:.4f}' for engine in engines)} | {rates['vote']:.4f} | {rates['merged']:.4f} "
            f"| {gain:.1%} ({low:.1%} to {high:.1%}) | {seconds / size * 1000:.3f} |",
            flush=True,
        )
    if arguments.out:
        arguments.out.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
