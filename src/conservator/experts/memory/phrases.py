"""The phrases that come with the package: words and stretches that many documents share, as one more reference."""

import gzip
from functools import cache
from pathlib import Path

from conservator.experts.memory.index import Index, Text
from conservator.experts.memory.references import index_texts
from conservator.vocabularies import BYTES, CHARACTERS, VOCABULARIES

# By the fingerprint of a vocabulary; made by conservator.training.phrases.
PHRASES = {BYTES.fingerprint: "phrases.gz", CHARACTERS.fingerprint: "european.gz"}
END = b"\0"  # between two phrases


@cache
def load_phrases(fingerprint: str = BYTES.fingerprint) -> Index:
    """Read and index the phrases for a vocabulary, once in a process."""
    encode = VOCABULARIES[fingerprint].encode
    phrases = gzip.decompress((Path(__file__).parent / PHRASES[fingerprint]).read_bytes()).split(END)
    texts: list[Text] = [encode(one).tokens.astype("int16") for one in phrases]
    return index_texts(texts)
