"""Count the spaces beside numbers and punctuation, for the restoration of spaces.

    python -m conservator.training.gaps --data FOLDER

FOLDER has files LANGUAGE.train.jsonl.gz with the fields ``text`` and ``licence``. Texts with a non-commercial licence
are not counted.
"""

import argparse
import gzip
import json
from pathlib import Path

from conservator.experts.word_ngram.gaps import FILE, count_gaps
from conservator.system.files import write_atomically
from conservator.training.word_lists import SUFFIX, UNSPACED, read_commercial

MIN_COUNT = 3  # gaps: of a pair of kinds that is stored [untuned]

MIN_SUFFIX = 5  # occurrences: of a word after a number without a space [untuned]


def main() -> None:
    """Count the gaps of all languages of a folder, and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with LANGUAGE.train.jsonl.gz files")
    parser.add_argument("--out", type=Path, default=FILE)
    options = parser.parse_args()
    languages: dict[str, dict[str, list[int]]] = {}
    for path in sorted(options.data.glob(f"*{SUFFIX}")):
        language = path.name.removesuffix(SUFFIX)
        if language in UNSPACED:
            continue
        counts: dict[str, list[int]] = {}
        for text in read_commercial(path):
            count_gaps(text.decode(), counts)
        languages[language] = {
            key: value
            for key, value in sorted(counts.items())
            if sum(value) >= MIN_COUNT and (len(value) > 1 or sum(value) >= MIN_SUFFIX)
        }
        print(f"{language}: {len(languages[language])} pairs", flush=True)
    common: dict[str, list[int]] = {}
    for counts in languages.values():
        for key, value in ((key, value) for key, value in counts.items() if len(value) > 1):
            common[key] = [sum(pair) for pair in zip(value, common.get(key, [0] * len(value)), strict=True)]
    data = json.dumps({"": common, **languages}, ensure_ascii=False, separators=(",", ":")).encode()
    write_atomically(options.out, gzip.compress(data, mtime=0))


if __name__ == "__main__":
    main()
