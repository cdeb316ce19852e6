"""Whether two texts are readings of the same text.

With e the share of the symbols of the shorter text that an alignment leaves unchanged, and e' the same with the longer
text in reverse order, which has the same characters but no common text, the similarity is

    s = (e - e') / (1 - e')
"""

from dataclasses import dataclass

from conservator.alignment import find_differences
from conservator.documents import LOST_SYMBOLS


@dataclass(frozen=True)
class SimilarityConfig:
    """Limits for readings of the same text."""

    min_similarity: float = 0.4  # similarity: pages of trade directories have at most 0.35 [LOG: several-readings]
    min_length_ratio: float = 0.5  # ratio: of the length of the shorter text to that of the longer one [untuned]
    min_chars: int = 40  # characters: shorter texts are not compared [untuned]
    reversed_chars: int = 4096  # characters: of each text, compared in reverse order [safety limit]


CONFIG = SimilarityConfig()


def is_same_text(first: str, second: str) -> bool:
    """Return whether two texts are readings of the same text; texts that are too short to tell are."""
    shorter, longer = sorted((first, second), key=len)
    if len(longer) < CONFIG.min_chars:
        return bool(shorter)
    return (
        len(shorter) >= CONFIG.min_length_ratio * len(longer) and similarity(shorter, longer) >= CONFIG.min_similarity
    )


def similarity(shorter: str, longer: str) -> float:
    """Return the similarity of two texts; lost symbols do not count."""
    sample, other = shorter[: CONFIG.reversed_chars], longer[: CONFIG.reversed_chars]
    unchanged, by_chance = unchanged_share(shorter, longer), unchanged_share(sample, other[::-1])
    return (unchanged - by_chance) / max(1 - by_chance, 1e-9)


def unchanged_share(first: str, second: str) -> float:
    """Return the share of the symbols of the first text that an alignment with the second one leaves unchanged."""
    changed = sum(item.stop - item.start for item in find_differences(first, second))
    lost, other_lost = len(LOST_SYMBOLS.findall(first)), len(LOST_SYMBOLS.findall(second))
    comparable = (len(first) - lost) * (1 - other_lost / max(1, len(second)))
    return min(1.0, max(0, len(first) - changed) / max(comparable, 1.0))
