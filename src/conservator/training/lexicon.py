"""Count the words of the languages of the package.

    python -m conservator.training.lexicon --data european.jsonl.gz --out languages.gz

Each line of ``--data`` has a text in the field ``text`` and its language in the field ``lang``. A non-ASCII word is
stored only if it occurs in several documents, so that no document can be reconstructed; of ASCII words, the most
frequent are stored.
"""

import argparse
import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path

from conservator.experts.lexicon.words import count_words, write_language
from conservator.system.files import write_atomically

MIN_DOCUMENTS = 2  # documents: that contain a non-ASCII word, or a character between two others [LOG: lost-characters]
MAX_ASCII_WORDS = 6000  # words: ASCII words of a language [untuned]


def count_language(texts: list[str]) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """Count the words of a language, and its non-ASCII characters by neighbours."""
    words: Counter[str] = Counter()
    word_documents: Counter[str] = Counter()
    by_neighbours: dict[str, Counter[str]] = defaultdict(Counter)
    char_documents: Counter[tuple[str, str]] = Counter()
    for text in texts:
        text_words, text_by_neighbours = count_words([text])
        words.update(text_words)
        word_documents.update(text_words.keys())
        for key, counts in text_by_neighbours.items():
            by_neighbours[key].update(counts)
            char_documents.update((key, char) for char in counts)
    ascii_words = [word for word, _ in words.most_common() if word.isascii()][:MAX_ASCII_WORDS]
    other_words = [word for word in words if not word.isascii() and word_documents[word] >= MIN_DOCUMENTS]
    frequent = {
        key: {char: count for char, count in counts.items() if char_documents[key, char] >= MIN_DOCUMENTS}
        for key, counts in sorted(by_neighbours.items())
    }
    return (
        {word: words[word] for word in sorted([*ascii_words, *other_words])},
        {key: counts for key, counts in frequent.items() if counts},
    )


def main() -> None:
    """Count the words of a file, and write the languages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help=".jsonl.gz file with the fields lang and text")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    texts: dict[str, list[str]] = defaultdict(list)
    with gzip.open(options.data, "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            texts[record["lang"]].append(record["text"])
    languages = {name: count_language(language_texts) for name, language_texts in sorted(texts.items())}
    data = gzip.compress("".join(write_language(name, *counts) for name, counts in languages.items()).encode(), mtime=0)
    write_atomically(options.out, data)
    print(f"{len(languages)} languages, {sum(len(words) for words, _ in languages.values())} words, {len(data)} bytes")


if __name__ == "__main__":
    main()
