"""Detection of damage: documents of ten kinds of damage, and undamaged documents.

    python benchmarks/detection.py --corpora PATH [--split eval] [--documents 10] [--undamaged 100] [--json FILE]

Each kind of damage has ``--documents`` documents of CHARACTERS characters: half of them English (encyclopedia articles,
novels and news), the others in the languages LANGUAGES; OCR errors are made in English only, because the shipped models
of OCR text are English. Undamaged documents are in all languages of ``PATH/languages``, and code, configuration, README
files and LaTeX. A document is identified if ``--channel auto`` selects exactly the channel that damaged it, and for
marks, if the restoration detects what a mark stands for. An undamaged document must not change.
"""

import argparse
import gzip
import json
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from conservator import RestoreOptions, Restorer
from conservator.channels import CORRUPT
from conservator.documents import damage
from conservator.evaluation.provenance import commit, versions
from conservator.system.files import write_atomically

CHARACTERS = 2500  # characters per document
MARK = "\ufffd"
LANGUAGES = ("de", "fr", "es", "pl", "cs")
ENGLISH = ("prose", "languages/en")
SPECIAL = ("prose", "code", "config", "readme", "arxiv")
Damage = Callable[[str, int], bytes]


def corrupt(channel: str, rate: float) -> Damage:
    """Return a function that damages a text with a channel of errors in visible text."""
    return lambda text, seed: CORRUPT[channel](text, rate, np.random.default_rng(seed)).encode()


def lose_characters(text: str, seed: int) -> bytes:
    """Replace characters by marks."""
    generator = np.random.default_rng(seed)
    return "".join(MARK if character != "\n" and generator.random() < 0.1 else character for character in text).encode()


def lose_encoding(text: str, seed: int) -> bytes:
    """Encode a text in a one-byte encoding, and decode it as UTF-8."""
    encoding = "windows-1250" if any(character in text for character in "ąęłčěřů") else "windows-1252"
    return text.encode(encoding, "ignore").decode(errors="replace").encode()


# Name -> the function that damages a text, the expected channel, and what a mark stands for.
KINDS: dict[str, tuple[Damage, str, str | None]] = {
    "lost characters": (lose_characters, "mask", "any"),
    "lost bytes": (lambda text, seed: damage(text.encode(), 0.1, seed=seed), "mask", "bytes"),
    "characters outside ASCII": (lose_encoding, "mask", "characters"),
    "overwritten bytes": (
        lambda text, seed: damage(text.encode(), 0.03, channel="replacement", seed=seed),
        "replacement",
        None,
    ),
    "mojibake": (corrupt("mojibake", 1.0), "mojibake", None),
    "OCR errors": (corrupt("ocr", 0.03), "ocr", None),
    "typing errors": (corrupt("typing", 0.1), "typing", None),
    "missing spaces": (corrupt("spaces", 0.2), "spaces", None),
    "lost capital letters": (corrupt("case", 1.0), "case", None),
    "words broken at line ends": (corrupt("hyphenation", 0.8), "hyphenation", None),
}


def read_texts(path: Path) -> list[str]:
    """Read texts of at least half of CHARACTERS characters, and return their beginnings."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"].replace(MARK, "") for line in lines]
    return [text[:CHARACTERS] for text in texts if len(text) >= CHARACTERS // 2]


def spread(lists: list[list[str]], count: int) -> list[str]:
    """Return ``count`` texts, evenly from all lists."""
    iterators = cycle([iter(texts) for texts in lists])
    return list(islice((text for text in (next(texts, None) for texts in iterators) if text), count))


def documents_of(kind: str, corpora: Path, split: str, count: int) -> list[str]:
    """Return the clean documents of a kind of damage."""
    english = [read_texts(corpora / f"{name}.{split}.jsonl.gz") for name in ENGLISH]
    others = [read_texts(corpora / "languages" / f"{name}.{split}.jsonl.gz") for name in LANGUAGES]
    if kind == "OCR errors":
        return spread(english, count)
    if kind in ("lost bytes", "characters outside ASCII", "mojibake"):  # they need characters outside ASCII
        return spread([[text for text in texts if not text.isascii()] for texts in others], count)
    return [*spread(english, count - count // 2), *spread(others, count // 2)]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--split", default="eval")
    parser.add_argument("--documents", type=int, default=10)
    parser.add_argument("--undamaged", type=int, default=100)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    restorer = Restorer(options=RestoreOptions(channel="auto"))
    rows: dict[str, Any] = {}
    for kind in options.kinds:
        make, channel, unit = KINDS[kind]
        texts = documents_of(kind, options.corpora, options.split, options.documents)
        detected = []
        for seed, text in enumerate(texts):
            damaged = make(text, seed)
            names = ",".join(name.partition(":")[0] for name in restorer.detect(damaged))
            if names == "mask" and unit is not None:
                names = restorer.restore(damaged, channel="mask").lost_unit
            detected.append(names)
        expected = unit or channel
        rows[kind] = {"documents": len(texts), "identified": detected.count(expected), "detected": detected}
        print(kind, f"{detected.count(expected)} of {len(texts)}", detected, flush=True)
    folder = options.corpora / "languages"
    names = sorted(path.name.split(".")[0] for path in folder.glob(f"*.{options.split}.jsonl.gz"))
    lists = [read_texts(folder / f"{name}.{options.split}.jsonl.gz") for name in names]
    lists += [read_texts(options.corpora / f"{name}.{options.split}.jsonl.gz") for name in SPECIAL]
    texts = spread(lists, options.undamaged)
    wrong = []
    for text in texts:
        names = restorer.detect(text)
        if names != ("mask",):
            wrong.append((names, text[:60], restorer.restore(text).text == text))
    changed = sum(not same for _, _, same in wrong)
    rows["undamaged"] = {"documents": len(texts), "identified": len(texts) - len(wrong), "changed": changed}
    print("undamaged", f"{len(texts) - len(wrong)} of {len(texts)}, {changed} changed", wrong, flush=True)
    kinds = [rows[kind] for kind in options.kinds]
    print("all", sum(row["identified"] for row in kinds), "of", sum(row["documents"] for row in kinds))
    if options.json:
        record = {"commit": commit(), "versions": versions(), "split": options.split, "kinds": rows}
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
