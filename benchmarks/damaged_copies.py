"""Merge two damaged copies of a text, in several languages: gain, and harm to a good first copy.

    python benchmarks/damaged_copies.py --corpora PATH [--languages de,fr,en,...] [--documents 6] [--chars 2000]

PATH has ``languages/LANG.eval.jsonl.gz`` with a field text. Three measurements, with random seeds from 0:

- lost: 10 % of the characters of each copy are U+FFFD, independently. Share of the marks of the first copy that are
  filled correctly, of those where the second copy has the character, and other characters that were changed.
- clean: the first copy is the original, the second one has OCR errors in 10 % of its characters. Characters changed.
- ocr: OCR errors in 3 % and 10 % of the characters (``conservator.channels.CORRUPT``). Error rate of each, and of the
  result.
"""

import argparse
import gzip
import json
import time
from itertools import islice
from pathlib import Path

import numpy as np
from rapidfuzz.distance import Levenshtein

from conservator import Restorer
from conservator.channels import CORRUPT

MARK = "\ufffd"


def load(path: Path, documents: int, chars: int) -> list[str]:
    """Return the first texts that are long enough, shortened."""
    with gzip.open(path, "rt") as lines:
        texts = (json.loads(line)["text"] for line in lines)
        return [text[:chars].replace(MARK, "") for text in islice((t for t in texts if len(t) >= chars), documents)]


def lose(text: str, share: float, generator: np.random.Generator) -> str:
    """Replace a share of the characters that are not whitespace by marks."""
    lost = generator.random(len(text)) < share
    return "".join(MARK if flag and not char.isspace() else char for flag, char in zip(lost, text, strict=True))


def main() -> None:
    """Measure all languages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--languages", default="de,fr,en,es,pl,ru,ja")
    parser.add_argument("--documents", type=int, default=6)
    parser.add_argument("--chars", type=int, default=2000)
    arguments = parser.parse_args()
    restorer = Restorer()
    heads = ("language", "characters", "fillable", "filled correctly", "others changed", "clean: changed")
    print("|", " | ".join((*heads, "CER 3 %", "CER 10 %", "merged", "CPU s/KB")), "|")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for language in arguments.languages.split(","):
        texts = load(
            arguments.corpora / "languages" / f"{language}.eval.jsonl.gz", arguments.documents, arguments.chars
        )
        total = dict.fromkeys(("fillable", "right", "changed", "harm", "first", "second", "merged"), 0)
        seconds, size = 0.0, 0
        for seed, text in enumerate(texts):
            generator = np.random.default_rng(seed)
            first, second = lose(text, 0.1, generator), lose(text, 0.1, generator)
            result = restorer.restore(first, also=[second]).text
            for old, other, new, clean in zip(first, second, result, text, strict=len(result) == len(text)):
                total["fillable"] += old == MARK != other
                total["right"] += old == MARK != other and new == clean
                total["changed"] += old != MARK and new != old
            bad, worse = (CORRUPT["ocr"](text, rate, generator) for rate in (0.03, 0.1))
            total["harm"] += Levenshtein.distance(text, restorer.restore(text, also=[worse]).text)
            began = time.process_time()
            merged = restorer.restore(bad, also=[worse]).text
            seconds, size = seconds + time.process_time() - began, size + len(text.encode())
            for name, copy in (("first", bad), ("second", worse), ("merged", merged)):
                total[name] += Levenshtein.distance(text, copy)
        chars = sum(map(len, texts))
        counts = [str(total[name]) for name in ("fillable", "right", "changed", "harm")]
        rates = [f"{total[name] / chars:.4f}" for name in ("first", "second", "merged")]
        row = (language, f"{chars:,}", *counts, *rates, f"{seconds / size * 1000:.3f}")
        print("|", " | ".join(row), "|", flush=True)


if __name__ == "__main__":
    main()
