"""Words: an expert of words and their neighbours, counted in texts like a document and in the document itself."""

from conservator.experts.words.expert import WordModel, WordReader
from conservator.experts.words.usage import GONE, WORD, Usage, count_usage

__all__ = ["GONE", "WORD", "Usage", "WordModel", "WordReader", "count_usage"]
