"""How well lost characters are told from lost bytes, and restored, by language.

    python benchmarks/characters.py --european european.held.jsonl.gz --corpora PATH [--documents 4] [--json FILE]

``--european`` is a file of texts in several languages, with the fields ``lang`` and ``text``, that no expert was
trained on. Of each language, ``--documents`` texts of at most SIZE characters lose every character outside ASCII, as if
they had been written in another encoding and read as UTF-8; as many lose random bytes. Texts of ``--corpora`` (prose,
code, configuration, README files of ``eval``) lose random bytes, too. Printed are which kind of loss each was told to
be, and for lost characters the share that is right, the mean confidence of right and of wrong ones, the probability
that a right one is surer than a wrong one (AUC), and the error of the confidence in ten bins (ECE).
"""

import argparse
import gzip
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from conservator import Restorer
from conservator.documents import damage, read_damaged
from conservator.evaluation.provenance import commit, versions
from conservator.system.files import write_atomically

SIZE = 1500
RATES = (0.005, 0.02, 0.1, 0.2)
DOMAINS = ("prose", "code", "config", "readme")
OUTSIDE = re.compile(r"[^\x00-\x7f]")
Pair = tuple[float, bool]  # a confidence, and whether the character is right


def read(path: Path) -> Iterable[dict[str, Any]]:
    """The lines of a file of texts."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def is_told(restorer: Restorer, document: str | bytes) -> str:
    """What the marks of a document are told to be."""
    found = restorer.characters(read_damaged(document), restorer.options, uncertain=False)
    return "bytes" if found is None else "characters"


def restored(restorer: Restorer, truth: str) -> list[Pair]:
    """Restore a text that lost its characters outside ASCII; its pairs."""
    found = restorer.restore(OUTSIDE.sub("\ufffd", truth), lost="characters")
    starts = np.cumsum([0, *(len(one.encode()) for one in found.text)])
    return [
        (float(found.confidence[starts[place]]), now == then)
        for place, (now, then) in enumerate(zip(found.text, truth, strict=True))
        if not then.isascii()
    ]


def figures(pairs: list[Pair]) -> dict[str, float | int | None]:
    """The figures of some restored characters."""
    confidence, right = np.array([one for one, _ in pairs]), np.array([one for _, one in pairs])
    yes, no = confidence[right], confidence[~right]
    above = np.searchsorted(np.sort(no), yes, side="left") + np.searchsorted(np.sort(no), yes, side="right")
    bins = np.minimum((10 * confidence).astype(int), 9)
    gaps = [abs(confidence[bins == one].sum() - right[bins == one].sum()) for one in range(10)]
    return {
        "characters": len(pairs),
        "right": round(float(right.mean()), 4),
        "sure_if_right": round(float(yes.mean()), 4) if len(yes) else None,
        "sure_if_wrong": round(float(no.mean()), 4) if len(no) else None,
        "auc": round(float(above.mean() / 2 / len(no)), 4) if len(no) and len(yes) else None,
        "ece": round(float(sum(gaps) / len(pairs)), 4),
    }


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--european", type=Path, required=True)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    draw, restorer = random.Random(0), Restorer()
    by_language: dict[str, list[str]] = defaultdict(list)
    for line in read(options.european):
        text = line["text"][:SIZE].replace("\ufffd", "")
        if not text.isascii():
            by_language[line["lang"]].append(text)
    told: dict[str, list[str]] = defaultdict(list)
    rows = {}
    every: list[Pair] = []
    for language, texts in sorted(by_language.items()):
        chosen = draw.sample(texts, min(options.documents, len(texts)))
        for number, text in enumerate(chosen):
            told["characters"].append(is_told(restorer, OUTSIDE.sub("\ufffd", text)))
            told["bytes"].append(is_told(restorer, damage(text.encode(), RATES[number % len(RATES)], seed=number)))
        pairs = [pair for text in chosen for pair in restored(restorer, text)]
        every += pairs
        rows[language] = figures(pairs)
        print(language, json.dumps(rows[language]), flush=True)
    for domain in DOMAINS:
        texts = [line["text"][:SIZE] for line in read(options.corpora / f"{domain}.eval.jsonl.gz")]
        for number, text in enumerate(draw.sample(texts, options.documents)):
            told["bytes"].append(is_told(restorer, damage(text.encode(), RATES[number % len(RATES)], seed=number)))
    rows["all"] = figures(every)
    right = {kind: [found.count(kind), len(found)] for kind, found in told.items()}
    print("all", json.dumps(rows["all"]))
    print("told right, of documents:", json.dumps(right))
    if options.json:
        record = {"commit": commit(), "versions": versions(), "told": right, "restored": rows}
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
