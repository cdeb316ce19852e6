"""Load the character n-gram models that are shipped with the package."""

from functools import cache
from pathlib import Path

from conservator.experts.char_ngram.model import CharNgramModel
from conservator.experts.char_ngram.storage import read_model

BUILTIN_FOLDER = Path(__file__).parent / "builtin"  # written by conservator.training.characters


@cache
def load_char_ngram_models() -> tuple[CharNgramModel, ...]:
    """Load the shipped models, sorted by file name. The result is cached for the process."""
    return tuple(read_model(path) for path in sorted(BUILTIN_FOLDER.glob("*.gz")))
