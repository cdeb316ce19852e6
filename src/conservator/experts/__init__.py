"""Frozen denoisers q_i: the contract, the exact experts on which every estimator is tested, and byte experts."""

from conservator.experts.bigram import BigramExpert
from conservator.experts.byte import ByteExpert, load_expert, save_expert
from conservator.experts.categorical import CategoricalExpert
from conservator.experts.enumeration import all_sequences
from conservator.experts.expert import PAD, Expert, ExpertSpec
from conservator.experts.library import builtin_names, load_experts
from conservator.experts.specialisation import check_specialisation

__all__ = [
    "PAD",
    "BigramExpert",
    "ByteExpert",
    "CategoricalExpert",
    "Expert",
    "ExpertSpec",
    "all_sequences",
    "builtin_names",
    "check_specialisation",
    "load_expert",
    "load_experts",
    "save_expert",
]
