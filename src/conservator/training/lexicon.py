"""The words of languages that come with the package, counted in texts.

    python -m conservator.training.lexicon --data european.jsonl.gz --out languages.gz

``--data`` has a text in the field ``text`` and its language in the field ``lang`` of each line. A word outside ASCII is
kept only if it stands in several documents, so that none of them can be read back from the list; of words in ASCII, the
most frequent are.
"""

import argparse
import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path

from conservator.experts.lexicon.words import count_words, write_language
from conservator.system.files import write_atomically

DOCUMENTS = 2  # in which a word outside ASCII must stand, and two characters with one between them
PLAIN = 6000  # words in ASCII of a language


def count_language(texts: list[str]) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """The words of a language and its characters outside ASCII by their neighbours."""
    words: Counter[str] = Counter()
    documents: Counter[str] = Counter()
    around: dict[str, Counter[str]] = defaultdict(Counter)
    beside: Counter[tuple[str, str]] = Counter()
    for text in texts:
        own, near = count_words([text])
        words.update(own)
        documents.update(own.keys())
        for key, counts in near.items():
            around[key].update(counts)
            beside.update((key, one) for one in counts)
    plain = [one for one, _ in words.most_common() if one.isascii()][:PLAIN]
    outside = [one for one in words if not one.isascii() and documents[one] >= DOCUMENTS]
    kept = {
        key: {one: count for one, count in counts.items() if beside[key, one] >= DOCUMENTS}
        for key, counts in sorted(around.items())
    }
    return (
        {one: words[one] for one in sorted([*plain, *outside])},
        {key: counts for key, counts in kept.items() if counts},
    )


def main() -> None:
    """Count the words of a file of texts, and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a .jsonl.gz file with the fields lang and text")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    texts: dict[str, list[str]] = defaultdict(list)
    with gzip.open(options.data, "rt", encoding="utf-8") as lines:
        for line in lines:
            one = json.loads(line)
            texts[one["lang"]].append(one["text"])
    found = {name: count_language(own) for name, own in sorted(texts.items())}
    data = gzip.compress("".join(write_language(name, *one) for name, one in found.items()).encode(), mtime=0)
    write_atomically(options.out, data)
    print(f"{len(found)} languages, {sum(len(words) for words, _ in found.values())} words, {len(data)} bytes")


if __name__ == "__main__":
    main()
