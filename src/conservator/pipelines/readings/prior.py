"""Prior of the text that several readings have in common: character n-grams of the text itself and of its languages.

The prior of a slot is counted on the rest of the text: the text is divided into folds, and the model of a fold counts
the texts of all other folds. Otherwise each reading would be evidence for its own errors.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from conservator.documents import LOST_SYMBOLS
from conservator.experts.char_ngram import ORDER, CharNgramMixture, CharNgramModel
from conservator.experts.word_ngram import load_word_list

DOCUMENT = "document"  # name of the model of the text itself
CONTEXT_CHARS = ORDER - 1  # characters: context on either side of a slot [definition]
DIGITS = str.maketrans("123456789", "0" * 9)  # all digits are equally probable


@cache
def load_spelling_model(language: str) -> CharNgramModel:
    """Count the words of a word list. The result is cached for the process."""
    words = load_word_list(language).probs
    return CharNgramModel.of(language, ["".join(f" {word.decode()} " for word in words)])


@dataclass(frozen=True)
class TextPrior:
    """p(text): a mixture of character n-gram models.

    Attributes:
        mixture: The models.
    """

    mixture: CharNgramMixture
    scores: dict[tuple[str, str], float] = field(default_factory=dict, repr=False)

    def score(self, before: str, text: str) -> float:
        """Return log p of a text given the text before it."""
        key = before[-CONTEXT_CHARS:].translate(DIGITS), text.translate(DIGITS)
        if key not in self.scores:
            self.scores[key] = float(self.mixture.log_probs(key[1], key[0] or "\n").sum()) if text else 0.0
        return self.scores[key]


def make_priors(
    folds: Sequence[Sequence[str]], models: Sequence[CharNgramModel], document_weight: float
) -> list[TextPrior]:
    """Return the prior of each fold.

    Args:
        folds: The texts of each fold.
        models: Models of all folds, in addition to that of the text.
        document_weight: Weight of the model of the text; the others have equal weights.
    """
    parts = [[part.translate(DIGITS) for text in texts for part in LOST_SYMBOLS.split(text)] for texts in folds]
    counted = [
        CharNgramModel.of(DOCUMENT, (text for other, texts in enumerate(parts) if other != number for text in texts))
        for number in range(len(folds))
    ]
    mixture = CharNgramMixture.of([*counted, *models])
    others = range(len(folds), len(folds) + len(models))
    weights = np.array([document_weight, *([(1 - document_weight) / max(1, len(models))] * len(models))])
    return [
        TextPrior(replace(mixture.subset([number, *others]), weights=weights / weights.sum()))
        for number in range(len(folds))
    ]
