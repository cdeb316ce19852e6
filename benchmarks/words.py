"""Effect of the option ``words`` on documents with names, and its harm.

    python benchmarks/words.py --corpora PATH [--documents 8] [--damage marks,characters,ocr] [--json FILE]

Names are capitalised words of a document that no document of ``languages/LANG.train.jsonl.gz`` (with ``--split train``:
no other document) contains. Documents are the first MAX_CHARACTERS characters of texts with at least MIN_NAMES names.
Each document is restored three times: without words; with the names of all documents and of as many other documents of
the language (``words``); and with the names of these other documents only (``others``), none of which occurs in the
documents, so that they can only harm.

- marks: a tenth of the bytes is lost; all of them are filled. Accuracy of lost bytes, in names and in all text.
- characters: all non-ASCII characters are lost. Accuracy, in names and in all text.
- ocr: errors of the built-in OCR channel, at ERROR_FACTOR times its rate. Share of the names that are correct, and
  character error rate. For languages other than English, REFERENCE_DOCUMENTS texts of ``train`` are references. Also
  the clean text: changed characters.
"""

import argparse
import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rapidfuzz.distance import Levenshtein

from conservator import RestoreOptions, Restorer
from conservator.channels import as_edit_channel
from conservator.documents import damage
from conservator.evaluation.provenance import commit, versions
from conservator.experts.lexicon.words import WORD
from conservator.system.files import write_atomically

LANGUAGES = {"marks": ("en", "de", "pl"), "characters": ("de", "pl", "cs"), "ocr": ("en", "de")}
DOMAINS = ("news", "novel", "wiki")
MAX_CHARACTERS = 2500  # characters per document
MIN_NAMES = 6  # occurrences of names per document
MIN_NAME_CHARS = 4  # characters of a name
REFERENCE_DOCUMENTS = 60  # documents of train as references for OCR text that is not English
RATE = 0.1  # share of the bytes that are lost
ERROR_FACTOR = 2.0  # multiple of the error rate of the built-in OCR channel: about six errors in 100 characters
NON_ASCII = re.compile(r"[^\x00-\x7f]")
Counts = Counter[str]


