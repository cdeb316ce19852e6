"""Prior of the text that several readings have in common: character n-grams of the text itself and of its languages.

The prior of a slot is counted on the rest of the text: the text is divided into folds, and the model of a fold counts
the texts of all other folds. Otherwise each reading would be evidence for its own errors.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np

from conservator.documents import LOST_SYMBOLS
from conservator.experts.char_ngram import (
    ORDER,
    CharNgramMixture,
    CharNgramModel,
    Trie,
    code_points,
    load_char_ngram_models,
)
from conservator.experts.word_ngram import load_word_list

DOCUMENT = "document"  # name of the model of the text itself
CONTEXT_CHARS = ORDER - 1  # characters: context on either side of a slot [definition]
PUNCTUATION_MODEL = "prose"  # word lists have no punctuation, so its English text is used in all languages
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


def join_models(folds: int, languages: Sequence[str], references: Sequence[CharNgramModel] = ()) -> CharNgramMixture:
    """Join an empty model of each fold, English prose, and the models of languages and of references."""
    empty = [CharNgramModel(DOCUMENT, Trie.empty()) for _ in range(folds)]
    general = [model for model in load_char_ngram_models() if model.name == PUNCTUATION_MODEL]
    return CharNgramMixture.of([*empty, *general, *(load_spelling_model(name) for name in languages), *references])


@lru_cache(maxsize=1)
def join_language_models(folds: int, languages: tuple[str, ...]) -> CharNgramMixture:
    """Join models without references; the last result is kept, because it takes a second."""
    return join_models(folds, languages)


def make_priors(
    folds: Sequence[Sequence[str]],
    languages: Sequence[str],
    references: Sequence[CharNgramModel],
    document_weight: float,
) -> list[TextPrior]:
    """Return the prior of each fold.

    Args:
        folds: The texts of each fold.
        languages: Languages of the text.
        references: Models of references.
        document_weight: Weight of the model of the text; the others have equal weights.
    """
    if references:
        mixture = join_models(len(folds), languages, references)
    else:
        mixture = join_language_models(len(folds), tuple(languages))
    trie = copy_trie(mixture.trie)
    parts = [[part.translate(DIGITS) for text in texts for part in LOST_SYMBOLS.split(text)] for texts in folds]
    for number in range(len(folds)):
        for text in (text for other, texts in enumerate(parts) if other != number for text in texts):
            trie = trie.add_text(code_points("\n" + text), number)
    others = range(len(folds), len(mixture.names))
    weights = np.array([document_weight, *([(1 - document_weight) / len(others)] * len(others))])
    counted = replace(mixture, trie=trie)
    return [TextPrior(replace(counted.subset([number, *others]), weights=weights)) for number in range(len(folds))]


def copy_trie(trie: Trie) -> Trie:
    """Return a copy of a trie, to which texts can be added."""
    copies: dict[str, Any] = {
        name: value.copy() for name, value in trie._asdict().items() if isinstance(value, np.ndarray)
    }
    return trie._replace(**copies)
