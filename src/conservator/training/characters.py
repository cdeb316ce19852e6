"""Train a character n-gram model of the package.

    python -m conservator.training.characters prose --data prose.jsonl.gz --least 3 --out prose.gz

Long n-grams are stored only if they occur several times, so that no document can be reconstructed.
"""

import argparse
from pathlib import Path

from conservator.experts.char_ngram import CharNgramModel
from conservator.experts.char_ngram.storage import write_model
from conservator.system.files import write_atomically
from conservator.training.corpus import hold_out, read_corpus


def main() -> None:
    """Count corpora without their held-out documents, and write the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="name of the model in reports")
    parser.add_argument("--data", type=Path, action="append", required=True, help="corpus, as for conservator train")
    parser.add_argument("--least", type=int, default=3, help="minimum count of n-grams longer than three characters")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    documents = [text.decode() for path in options.data for text in hold_out(read_corpus([path]), 0)[0]]
    data = write_model(CharNgramModel.of(options.name, documents), options.least)
    write_atomically(options.out, data)
    print(f"{options.name}: {len(documents)} documents, {len(data)} bytes")


if __name__ == "__main__":
    main()
