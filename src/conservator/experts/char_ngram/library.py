"""The models of characters that come with the package."""

from functools import cache
from pathlib import Path

from conservator.experts.char_ngram.model import CharNgramModel
from conservator.experts.char_ngram.storage import read_model

HOME = Path(__file__).parent / "builtin"  # made by conservator.training.characters


@cache
def load_characters() -> tuple[CharNgramModel, ...]:
    """Read the models, once in a process."""
    return tuple(read_model(path) for path in sorted(HOME.glob("*.gz")))
