"""Character n-gram models of a text with lacunae: of references, of its languages, and of the text itself."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from conservator.experts.char_ngram import CharNgramMixture, CharNgramModel, load_char_ngram_models
from conservator.experts.word_ngram import identify_languages
from conservator.experts.word_ngram.lists import load_word_list
from conservator.options import RestoreOptions
from conservator.pipelines.references import ReferenceTexts

DOCUMENT = "document"  # name of the model that is counted on the text itself
ENGLISH = "en"  # language of the built-in models


@dataclass(frozen=True)
class LacunaModelConfig:
    """Parameters of the models."""

    min_evidence: float = 1.0  # nats: for a language, of which the models then are a prior only [untuned]
    order: int = 12  # characters: longest n-gram of references and of the document [LOG: lacunae]
    list_order: int = 8  # characters: longest n-gram of a model of a word list [untuned]
    list_words: int = 100_000  # words: drawn from a word list by their frequency [untuned]
    document_weight: float = 0.2  # weight: of the model of the document [untuned]
    fitted_characters: int = 20_000  # characters: of the visible text that the weights are fitted to [untuned]


CONFIG = LacunaModelConfig()


@lru_cache(maxsize=4)
def list_model(language: str) -> CharNgramModel:
    """Return a model of a language: of words of its list, drawn by their frequency, with blanks between them."""
    word_list = load_word_list(language)
    words, probs = list(word_list.probs), np.array(list(word_list.probs.values()))
    drawn = np.random.default_rng(0).choice(len(words), CONFIG.list_words, p=probs / probs.sum())
    text = " ".join(words[index].decode(errors="replace") for index in drawn.tolist())
    return CharNgramModel.of(language, [text], CONFIG.list_order)


def lacuna_mixture(visible: str, references: ReferenceTexts, options: RestoreOptions) -> CharNgramMixture:
    """Return the models for the lacunae of a text, with weights for it.

    Args:
        visible: The text without its lacunae.
        references: Reference texts.
        options: Options of the restoration; without the memory, only the built-in models are used.
    """
    sample = visible[: CONFIG.fitted_characters]
    languages = tuple(identify_languages(sample.encode(), CONFIG.min_evidence)) if options.memory else ()
    if languages not in references.lacuna_models:
        models = [*references.char_ngram_models(CONFIG.order), *map(list_model, languages)]
        if not models or ENGLISH in languages:
            models += load_char_ngram_models()
        references.lacuna_models[languages] = CharNgramMixture.of(models)
    mixture = references.lacuna_models[languages].fit_weights(sample)
    if not options.memory or not visible.strip():
        return mixture
    return mixture.append(CharNgramModel.of(DOCUMENT, [visible], CONFIG.order), CONFIG.document_weight)