def read_records(path: Path) -> list[dict[str, Any]]:
    """Read the documents of a file of texts."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def words_of(text: str) -> Iterator[re.Match[str]]:
    """Yield the words of a text."""
    return WORD.finditer(text)


def find_names(text: str, known: Counts, min_documents: int) -> set[str]:
    """Return the names of a text: capitalised words in fewer than ``min_documents`` known documents."""
    return {
        word[0]
        for word in words_of(text)
        if len(word[0]) >= MIN_NAME_CHARS and word[0].istitle() and known[word[0].casefold()] < min_documents
    }


def name_mask(text: str, names: set[str]) -> np.ndarray:
    """(n,) True at the characters of names."""
    mask = np.zeros(len(text), dtype=bool)
    for word in words_of(text):
        mask[word.start() : word.end()] = word[0] in names
    return mask


def select_documents(
    folder: Path, language: str, split: str, count: int, seed: int
) -> tuple[list[tuple[str, set[str]]], list[str]]:
    """Return documents with their names, and reference texts of train."""
    train = read_records(folder / f"{language}.train.jsonl.gz")
    known: Counts = Counter()
    for record in train:
        known.update({word[0].casefold() for word in words_of(record["text"])})
    records = train if split == "train" else read_records(folder / f"{language}.{split}.jsonl.gz")
    records = [record for record in records if record["domain"] in DOMAINS]
    selected: list[tuple[str, set[str]]] = []
    used = set()
    for index in random.Random(seed).sample(range(len(records)), len(records)):
        text = records[index]["text"][:MAX_CHARACTERS]
        names = find_names(text, known, 2 if split == "train" else 1)
        if sum(word[0] in names for word in words_of(text)) >= MIN_NAMES and len(selected) < count:
            selected.append((text, names))
            used.add(records[index]["text"])
    return selected, [record["text"] for record in train if record["text"] not in used][:REFERENCE_DOCUMENTS]


def count_marks(restorer: Restorer, text: str, names: set[str], seed: int) -> Counts:
    """Count correct and lost bytes, in names and in all text."""
    data = text.encode()
    damaged = damage(data, RATE, seed=seed)
    restored = restorer.restore(damaged, lost="bytes", fill_undetermined=True).data
    mask = np.repeat(name_mask(text, names), [len(character.encode()) for character in text])
    lost, position = np.zeros(len(data), dtype=bool), 0
    mark = "\ufffd".encode()
    for index in range(len(data)):
        lost[index] = damaged.startswith(mark, position)
        position += len(mark) if lost[index] else 1
    correct = np.frombuffer(data, np.uint8) == np.frombuffer(restored, np.uint8)
    return count_positions(lost, correct, mask)


def count_characters(restorer: Restorer, text: str, names: set[str], seed: int) -> Counts:
    """Count correct and lost characters, in names and in all text."""
    restored = restorer.restore(NON_ASCII.sub("\ufffd", text), lost="characters").text
    lost = np.array([not character.isascii() for character in text])
    correct = np.array([a == b for a, b in zip(text, restored, strict=True)])
    return count_positions(lost, correct, name_mask(text, names))


def count_positions(lost: np.ndarray, correct: np.ndarray, mask: np.ndarray) -> Counts:
    """Count lost and correct positions, in names (``mask``) and in all text."""
    return Counter(
        lost=int(lost.sum()),
        correct=int((lost & correct).sum()),
        lost_names=int((lost & mask).sum()),
        correct_names=int((lost & mask & correct).sum()),
    )


def count_ocr(restorer: Restorer, text: str, names: set[str], seed: int) -> Counts:
    """Count names and characters, and those that are wrong before and after the correction."""
    channel = as_edit_channel("ocr")
    assert channel is not None
    channel = channel.scale_error_rate(ERROR_FACTOR)
    generator = np.random.default_rng(seed)
    observed = "\n".join(channel.corrupt(line, generator) for line in text.split("\n"))
    corrected = restorer.restore(observed, channel="ocr").text
    clean = restorer.restore(text, channel="ocr").text
    counts = Counter(
        characters=len(text),
        errors_before=Levenshtein.distance(text, observed),
        errors_after=Levenshtein.distance(text, corrected),
        changed_clean=Levenshtein.distance(text, clean),
    )
    spans = [word.span() for word in words_of(text) if word[0] in names]
    before, after = (correct_spans(text, other, spans) for other in (observed, corrected))
    counts.update(
        names=len(spans),
        names_before=int(before.sum()),
        names_after=int(after.sum()),
        names_harmed=int((before & ~after).sum()),
    )
    return counts


def correct_spans(text: str, other: str, spans: list[tuple[int, int]]) -> np.ndarray:
    """(n,) True at the spans of a text that are the same in another text, after alignment."""
    unchanged = np.zeros(len(text) + 1, dtype=bool)  # the character is kept, and nothing is inserted before it
    for tag, start, stop, _, _ in Levenshtein.opcodes(text, other):
        if tag == "equal":
            unchanged[start:stop] = True
    inserted = {start for tag, start, _, _, _ in Levenshtein.opcodes(text, other) if tag == "insert"}
    return np.array(
        [unchanged[a:b].all() and not any(at in inserted for at in range(a, b + 1)) for a, b in spans], dtype=bool
    )


COUNTERS = {"marks": count_marks, "characters": count_characters, "ocr": count_ocr}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="folder with languages/LANG.eval.jsonl.gz")
    parser.add_argument("--split", default="eval", choices=("train", "eval"))
    parser.add_argument("--documents", type=int, default=8, help="documents per language")
    parser.add_argument("--damage", default="marks,characters,ocr", help="kinds of damage, separated by commas")
    parser.add_argument("--languages", default="", help="languages, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    for kind in options.damage.split(","):
        for language in options.languages.split(",") if options.languages else LANGUAGES[kind]:
            documents, texts = select_documents(
                options.corpora / "languages", language, options.split, 2 * options.documents, options.seed
            )
            documents, unused = documents[: len(documents) // 2], documents[len(documents) // 2 :]
            names, other_names = (set().union(*(names for _, names in part)) for part in (documents, unused))
            others = tuple(sorted(word for word in other_names if not any(word in text for text, _ in documents)))
            references = [(str(number), text) for number, text in enumerate(texts)]
            conditions = {"none": (), "words": (*sorted(names), *others), "others": others}
            totals = {condition: Counter[str]() for condition in conditions}
            for condition, words in conditions.items():
                restorer = Restorer(
                    options=RestoreOptions(words=words),
                    references=references if kind == "ocr" and language != "en" else None,
                )
                for number, (text, document_names) in enumerate(documents):
                    totals[condition].update(COUNTERS[kind](restorer, text, document_names, options.seed + number))
            results.append(
                {
                    "damage": kind,
                    "language": language,
                    "documents": len(documents),
                    "words": {condition: len(words) for condition, words in conditions.items()},
                    "counts": {condition: dict(counts) for condition, counts in totals.items()},
                }
            )
            print(json.dumps(results[-1]), flush=True)
    if options.json:
        record = {"commit": commit(), "versions": versions(), "split": options.split, "seed": options.seed}
        write_atomically(options.json, json.dumps({**record, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
