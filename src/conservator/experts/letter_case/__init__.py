"""Letter case: the probability that a word has a capital letter, given the text in small letters."""

from conservator.experts.letter_case.features import CaseWord, case_words, is_start, lower, upper
from conservator.experts.letter_case.model import CaseModel, has_case_model, load_case_model

__all__ = ["CaseModel", "CaseWord", "case_words", "has_case_model", "is_start", "load_case_model", "lower", "upper"]
