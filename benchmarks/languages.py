"""Restoration of lost characters in many languages: each mark is one character of any kind.

    python benchmarks/languages.py --corpora PATH [--languages de,ru] [--references] [--rate 0.1] [--burst 1]
        [--corpus readme] [--lost any] [--effort best --language-model NAME] [--documents 8] [--json FILE]

The texts are those of one domain (``--domain``, by default news) of ``PATH/languages/LANG.eval.jsonl.gz``: the first
``--documents`` of each language, at most MAX_CHARACTERS characters of each; with ``--corpus``, those of
``PATH/CORPUS.eval.jsonl.gz`` instead. Every character except line ends is lost
with probability ``--rate``, in runs of ``--burst``. With ``--references``, the texts of ``LANG.train.jsonl.gz`` are
references. The output is the share of the lost characters that is restored correctly, with its 95 % interval (bootstrap
over documents); the share that is left unfilled, which counts as wrong; the expected calibration error in ten bins; the
share of characters with a confidence of at least 0.9 and how many of them are correct; and CPU seconds per 1,000
characters.
"""

import argparse
import gzip
import json
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from conservator import RestoreOptions, Restorer
from conservator.evaluation.provenance import commit, versions
from conservator.system.files import write_atomically

MARK = "\ufffd"
MAX_CHARACTERS = 2000  # characters per text
SAMPLES = 1000  # bootstrap samples of the documents
BINS = 10


def read_texts(path: Path) -> list[dict[str, Any]]:
    """Read the records of a file of texts."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def lose_characters(text: str, rate: float, burst: int, seed: int) -> list[int]:
    """Return the indices of the characters that are lost: runs of ``burst`` characters without line ends."""
    generator, lost = random.Random(seed), set[int]()
    for start in range(len(text)):
        if generator.random() < rate / burst:
            lost.update(range(start, min(start + burst, len(text))))
    return [index for index in sorted(lost) if text[index] != "\n"]


def restore(restorer: Restorer, text: str, lost: list[int], seed: int) -> list[tuple[float, bool, bool]]:
    """Restore a text; return the confidence of each lost character, whether it is correct, and whether it is filled."""
    observed = list(text)
    for index in lost:
        observed[index] = MARK
    result = restorer.restore("".join(observed), seed=seed)
    if len(result.text) != len(text):
        raise SystemExit(f"expected {len(text)} characters, got {len(result.text)}")
    candidates = result.tokens.astype(np.uint8).tobytes().decode()
    starts = np.cumsum([0, *(len(character.encode()) for character in candidates)])
    return [
        (float(result.confidence[starts[index]]), result.text[index] == text[index], result.text[index] != MARK)
        for index in lost
    ]


def metrics(documents: list[list[tuple[float, bool, bool]]], seed: int) -> dict[str, Any]:
    """Compute the metrics of the restored characters of all documents."""
    confidence, correct, filled = (
        np.array(values) for values in zip(*(item for document in documents for item in document), strict=True)
    )
    counts = np.array([[sum(item[1] for item in document), len(document)] for document in documents])
    samples = np.random.default_rng(seed).integers(len(counts), size=(SAMPLES, len(counts)))
    shares = counts[samples].sum(axis=1)
    low, high = np.quantile(shares[:, 0] / shares[:, 1], [0.025, 0.975])
    bins = np.minimum((BINS * confidence).astype(int), BINS - 1)
    shown = filled.astype(bool)
    gaps = [
        abs((confidence[shown & (bins == index)] - correct[shown & (bins == index)]).sum()) for index in range(BINS)
    ]
    confident = shown & (confidence >= 0.9)
    return {
        "characters": len(correct),
        "correct": round(float(correct.mean()), 4),
        "interval": [round(float(low), 4), round(float(high), 4)],
        "unfilled": round(1 - float(filled.mean()), 4),
        "calibration_error": round(float(sum(gaps) / max(1, shown.sum())), 4),
        "confident": round(float(confident.mean()), 4),
        "confident_correct": round(float(correct[confident].mean()), 4) if confident.any() else None,
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="folder with languages/")
    parser.add_argument("--languages", help="codes, separated by commas; by default all")
    parser.add_argument("--domain", default="news")
    parser.add_argument("--corpus", help="a corpus without languages, such as readme")
    parser.add_argument("--references", action="store_true", help="use the training texts as references")
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--burst", type=int, default=1)
    parser.add_argument("--lost", default="auto", help="the option lost")
    parser.add_argument("--effort", default="fast")
    parser.add_argument("--language-model", default=RestoreOptions().language_models)
    parser.add_argument("--documents", type=int, default=8)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    folder = options.corpora / "languages"
    names = sorted(path.name.split(".")[0] for path in folder.glob("*.eval.jsonl.gz"))
    names = options.languages.split(",") if options.languages else names
    if options.corpus:
        folder, names, options.domain = options.corpora, [options.corpus], None
    restore_options = RestoreOptions(lost=options.lost, effort=options.effort, language_models=options.language_model)
    rows = {}
    for name in names:
        texts = [
            item["text"]
            for item in read_texts(folder / f"{name}.eval.jsonl.gz")
            if options.domain is None or item["domain"] == options.domain
        ]
        texts = [text[:MAX_CHARACTERS].replace(MARK, "") for text in texts[: options.documents]]
        if not texts:
            continue
        training = folder / f"{name}.train.jsonl.gz"
        references = None
        if options.references:
            if not training.exists():
                continue
            references = [(str(index), item["text"]) for index, item in enumerate(read_texts(training))]
        restorer = Restorer(options=restore_options, references=references)
        start = time.process_time()
        documents = [
            restore(restorer, text, lose_characters(text, options.rate, options.burst, seed), seed)
            for seed, text in enumerate(texts)
        ]
        seconds = 1000 * (time.process_time() - start) / sum(map(len, texts))
        rows[name] = metrics(documents, 0) | {"documents": len(texts), "cpu_seconds": round(seconds, 2)}
        print(name, json.dumps(rows[name]), flush=True)
    print("mean of", len(rows), "languages:", round(float(np.mean([row["correct"] for row in rows.values()])), 4))
    if options.json:
        settings = {key: str(value) for key, value in vars(options).items() if key not in ("json", "corpora")}
        record = {"commit": commit(), "versions": versions(), "settings": settings, "languages": rows}
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
