"""OCR correction of nineteenth-century newspapers (BLN600), compared with fine-tuned models and spell checkers.

    python benchmarks/newspapers.py --corpora PATH --json FILE

The channel is fitted to the lines of ``train``, whose true lines are also the reference text. ``--tune`` evaluates on a
held-out part of ``train`` instead of ``test``. A document is an article. The baselines are the OCR text, the published
corrections of four models that were fine-tuned on the same lines, and installed spell checkers. ``corrected`` counts
wrong characters that became correct, ``harmed`` counts correct characters that became wrong. Intervals are 95 %, from a
bootstrap over lines. The character error rates must agree with those of jiwer.
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
from typing import IO, NamedTuple

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
RESAMPLES = 1000  # bootstrap samples


class LineCounts(NamedTuple):
    """Counts of a line: characters, errors before and after correction, characters corrected and harmed."""

    characters: int
    before: int
    after: int
    corrected: int
    harmed: int


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="folder with bln600/")
    parser.add_argument("--tune", action="store_true", help="evaluate on a twelfth of the articles of train")
    parser.add_argument("--articles", type=int, help="maximum number of articles")
    parser.add_argument(
        "--efforts", default="fast,best", help="efforts of Conservator; best needs: conservator experts add smollm2"
    )
    parser.add_argument(
        "--alone", action="store_true", help="only Conservator with the fitted channel, without baselines"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    train, test = (read(options.corpora / "bln600" / f"{name}.jsonl.gz") for name in ("train", "test"))
    if options.tune:
        names = sorted({line["id"] for line in train})
        held_out = set(np.random.default_rng(0).permutation(names)[: len(names) // 12].tolist())
        test = [line for line in train if line["id"] in held_out]
        train = [line for line in train if line["id"] not in held_out]
    articles = group_by_article(test)[: options.articles]
    lines = [line for article in articles for line in article]

    start = time.process_time()
    channel = fit_edits([(line["ocr"], line["truth"]) for line in train], "BLN600, train")
    fit_seconds = time.process_time() - start
    references = [("train", "\n".join(line["truth"] for line in train))]
    restorers = {
        f"ours, {effort}": Restorer(options=RestoreOptions(channel=channel, effort=effort), references=references)
        for effort in options.efforts.split(",")
    }
    methods: dict[str, Callable[[list[dict[str, str]]], list[str]]] = {"OCR": partial(stored_lines, "ocr")}
    methods |= {name: partial(restore, restorer, "ocr") for name, restorer in restorers.items()}
    if not options.alone:
        built_in = Restorer(options=RestoreOptions(channel="ocr"))
        methods["ours, fast, built-in channel and models"] = partial(restore, built_in, "ocr")
        methods |= {name: partial(stored_lines, name) for name in MODELS if name in lines[0]}
        methods |= {name: partial(correct_words, correct_word) for name, correct_word in list(spell_checkers())}
    rows = []
    for name, method in methods.items():
        start = time.process_time()
        corrected = [text for article in track(articles, name, transient=True) for text in method(article)]
        seconds = time.process_time() - start
        row = summarise([count_errors(*pair) for pair in zip(lines, corrected, strict=True)])
        jiwer_rate = jiwer.cer([line["truth"].strip() for line in lines], [text.strip() for text in corrected])
        if abs(jiwer_rate - row["rate"]) > 0.001:
            raise SystemExit(f"{name}: the character error rate is {row['rate']}, but {jiwer_rate} by jiwer")
        rows.append({"method": name, "seconds": seconds, "jiwer": jiwer_rate, **row})
        print(rows[-1], flush=True)
    characters, changed = sum(len(line["truth"]) for line in lines), {}
    for name, restorer in restorers.items():
        progress = track(articles, "clean", transient=True)
        clean = [text for article in progress for text in restore(restorer, "truth", article)]
        changed[name] = sum(Levenshtein.distance(line["truth"], text) for line, text in zip(lines, clean, strict=True))
    show(rows, f"{len(lines)} lines of {len(articles)} articles")
    print(f"changed characters of clean text, of {characters}: {changed}; fitting the channel took {fit_seconds:.0f} s")
    if options.json:
        record = {"commit": commit(), "versions": versions(), "lines": len(lines), "articles": len(articles)}
        record |= {"rows": rows, "fitted": fit_seconds, "clean": {"characters": characters, "changed": changed}}
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


def read(path: Path) -> list[dict[str, str]]:
    """Read the lines of a split."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def group_by_article(lines: Iterable[dict[str, str]]) -> list[list[dict[str, str]]]:
    """Group lines by article."""
    articles: dict[str, list[dict[str, str]]] = {}
    for line in lines:
        articles.setdefault(line["id"], []).append(line)
    return list(articles.values())


