"""Experts with exact conditionals on small vocabularies, for simulations and as oracles."""

from conservator.reference.experts.bigram import BigramExpert
from conservator.reference.experts.byte_lm import ByteLm, ByteState, score_bytes
from conservator.reference.experts.categorical import CategoricalExpert, sample_categorical
from conservator.reference.experts.enumerated import EnumeratedExpert
from conservator.reference.experts.markov import MarkovExpert
from conservator.reference.experts.sequences import all_sequences
from conservator.reference.experts.texts import enumerate_texts

__all__ = [
    "BigramExpert",
    "ByteLm",
    "ByteState",
    "CategoricalExpert",
    "EnumeratedExpert",
    "MarkovExpert",
    "all_sequences",
    "enumerate_texts",
    "sample_categorical",
    "score_bytes",
]
