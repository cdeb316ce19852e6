"""Detection of the lost unit (characters or bytes), and restoration of lost characters, by language.

    python benchmarks/characters.py --corpora PATH [--european FILE] [--documents 4] [--language-model NAME]

The texts are those of ``PATH/languages/LANG.eval.jsonl.gz`` for the languages of the lexicon, or of ``--european``, a
file of texts in several languages with the fields ``lang`` and ``text``. In each language, ``--documents`` texts of at
most MAX_CHARACTERS characters lose every non-ASCII character, as if a file in another encoding had been decoded as
UTF-8; the same number of texts loses random bytes. Texts of ``--corpora`` (prose, code, configuration, README files of
``eval``) also lose random bytes. With ``--language-model``, lost characters are also restored with the effort ``best``.
The output is the accuracy of the detected lost unit, and for lost characters the accuracy, the mean confidence of
correct and of wrong characters, the probability that a correct character has a higher confidence than a wrong one
(AUC), and the expected calibration error in ten bins (ECE).
"""

import argparse
import gzip
import json
import random
import re
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from conservator import Restorer
from conservator.document import Document
from conservator.documents import damage
from conservator.evaluation.provenance import commit, versions
from conservator.experts import Meter
from conservator.experts.lexicon.words import load_languages
from conservator.pipelines.lost_bytes import read_damage
from conservator.pipelines.lost_characters import detect_lost_characters
from conservator.pipelines.task import PipelineTask
from conservator.system.files import write_atomically

MAX_CHARACTERS = 1500  # characters per text
RATES = (0.005, 0.02, 0.1, 0.2)  # probabilities that a byte is lost, in turn
DOMAINS = ("prose", "code", "config", "readme")
NON_ASCII = re.compile(r"[^\x00-\x7f]")
LabelledConfidence = tuple[float, bool]  # confidence of a character, and whether it is correct


def read(path: Path) -> Iterable[dict[str, Any]]:
    """Read the records of a file of texts."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def detect_lost_unit(restorer: Restorer, document: str | bytes) -> str:
    """Detect whether the marks of a document stand for bytes or for characters."""
    data = document.encode() if isinstance(document, str) else document
    task = PipelineTask(Document(data), restorer.options, restorer.models, restorer.references, (), Meter())
    return "bytes" if detect_lost_characters(task, read_damage(task)) is None else "characters"


def read_languages(options: argparse.Namespace) -> dict[str, list[str]]:
    """Read the texts of each language; texts without non-ASCII characters are skipped."""
    if options.european:
        pairs = [(line["lang"], line["text"]) for line in read(options.european)]
    else:
        paths = {name: options.corpora / "languages" / f"{name}.eval.jsonl.gz" for name in load_languages()}
        pairs = [(name, line["text"]) for name, path in paths.items() if path.exists() for line in read(path)]
    by_language: dict[str, list[str]] = defaultdict(list)
    for language, text in pairs:
        start = text[:MAX_CHARACTERS].replace("\ufffd", "")
        if not start.isascii():
            by_language[language].append(start)
    return by_language


def restore(restorer: Restorer, truth: str, **changes: Any) -> list[LabelledConfidence]:
    """Restore a text without its non-ASCII characters; return the confidence of each, and whether it is correct."""
    restoration = restorer.restore(NON_ASCII.sub("\ufffd", truth), lost="characters", **changes)
    starts = np.cumsum([0, *(len(character.encode()) for character in restoration.text)])
    return [
        (float(restoration.confidence[starts[position]]), restored == clean)
        for position, (restored, clean) in enumerate(zip(restoration.text, truth, strict=True))
        if not clean.isascii()
    ]


def metrics(characters: list[LabelledConfidence]) -> dict[str, float | int | None]:
    """Compute the metrics of restored characters."""
    confidence = np.array([confidence for confidence, _ in characters])
    correct = np.array([is_correct for _, is_correct in characters])
    positive, negative = confidence[correct], confidence[~correct]
    ordered = np.sort(negative)
    ranks = np.searchsorted(ordered, positive, side="left") + np.searchsorted(ordered, positive, side="right")
    bins = np.minimum((10 * confidence).astype(int), 9)
    gaps = [abs(confidence[bins == index].sum() - correct[bins == index].sum()) for index in range(10)]
    return {
        "characters": len(characters),
        "right": round(float(correct.mean()), 4),
        "confidence_if_right": round(float(positive.mean()), 4) if len(positive) else None,
        "confidence_if_wrong": round(float(negative.mean()), 4) if len(negative) else None,
        "auc": round(float(ranks.mean() / 2 / len(negative)), 4) if len(negative) and len(positive) else None,
        "ece": round(float(sum(gaps) / len(characters)), 4),
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--european", type=Path, help="texts in several languages")
    parser.add_argument("--corpora", type=Path, required=True, help="folder with NAME.eval.jsonl.gz and languages/")
    parser.add_argument("--language-model", help="language model for the effort best")
    parser.add_argument("--documents", type=int, default=4, help="texts per language and domain")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    generator, restorer = random.Random(0), Restorer()
    detected: dict[str, list[str]] = defaultdict(list)
    rows = {}
    efforts: dict[str, dict[str, str]] = {"fast": {}}
    if options.language_model:
        efforts["best"] = {"effort": "best", "language_models": options.language_model}
    all_characters: dict[str, list[LabelledConfidence]] = {effort: [] for effort in efforts}
    for language, texts in sorted(read_languages(options).items()):
        sample = generator.sample(texts, min(options.documents, len(texts)))
        for number, text in enumerate(sample):
            detected["characters"].append(detect_lost_unit(restorer, NON_ASCII.sub("\ufffd", text)))
            detected["bytes"].append(
                detect_lost_unit(restorer, damage(text.encode(), RATES[number % len(RATES)], seed=number))
            )
        for effort, changes in efforts.items():
            start = time.process_time()
            characters = [character for text in sample for character in restore(restorer, text, **changes)]
            all_characters[effort] += characters
            seconds = round(time.process_time() - start, 1)
            rows[f"{language} {effort}"] = metrics(characters) | {"cpu_seconds": seconds}
            print(language, effort, json.dumps(rows[f"{language} {effort}"]), flush=True)
    for domain in DOMAINS:
        texts = [line["text"][:MAX_CHARACTERS] for line in read(options.corpora / f"{domain}.eval.jsonl.gz")]
        for number, text in enumerate(generator.sample(texts, options.documents)):
            detected["bytes"].append(
                detect_lost_unit(restorer, damage(text.encode(), RATES[number % len(RATES)], seed=number))
            )
    rows |= {f"all {effort}": metrics(characters) for effort, characters in all_characters.items()}
    correct = {unit: [detections.count(unit), len(detections)] for unit, detections in detected.items()}
    for effort in efforts:
        print("all", effort, json.dumps(rows[f"all {effort}"]))
    print("lost unit detected correctly, of documents:", json.dumps(correct))
    if options.json:
        record = {"commit": commit(), "versions": versions(), "lost_unit": correct, "restored": rows}
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
