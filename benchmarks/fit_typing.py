"""Fit the parameters of typing errors to the dictionary of codespell.

pip download --no-deps codespell==2.4.3 && unzip codespell-*.whl
python benchmarks/fit_typing.py codespell_lib/data/dictionary.txt -o src/conservator/channels/typing_errors.json
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from conservator.alignment.fit_typing import Pair, fit_typing


def read_pairs(path: Path) -> list[Pair]:
    """Return the misspelt and correct words of lines ``misspelt->correct``; lines with several corrections are left."""
    pairs = []
    for line in path.read_text(encoding="utf-8").splitlines():
        observed, _, corrections = line.partition("->")
        clean = corrections.strip().rstrip(",")
        if "," not in corrections and f"{observed}{clean}".replace(" ", "").isalpha() and clean.islower():
            pairs.append((observed.lower(), clean))
    return pairs


def main() -> None:
    """Fit and write the parameters."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dictionary", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    args = parser.parse_args()
    errors = fit_typing(read_pairs(args.dictionary))
    args.out.write_text(json.dumps(asdict(errors), ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
