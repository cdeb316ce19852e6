"""The probability that a word has a capital letter: a log-linear model per language.

    p(s_i | s_(i-1), text) = 1 / (1 + exp(-sum of the weights of the features)),    s_i = 1: word i has a capital letter

The features are those of ``features.py``. The weights are fitted by ``conservator.training.letter_case``.
"""

import gzip
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from conservator.arrays import Floats
from conservator.experts.letter_case.features import SIZE, case_words, features, lower, state_features

FOLDER = Path(__file__).parent / "languages"  # written by conservator.training.letter_case
STEP = 1 / 16  # log-odds: unit of the stored weights [numerical]


@dataclass(frozen=True)
class CaseModel:
    """Weights of the features of one language.

    Attributes:
        language: Code of the language.
        weights: (SIZE,) weight of each hashed feature.
    """

    language: str
    weights: NDArray[np.float32]

    def log_odds(self, text: str) -> Floats:
        """Return the log-odds (n, 2) of a capital letter in each word, for a word before without and with one."""
        words = case_words(text)
        lowered = lower(text, self.language).replace("\u2019", "'")
        base = features(
            [lowered[word.start : word.stop] for word in words], [word.gap for word in words], self.language
        )
        log_odds: Floats = self.weights[base].sum(axis=1)[:, None] + self.weights[state_features(base)].sum(axis=2)
        return log_odds.astype(np.float64)


def write_weights(weights: Floats) -> bytes:
    """Serialise weights."""
    return gzip.compress(np.clip(np.round(weights / STEP), -127, 127).astype(np.int8).tobytes(), mtime=0)


def has_case_model(language: str) -> bool:
    """Return whether there is a model of a language."""
    return (FOLDER / f"{language}.gz").exists()


@cache
def load_case_model(language: str) -> CaseModel:
    """Load the model of a language. The result is cached for the process."""
    stored = np.frombuffer(gzip.decompress((FOLDER / f"{language}.gz").read_bytes()), dtype=np.int8, count=SIZE)
    return CaseModel(language, stored.astype(np.float32) * np.float32(STEP))
