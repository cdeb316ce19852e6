"""Text that is wrong: lines of nineteenth-century newspapers, as an OCR engine read them (BLN600).

    python benchmarks/newspapers.py --corpora ../shared/corpora --json newspapers.json

The channel is fitted to the lines of ``train``, which are also the texts like the documents; ``--tune`` reports on a
part of them that is kept apart, instead of on ``test``. A document is an article. Beside ours stand the OCR itself, the
published corrections of four models that were fine-tuned on the same lines, and spell checkers that are installed.
Corrected and harmed are characters: wrong ones that became right, right ones that became wrong. Intervals are over
lines. The rates are also those of jiwer, or the benchmark stops.
"""

import argparse
import gzip
import json
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from shutil import which
from subprocess import PIPE, Popen
from typing import NamedTuple, TextIO

import jiwer
import numpy as np
from rapidfuzz.distance import Levenshtein
from rich.console import Console
from rich.progress import track
from rich.table import Table

from conservator import RestoreOptions, Restorer
from conservator.alignment.fit_edits import fit_edits
from conservator.evaluation.provenance import commit, versions
from conservator.system.files import write_atomically

MODELS = ("bart-base", "bart-large", "llama-2-7b", "llama-2-13b")
DRAWS = 1000


class Line(NamedTuple):
    """What a line cost: characters, errors before and after, characters corrected and harmed."""

    characters: int
    before: int
    after: int
    corrected: int
    harmed: int


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="the folder with bln600/")
    parser.add_argument("--tune", action="store_true", help="report on a twelfth of the articles of train")
    parser.add_argument("--articles", type=int, help="only so many")
    parser.add_argument("--efforts", default="fast,best", help="of ours; best needs: conservator experts add smollm2")
    parser.add_argument("--alone", action="store_true", help="ours alone, with the fitted channel")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    train, test = (read(options.corpora / "bln600" / f"{name}.jsonl.gz") for name in ("train", "test"))
    if options.tune:
        names = sorted({line["id"] for line in train})
        apart = set(np.random.default_rng(0).permutation(names)[: len(names) // 12].tolist())
        test, train = [one for one in train if one["id"] in apart], [one for one in train if one["id"] not in apart]
    articles = group(test)[: options.articles]
    lines = [line for article in articles for line in article]

    began = time.process_time()
    channel = fit_edits([(one["ocr"], one["truth"]) for one in train], "BLN600, train")
    fitted = time.process_time() - began
    references = [("train", "\n".join(one["truth"] for one in train))]
    ours = {
        f"ours, {effort}": Restorer(options=RestoreOptions(channel=channel, effort=effort), references=references)
        for effort in options.efforts.split(",")
    }
    ways: dict[str, Callable[[list[dict[str, str]]], list[str]]] = {"OCR": partial(field, "ocr")}
    ways |= {name: partial(restore, restorer, "ocr") for name, restorer in ours.items()}
    if not options.alone:
        plain = Restorer(options=RestoreOptions(channel="ocr"))
        ways["ours, fast, built-in channel and models"] = partial(restore, plain, "ocr")
        ways |= {name: partial(field, name) for name in MODELS if name in lines[0]}
        ways |= {name: partial(by_word, fix) for name, fix in list(checkers())}
    rows = []
    for name, way in ways.items():
        began = time.process_time()
        found = [text for article in track(articles, name, transient=True) for text in way(article)]
        spent = time.process_time() - began
        row = summary([judge(*pair) for pair in zip(lines, found, strict=True)])
        by_jiwer = jiwer.cer([line["truth"].strip() for line in lines], [text.strip() for text in found])
        if abs(by_jiwer - row["rate"]) > 0.001:
            raise SystemExit(f"{name}: {row['rate']} of characters are wrong, by jiwer {by_jiwer}")
        rows.append({"method": name, "seconds": spent, "jiwer": by_jiwer, **row})
        print(rows[-1], flush=True)
    characters, changed = sum(len(line["truth"]) for line in lines), {}
    for name, restorer in ours.items():
        shown = track(articles, "clean", transient=True)
        clean = [text for article in shown for text in restore(restorer, "truth", article)]
        changed[name] = sum(Levenshtein.distance(line["truth"], text) for line, text in zip(lines, clean, strict=True))
    show(rows, f"{len(lines)} lines of {len(articles)} articles")
    print(f"changed of the {characters} characters of clean text: {changed}; the channel was fitted in {fitted:.0f} s")
    if options.json:
        record = {"commit": commit(), "versions": versions(), "lines": len(lines), "articles": len(articles)}
        record |= {"rows": rows, "fitted": fitted, "clean": {"characters": characters, "changed": changed}}
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


def read(path: Path) -> list[dict[str, str]]:
    """The lines of a split."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def group(lines: Iterable[dict[str, str]]) -> list[list[dict[str, str]]]:
    """Lines by article."""
    found: dict[str, list[dict[str, str]]] = {}
    for line in lines:
        found.setdefault(line["id"], []).append(line)
    return list(found.values())


def restore(restorer: Restorer, source: str, article: list[dict[str, str]]) -> list[str]:
    """The lines of an article, corrected as one document."""
    return restorer.restore("\n".join(line[source] for line in article)).text.split("\n")


def field(name: str, article: list[dict[str, str]]) -> list[str]:
    """The lines of an article, as another model corrected them."""
    return [line[name] for line in article]


def by_word(fix: Callable[[str], str], article: list[dict[str, str]]) -> list[str]:
    """The lines of an article, corrected word by word."""
    return [" ".join(map(fix, line["ocr"].split(" "))) for line in article]


def checkers() -> Iterable[tuple[str, Callable[[str], str]]]:
    """Spell checkers that are installed, as functions of a word; they are asked about words of letters alone."""

    def letters(fix: Callable[[str], str | None]) -> Callable[[str], str]:
        return lambda word: (fix(word) or word) if word.isalpha() and word.islower() else word

    try:
        speller = import_module("spellchecker").SpellChecker()
        yield "pyspellchecker", letters(speller.correction)
    except ImportError:
        print("pyspellchecker is not installed")
    try:
        autocorrect = import_module("autocorrect").ByteLm("en")
        yield "autocorrect", letters(autocorrect.autocorrect_word)
    except ImportError:
        print("autocorrect is not installed")
    try:
        symspell = import_module("symspellpy")
        known = symspell.SymSpell(2)
        known.load_dictionary(str(Path(symspell.__file__).parent / "frequency_dictionary_en_82_765.txt"), 0, 1)
        top = symspell.Verbosity.TOP
        yield "symspell", letters(lambda word: next((one.term for one in known.lookup(word, top, 2)), None))
    except ImportError:
        print("symspellpy is not installed")
    if which("hunspell"):
        process = Popen(["hunspell", "-a", "-d", "en_GB"], stdin=PIPE, stdout=PIPE, text=True, bufsize=1)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()  # its version
        yield "hunspell", letters(partial(ask_hunspell, process.stdin, process.stdout))
    else:
        print("hunspell is not installed")


def ask_hunspell(asked: TextIO, told: TextIO, word: str) -> str | None:
    """Hunspell's first suggestion for a word; None if it has none, or knows the word."""
    asked.write(f"^{word}\n")
    first = line = told.readline()
    while line.strip():
        line = told.readline()
    return first.partition(": ")[2].partition(", ")[0].strip() if first.startswith("&") else None


def judge(line: dict[str, str], text: str) -> Line:
    """What a line cost, given its correction."""
    (was, invented_before), (now, invented_after) = (right(line["truth"], one) for one in (line["ocr"], text))
    corrected = int((~was & now).sum()) + max(0, invented_before - invented_after)
    harmed = int((was & ~now).sum()) + max(0, invented_after - invented_before)
    distances = (Levenshtein.distance(line["truth"], one) for one in (line["ocr"], text))
    return Line(len(line["truth"]), *distances, corrected, harmed)


def right(truth: str, text: str) -> tuple[np.ndarray, int]:
    """Which characters of the truth a text has, and how many more it has."""
    found, invented = np.zeros(len(truth), dtype=bool), 0
    for step in Levenshtein.opcodes(truth, text):
        if step.tag == "equal":
            found[step.src_start : step.src_end] = True
        elif step.tag == "insert":
            invented += step.dest_end - step.dest_start
    return found, invented


def summary(lines: Sequence[Line]) -> dict[str, float]:
    """The character error rate with its interval over lines, and what was corrected and harmed."""
    table = np.array(lines, dtype=np.float64)
    draws = np.random.default_rng(0).integers(len(table), size=(DRAWS, len(table)))
    drawn = table[draws].sum(axis=1)
    characters, before, after, corrected, harmed = table.sum(axis=0)
    rates = np.quantile(drawn[:, 2] / drawn[:, 0], [0.025, 0.975])
    harm = np.quantile(drawn[:, 4] / drawn[:, 0], [0.025, 0.975])
    ratio = np.quantile(drawn[:, 3] / np.maximum(1, drawn[:, 4]), [0.025, 0.975])
    return {
        "before": before / characters,
        "rate": after / characters,
        "rate_low": float(rates[0]),
        "rate_high": float(rates[1]),
        "median": float(np.median(table[:, 2] / table[:, 0])),
        "corrected": corrected,
        "harmed": harmed,
        "harm_low": float(harm[0]),
        "harm_high": float(harm[1]),
        "ratio_low": float(ratio[0]),
        "ratio_high": float(ratio[1]),
    }


def show(rows: Sequence[dict[str, object]], title: str) -> None:
    """Print the table."""
    table = Table("method", "CER, %", "95 %", "median", "corrected", "harmed", "ratio", "CPU s", title=title)
    for row in rows:
        values = {key: float(str(value)) for key, value in row.items() if key != "method"}
        table.add_row(
            str(row["method"]),
            f"{100 * values['rate']:.2f}",
            f"{100 * values['rate_low']:.2f} to {100 * values['rate_high']:.2f}",
            f"{100 * values['median']:.2f}",
            f"{values['corrected']:.0f}",
            f"{values['harmed']:.0f}",
            f"{values['corrected'] / max(1, values['harmed']):.1f}"
            f" [{values['ratio_low']:.1f}, {values['ratio_high']:.1f}]",
            f"{values['seconds']:.0f}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
