"""The phrases that come with the package: words and stretches that many documents share, as one more reference."""

import gzip
from functools import cache
from pathlib import Path

import numpy as np

from conservator.experts.memory.index import Index
from conservator.experts.memory.references import index_texts

PHRASES = Path(__file__).parent / "phrases.gz"  # made by conservator.training.phrases
END = b"\0"  # between two phrases


@cache
def load_phrases() -> Index:
    """Read and index the phrases, once in a process."""
    phrases = gzip.decompress(PHRASES.read_bytes()).split(END)
    return index_texts([np.frombuffer(one, dtype=np.uint8).astype(np.int16) for one in phrases])
