"""Find phrases that many documents share: words, word pairs, and short token sequences of code and markup.

    python -m conservator.training.phrases --data prose.jsonl.gz --data code.jsonl.gz --out phrases.gz

A phrase is stored only if it occurs in several documents, so that no document can be reconstructed.
"""

import argparse
import gzip
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from conservator.experts.memory.phrases import END
from conservator.system.files import write_atomically
from conservator.training.corpus import hold_out, read_corpus

WORD = re.compile(r"(?=([^A-Za-z][A-Za-z]{2,}[^A-Za-z]))")  # with the characters before and after it
PAIR = re.compile(r"(?=([^A-Za-z][A-Za-z]+ [A-Za-z]+[^A-Za-z]))")
TOKEN = re.compile(r"[A-Za-z]+|[0-9]+|\s+|[^A-Za-z0-9\s]")
SEQUENCE_TOKENS = 5  # tokens: length of a token sequence [LOG: memory-expert]
MAX_SEQUENCE_CHARACTERS = 40  # characters: length of a token sequence [untuned]
MIN_WORD_DOCUMENTS = 5  # documents: that contain a word or a word pair [LOG: memory-expert]
MIN_SEQUENCE_DOCUMENTS = 10  # documents: that contain a token sequence [LOG: memory-expert]


def find_phrases(documents: Iterable[str]) -> list[str]:
    """Find words and word pairs, with the characters around them, and token sequences that many documents share."""
    words: Counter[str] = Counter()
    sequences: Counter[str] = Counter()
    for text in documents:
        words.update({*WORD.findall(text), *PAIR.findall(text)})
        tokens = TOKEN.findall(text)
        starts = range(len(tokens) - SEQUENCE_TOKENS + 1)
        sequences.update({"".join(tokens[start : start + SEQUENCE_TOKENS]) for start in starts})
    phrases = {word for word, count in words.items() if count >= MIN_WORD_DOCUMENTS}
    phrases |= {
        sequence
        for sequence, count in sequences.items()
        if count >= MIN_SEQUENCE_DOCUMENTS and len(sequence) <= MAX_SEQUENCE_CHARACTERS
    }
    return sorted(phrase for phrase in phrases if "\0" not in phrase)


def main() -> None:
    """Find the phrases of corpora without their held-out documents, and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, action="append", required=True, help="corpus, as for conservator train")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    documents = [text.decode() for path in options.data for text in hold_out(read_corpus([path]), 0)[0]]
    phrases = find_phrases(documents)
    write_atomically(options.out, gzip.compress(END.join(phrase.encode() for phrase in phrases), mtime=0))
    print(f"{len(phrases)} phrases of {len(documents)} documents, {options.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
