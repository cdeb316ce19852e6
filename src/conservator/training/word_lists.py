"""Count the words of languages, for the word expert.

    python -m conservator.training.word_lists --data FOLDER --english prose.jsonl.gz --english code.jsonl.gz

FOLDER has files LANGUAGE.train.jsonl.gz with the fields ``text`` and ``licence``. Texts with a non-commercial licence
are not counted. A word is stored only if it occurs in several documents, so that no document can be reconstructed.
"""

import argparse
import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from conservator.experts.word_ngram.lists import COMMON, FOLDER, count_words, write_word_list
from conservator.system.files import write_atomically
from conservator.training.corpus import hold_out, read_corpus

SUFFIX = ".train.jsonl.gz"
MIN_DOCUMENTS = 2  # documents: that contain a word [untuned]
COMMON_WORDS = 400  # words: most frequent words of a language, for its identification [untuned]
MIN_WORDS = 1500  # words: languages with fewer are not written [untuned]
UNSPACED = ("ja", "zh")  # languages that are written without spaces between words


def read_commercial(path: Path, without: str | None = None) -> Iterator[bytes]:
    """Yield the texts of a file whose licence allows commercial use, except those of the domain ``without``."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            if "NC" not in record["licence"] and record.get("domain") != (without or ""):
                yield record["text"].encode()


def main() -> None:
    """Count the words of all languages of a folder, and write the word lists."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with LANGUAGE.train.jsonl.gz files")
    parser.add_argument("--english", type=Path, action="append", default=[], help="further corpus of English texts")
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    common = {}
    for path in sorted(options.data.glob(f"*{SUFFIX}")):
        language = path.name.removesuffix(SUFFIX)
        texts = list(read_commercial(path))
        if language == "en":
            texts += [text for corpus in options.english for text in hold_out(read_corpus([corpus]), 0)[0]]
        counts, separators = count_words(texts, MIN_DOCUMENTS)
        if language in UNSPACED or len(counts) < MIN_WORDS:
            continue
        write_atomically(options.out / f"{language}.gz", write_word_list(counts, separators))
        lower = {word: count for word, count in counts.items() if word.decode().islower() or not word.isascii()}
        frequent = sorted(lower, key=lambda word: (-lower[word], word))[:COMMON_WORDS]
        total = counts.total()
        common[language] = {word.decode(): float(f"{counts[word] / total:.3g}") for word in frequent}
        print(f"{language}: {len(counts)} words of {len(texts)} texts")
    data = gzip.compress(json.dumps(common, ensure_ascii=False, separators=(",", ":")).encode(), mtime=0)
    write_atomically(options.out / f"{COMMON}.gz", data)


if __name__ == "__main__":
    main()
