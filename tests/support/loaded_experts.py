"""Importing this module loads the built-in experts and character models, for worker processes that are forked."""

from transformers import AutoModelForCausalLM, LlamaForCausalLM  # noqa: F401

import conservator

conservator.restore("A small document, in which a letter is l\ufffdst.")
conservator.restore("A small document, in which a letter is lcst.", channel="ocr")
