"""A model of characters in a row, as it comes with the package.

    python -m conservator.training.characters prose --data prose.jsonl.gz --least 3 --out prose.gz

Long grams are kept only if they were seen several times, so that no document can be read back.
"""

import argparse
from pathlib import Path

from conservator.experts.char_ngram import CharNgramModel
from conservator.experts.char_ngram.storage import write_model
from conservator.system.files import write_atomically
from conservator.training.corpus import hold_out, read_corpus


def main() -> None:
    """Write the model of corpora; documents that trainings hold out are left out here too."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="the name of the model in reports")
    parser.add_argument("--data", type=Path, action="append", required=True, help="as of conservator train")
    parser.add_argument("--least", type=int, default=3, help="how often a gram of more than three characters was seen")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    kept = [text.decode() for path in options.data for text in hold_out(read_corpus([path]), 0)[0]]
    data = write_model(CharNgramModel.of(options.name, kept), options.least)
    write_atomically(options.out, data)
    print(f"{options.name}: {len(kept)} documents, {len(data)} bytes")


if __name__ == "__main__":
    main()
