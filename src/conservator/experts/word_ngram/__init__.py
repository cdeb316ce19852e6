"""Words: an expert of words and their neighbours, counted in texts like a document and in the document itself."""

from conservator.experts.word_ngram.counts import GONE, WORD, Usage, count_usage
from conservator.experts.word_ngram.expert import WordModel, WordReader

__all__ = ["GONE", "WORD", "Usage", "WordModel", "WordReader", "count_usage"]
