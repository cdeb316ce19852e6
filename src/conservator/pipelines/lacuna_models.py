"""Character n-gram models of a text with lacunae: of references, of its languages, and of the text itself.

Each is counted in both directions (``Directions``).
"""

from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from conservator.decoders.lacunae import Directions
from conservator.experts.char_ngram import REFERENCES, WORDS, CharNgramMixture, CharNgramModel
from conservator.experts.word_ngram import identify_languages
from conservator.experts.word_ngram.lists import load_word_list
from conservator.options import RestoreOptions
from conservator.pipelines.references import CONTEXTS, ReferenceTexts

DOCUMENT = "document"  # name of the model that is counted on the text itself
ENGLISH = "en"  # language of a text of which no language is identified


@dataclass(frozen=True)
class LacunaModelConfig:
    """Parameters of the models."""

    min_evidence: float = 1.0  # nats: for a language, of which the models then are a prior only [untuned]
    min_language_prob: float = 0.1  # probability: less probable languages are not used [untuned]
    order: int = 12  # characters: longest n-gram [LOG: lacunae]
    long_order: int = 8  # characters: the same for word lists and for long references [LOG: lacunae]
    long_characters: int = 250_000  # characters: references are long from here on, about 1 GB of counts [safety limit]
    list_temperature: float = 1.7  # ratio: of the scores of word lists without references [LOG: lacunae]
    list_words: int = 100_000  # words: drawn from a word list by their frequency [untuned]
    # characters: references of this size are a better model of a language than a word list [untuned]
    min_references: int = 50_000
    min_document: int = 2_000  # characters: there is no model of shorter texts [LOG: lacunae]
    document_weight: float = 0.1  # weight: of the model of the text itself [untuned]
    fitted_characters: int = 20_000  # characters: of the visible text that the weights are fitted to [untuned]


CONFIG = LacunaModelConfig()


class CountedTexts(NamedTuple):
    """Models of texts from left to right and from right to left, and the counts of their characters."""

    forward: CharNgramModel
    backward: CharNgramModel
    characters: Counter[str]


def count_both(name: str, texts: list[str], order: int) -> CountedTexts:
    """Count texts from left to right, and from right to left."""
    forward, backward = (CharNgramModel.of(name, (text[::step] for text in texts), order) for step in (1, -1))
    return CountedTexts(forward, backward, sum(map(Counter, texts), Counter()))


def join_both(counted: list[CountedTexts], temperature: float) -> Directions:
    """Return the mixtures of models in both directions."""
    shares: Counter[str] = Counter()
    for part in counted:
        shares.update({character: count / part.characters.total() for character, count in part.characters.items()})
    return Directions(
        CharNgramMixture.of([part.forward for part in counted]),
        CharNgramMixture.of([part.backward for part in counted]),
        "".join(character for character, _ in shares.most_common()),
        temperature,
    )


@lru_cache(maxsize=4)
def list_models(language: str) -> CountedTexts:
    """Return the models of a language: of words of its list, drawn by their frequency, with blanks between them."""
    word_list = load_word_list(language)
    words, probs = list(word_list.probs), np.array(list(word_list.probs.values()))
    drawn = np.random.default_rng(0).choice(len(words), CONFIG.list_words, p=probs / probs.sum())
    text = " ".join(words[index].decode(errors="replace") for index in drawn.tolist())
    return count_both(language, [text], CONFIG.long_order)


@lru_cache(maxsize=4)
def language_models(languages: tuple[str, ...]) -> Directions:
    """Return the models of languages, for texts without references."""
    return join_both([list_models(name) for name in languages], CONFIG.list_temperature)


def lacuna_models(visible: str, references: ReferenceTexts, options: RestoreOptions) -> Directions:
    """Return the models for the lacunae of a text, with weights for it.

    Args:
        visible: The text without its lacunae.
        references: Reference texts.
        options: Options of the restoration; without the memory, only word lists are used.
    """
    sample = visible[: CONFIG.fitted_characters]
    base = base_models(sample, references)
    models = replace(base, forward=base.forward.fit_weights(sample), backward=base.backward.fit_weights(sample[::-1]))
    if not options.memory or len(visible) < CONFIG.min_document:
        return models
    counted, weight = count_both(DOCUMENT, [visible], CONFIG.order), CONFIG.document_weight
    return replace(
        models,
        forward=models.forward.append(counted.forward, weight),
        backward=models.backward.append(counted.backward, weight),
    )


def base_models(sample: str, references: ReferenceTexts) -> Directions:
    """Return the models of the references, of the words of the user, and of the languages of a text."""
    texts = [text for _, text in references.texts]
    size = sum(map(len, texts))
    languages = () if size >= CONFIG.min_references else languages_of(sample)
    if not texts and not references.words:
        return language_models(languages)
    if languages not in references.lacuna_models:
        models = []
        if texts:
            models.append(
                count_both(REFERENCES, texts, CONFIG.order if size < CONFIG.long_characters else CONFIG.long_order)
            )
        if references.words:
            contexts = [f"{before} {word} " for word in references.words for before in CONTEXTS]
            models.append(count_both(WORDS, contexts, CONFIG.order))
        references.lacuna_models[languages] = join_both([*models, *map(list_models, languages)], 1.0)
    return references.lacuna_models[languages]


def languages_of(sample: str) -> tuple[str, ...]:
    """Return the probable languages of a text."""
    languages = identify_languages(sample.encode(), CONFIG.min_evidence)
    probable = (name for name, probability in languages.items() if probability >= CONFIG.min_language_prob)
    return tuple(sorted(probable)) or (ENGLISH,)