def restore(restorer: Restorer, source: str, article: list[dict[str, str]]) -> list[str]:
    """Correct the lines of an article as one document."""
    return restorer.restore("\n".join(line[source] for line in article)).text.split("\n")


def stored_lines(name: str, article: list[dict[str, str]]) -> list[str]:
    """Return the lines of an article from a field of the data: the OCR text, or the correction of a model."""
    return [line[name] for line in article]


def correct_words(correct_word: Callable[[str], str], article: list[dict[str, str]]) -> list[str]:
    """Correct the lines of an article word by word."""
    return [" ".join(map(correct_word, line["ocr"].split(" "))) for line in article]


def spell_checkers() -> Iterable[tuple[str, Callable[[str], str]]]:
    """Yield the installed spell checkers as functions of a word; they change only words of lower-case letters."""

    def lower_case_only(suggest: Callable[[str], str | None]) -> Callable[[str], str]:
        return lambda word: (suggest(word) or word) if word.isalpha() and word.islower() else word

    try:
        speller = import_module("spellchecker").SpellChecker()
        yield "pyspellchecker", lower_case_only(speller.correction)
    except ImportError:
        print("pyspellchecker is not installed")
    try:
        autocorrect = import_module("autocorrect").Speller("en")
        yield "autocorrect", lower_case_only(autocorrect.autocorrect_word)
    except ImportError:
        print("autocorrect is not installed")
    try:
        symspell = import_module("symspellpy")
        dictionary = symspell.SymSpell(2)
        dictionary.load_dictionary(
            str(Path(str(symspell.__file__)).parent / "frequency_dictionary_en_82_765.txt"), 0, 1
        )
        top = symspell.Verbosity.TOP
        yield (
            "symspell",
            lower_case_only(lambda word: next((entry.term for entry in dictionary.lookup(word, top, 2)), None)),
        )
    except ImportError:
        print("symspellpy is not installed")
    if which("hunspell"):
        process = Popen(["hunspell", "-a", "-d", "en_GB"], stdin=PIPE, stdout=PIPE, text=True, bufsize=1)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()  # skip the version
        yield "hunspell", lower_case_only(partial(hunspell_suggestion, process.stdin, process.stdout))
    else:
        print("hunspell is not installed")


def hunspell_suggestion(stdin: IO[str], stdout: IO[str], word: str) -> str | None:
    """Return the first suggestion of Hunspell for a word; None if there is none, or if the word is correct."""
    stdin.write(f"^{word}\n")
    first = line = stdout.readline()
    while line.strip():
        line = stdout.readline()
    return first.partition(": ")[2].partition(", ")[0].strip() if first.startswith("&") else None


def count_errors(line: dict[str, str], text: str) -> LineCounts:
    """Count the errors of a line before and after correction."""
    truth, observed = line["truth"], line["ocr"]
    was_correct, inserted_before = find_errors(truth, observed)
    is_correct, inserted_after = find_errors(truth, text)
    corrected = int((~was_correct & is_correct).sum()) + max(0, inserted_before - inserted_after)
    harmed = int((was_correct & ~is_correct).sum()) + max(0, inserted_after - inserted_before)
    before, after = Levenshtein.distance(truth, observed), Levenshtein.distance(truth, text)
    return LineCounts(len(truth), before, after, corrected, harmed)


def find_errors(truth: str, text: str) -> tuple[np.ndarray, int]:
    """Return whether each character of the truth is in the text, and the number of inserted characters."""
    correct, inserted = np.zeros(len(truth), dtype=bool), 0
    for operation in Levenshtein.opcodes(truth, text):
        if operation.tag == "equal":
            correct[operation.src_start : operation.src_end] = True
        elif operation.tag == "insert":
            inserted += operation.dest_end - operation.dest_start
    return correct, inserted


def summarise(lines: Sequence[LineCounts]) -> dict[str, float]:
    """Compute the character error rate and the corrected and harmed characters, with intervals over lines."""
    table = np.array(lines, dtype=np.float64)
    samples = np.random.default_rng(0).integers(len(table), size=(RESAMPLES, len(table)))
    totals = table[samples].sum(axis=1)
    characters, before, after, corrected, harmed = table.sum(axis=0)
    rates = np.quantile(totals[:, 2] / totals[:, 0], [0.025, 0.975])
    harm = np.quantile(totals[:, 4] / totals[:, 0], [0.025, 0.975])
    ratio = np.quantile(totals[:, 3] / np.maximum(1, totals[:, 4]), [0.025, 0.975])
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
