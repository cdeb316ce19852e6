"""Accuracy of the encoding detection: the fraction of texts that decode without an error.

    python benchmarks/encodings.py PATH [--documents 15] [--lengths 0 600 150]

PATH has one folder of UTF-8 text files (also .gz) per language code: de, fr, es, it, pt, sv, pl, cs, hu, ru. Each text
is encoded in the encodings of its language, without the characters that an encoding lacks. Length 0 is the whole text;
any other length is an excerpt that starts 50 characters before the first non-ASCII character. Texts with fewer than
three non-ASCII characters are skipped. A text counts as correct if all characters are decoded correctly.
"""

import argparse
import gzip
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from conservator.documents.encoding import detect_encoding

WEST, EAST = ("cp1252", "iso8859-15", "cp850", "mac-roman"), ("cp1250", "iso8859-2", "cp852", "mac-latin2")
ENCODINGS = {
    **dict.fromkeys(("de", "fr", "es", "it", "pt", "sv"), (*WEST, "utf-16-le")),
    **dict.fromkeys(("pl", "cs", "hu"), (*EAST, "utf-16-le")),
    "ru": ("cp1251", "koi8-r", "cp866", "utf-16-be"),
}


def read_texts(folder: Path) -> Iterator[str]:
    """Read the texts of a folder, ordered by file name."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        yield (gzip.decompress(data) if path.suffix == ".gz" else data).decode(errors="ignore")


def cases(folder: Path, encoding: str, documents: int, length: int) -> Iterator[str]:
    """Select texts for an encoding, without the characters that it lacks."""
    count = 0
    for text in read_texts(folder):
        text = text.encode(encoding, "ignore").decode(encoding)
        first = next((position for position, character in enumerate(text) if not character.isascii()), 0)
        text = text[max(0, first - 50) :][:length] if length else text
        if sum(not character.isascii() for character in text) >= 3:
            yield text
            count += 1
        if count == documents:
            return


def main() -> None:
    """Run the benchmark: print the accuracy for each length, and the errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="folder with one folder per language")
    parser.add_argument("--documents", type=int, default=15, help="documents per language and encoding")
    parser.add_argument("--lengths", type=int, nargs="+", default=[0, 600, 150], help="characters; 0: the whole text")
    arguments = parser.parse_args()
    for length in arguments.lengths:
        correct, wrong = 0, Counter[str]()
        for language, encodings in ENCODINGS.items():
            for encoding in encodings:
                for text in cases(arguments.path / language, encoding, arguments.documents, length):
                    detected = detect_encoding(text.encode(encoding))
                    if text.encode(encoding).decode(detected, "replace") == text:
                        correct += 1
                    else:
                        wrong[f"{language} in {encoding} as {detected}"] += 1
        print(f"length {length or 'whole'}: {correct} of {correct + wrong.total()} correct")
        for case, count in wrong.most_common():
            print(f"  {count} {case}")


if __name__ == "__main__":
    main()
