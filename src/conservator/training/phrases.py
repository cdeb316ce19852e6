"""The phrases that many documents share: words, pairs of words, and short stretches of code and markup.

    python -m conservator.training.phrases --data prose.jsonl.gz --data code.jsonl.gz --out phrases.gz
    python -m conservator.training.phrases --data european.jsonl.gz --outside --out european.gz

With ``--outside``, only words with a character outside ASCII are taken, in any language, and pairs with such a word. A
phrase is kept only if it stands in several documents, so that none of them can be read back from the list.
"""

import argparse
import gzip
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from conservator.experts.memory.phrases import END
from conservator.files import write_atomically
from conservator.training.corpus import hold_out, read_corpus

WORD = re.compile(r"(?=([^A-Za-z][A-Za-z]{2,}[^A-Za-z]))")  # with the character before and after it
PAIR = re.compile(r"(?=([^A-Za-z][A-Za-z]+ [A-Za-z]+[^A-Za-z]))")
TOKEN = re.compile(r"[A-Za-z]+|[0-9]+|\s+|[^A-Za-z0-9\s]")
TOKENS = 5  # of a stretch
LONGEST = 40  # characters of a stretch
LETTERS = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*| ")  # a word of any language, or a space
LEAST_OUTSIDE, LEAST_PAIRS = 3, 6  # documents that a word outside ASCII, and a pair with one, must stand in
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


def find_words_outside(documents: Iterable[str]) -> list[str]:
    """The words with a character outside ASCII that many documents share, and the pairs with one, between spaces."""
    words: Counter[str] = Counter()
    pairs: Counter[str] = Counter()
    for text in documents:
        parts = LETTERS.findall(text)
        words.update({f" {one} " for one in parts if not one.isascii()})
        beside = [(one, two) for one, space, two in zip(parts, parts[1:], parts[2:], strict=False) if space == " "]
        pairs.update({f" {one} {two} " for one, two in beside if " " not in (one, two) and not (one + two).isascii()})
    kept = {one for one, count in words.items() if count >= LEAST_OUTSIDE}
    return sorted(kept | {one for one, count in pairs.items() if count >= LEAST_PAIRS})


def main() -> None:
    """Write the phrases of corpora; documents that trainings hold out are left out here too."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, action="append", required=True, help="as of conservator train")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--outside", action="store_true", help="words with a character outside ASCII alone")
    options = parser.parse_args()
    kept = [text.decode() for path in options.data for text in hold_out(read_corpus([path]), 0)[0]]
    phrases = find_words_outside(kept) if options.outside else find_phrases(kept)
    write_atomically(options.out, gzip.compress(END.join(one.encode() for one in phrases), mtime=0))
    print(f"{len(phrases)} phrases of {len(kept)} documents, {options.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
