"""Pretrained language models as causal experts. Loading a model needs the extra ``lm``; listing models does not."""

from conservator.experts.language_models.fetching import add_model, remove_model
from conservator.experts.language_models.installed import added_models, model_folder
from conservator.experts.language_models.loading import load_language_model

__all__ = [
    "add_model",
    "added_models",
    "load_language_model",
    "model_folder",
    "remove_model",
]
