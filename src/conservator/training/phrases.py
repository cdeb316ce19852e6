"""The phrases that many documents share: words, pairs of words, and short stretches of code and markup.

    python -m conservator.training.phrases --data prose.jsonl.gz --data code.jsonl.gz --out phrases.gz

A phrase is kept only if it stands in several documents, so that none of them can be read back from the list.
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

WORD = re.compile(r"(?=([^A-Za-z][A-Za-z]{2,}[^A-Za-z]))")  # with the character before and after it
PAIR = re.compile(r"(?=([^A-Za-z][A-Za-z]+ [A-Za-z]+[^A-Za-z]))")
TOKEN = re.compile(r"[A-Za-z]+|[0-9]+|\s+|[^A-Za-z0-9\s]")
TOKENS = 5  # of a stretch
LONGEST = 40  # characters of a stretch
LEAST_WORDS, LEAST_STRETCHES = 5, 10  # documents that a word or a pair, and a stretch of tokens, must stand in


def find_phrases(documents: Iterable[str]) -> list[str]:
    """The words and pairs of words, with what is around them, and the stretches of tokens that many documents share."""
    words: Counter[str] = Counter()
    stretches: Counter[str] = Counter()
    for text in documents:
        words.update({*WORD.findall(text), *PAIR.findall(text)})
        tokens = TOKEN.findall(text)
        stretches.update({"".join(tokens[start : start + TOKENS]) for start in range(len(tokens) - TOKENS + 1)})
    kept = {word for word, count in words.items() if count >= LEAST_WORDS}
    kept |= {one for one, count in stretches.items() if count >= LEAST_STRETCHES and len(one) <= LONGEST}
    return sorted(one for one in kept if "\0" not in one)


def main() -> None:
    """Write the phrases of corpora; documents that trainings hold out are left out here too."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, action="append", required=True, help="as of conservator train")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    kept = [text.decode() for path in options.data for text in hold_out(read_corpus([path]), 0)[0]]
    phrases = find_phrases(kept)
    write_atomically(options.out, gzip.compress(END.join(one.encode() for one in phrases), mtime=0))
    print(f"{len(phrases)} phrases of {len(kept)} documents, {options.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
