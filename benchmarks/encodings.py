"""How often the encoding of a text is told rightly: whether reading its bytes gives the text back.

    python benchmarks/encodings.py PATH [--documents 15] [--lengths 0 600 150]

PATH has a folder of UTF-8 text files (also .gz) for each language, by its code: de, fr, es, it, pt, sv, pl, cs, hu, ru.
Each text is written in the one-byte encodings of its language, without the characters that they do not have, whole
(length 0) or as an excerpt from 50 characters before the first one outside ASCII; those with fewer than three such
characters are passed over. A text counts as right if every character comes back.
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
    """The texts of a folder, in the order of their names."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        yield (gzip.decompress(data) if path.suffix == ".gz" else data).decode(errors="ignore")


def cases(folder: Path, encoding: str, documents: int, length: int) -> Iterator[str]:
    """Texts that an encoding can hold."""
    found = 0
    for text in read_texts(folder):
        text = text.encode(encoding, "ignore").decode(encoding)
        first = next((place for place, one in enumerate(text) if not one.isascii()), 0)
        text = text[max(0, first - 50) :][:length] if length else text
        if sum(not one.isascii() for one in text) >= 3:
            yield text
            found += 1
        if found == documents:
            return


def main() -> None:
    """Print a table: right of all, for each length; then what was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--documents", type=int, default=15)
    parser.add_argument("--lengths", type=int, nargs="+", default=[0, 600, 150])
    arguments = parser.parse_args()
    for length in arguments.lengths:
        right, wrong = 0, Counter[str]()
        for language, encodings in ENCODINGS.items():
            for encoding in encodings:
                for text in cases(arguments.path / language, encoding, arguments.documents, length):
                    told = detect_encoding(text.encode(encoding))
                    if text.encode(encoding).decode(told, "replace") == text:
                        right += 1
                    else:
                        wrong[f"{language} in {encoding} as {told}"] += 1
        print(f"length {length or 'whole'}: {right} of {right + wrong.total()} right")
        for case, number in wrong.most_common():
            print(f"  {number} {case}")


if __name__ == "__main__":
    main()
