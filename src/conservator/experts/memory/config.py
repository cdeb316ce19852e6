"""Hyperparameters of the memory."""

from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryConfig:
    """Hyperparameters of matching and voting."""

    max_match_bytes: int = 8  # bytes: longest match that is counted on each side [LOG: memory-expert]
    max_hidden_run: int = 16  # bytes: longest run of hidden bytes within a match [LOG: sampling-the-evidence]
    vote_exponent: int = 6  # exponent: vote as a function of the match lengths [LOG: memory-expert]
    max_matches: int = 32  # positions: matches per context of a byte [untuned]
    uniform_votes: float = 1024.0  # votes: pseudo-count of the uniform distribution [untuned]
    uniform_mix: float = 2.0**-12  # probability: minimum mass of the uniform distribution [untuned]
    word_weight: float = 0.1  # ratio: vote of a word of the user relative to the document [LOG: words-of-the-user]
    reference_weight: float = 0.01  # ratio: vote of another text relative to the document [LOG: memory-expert]


CONFIG = MemoryConfig()
