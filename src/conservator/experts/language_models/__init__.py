"""Pretrained language models as causal experts. Loading a model needs the extra ``lm``; listing models does not."""

from typing import TYPE_CHECKING, Any

from conservator.experts.language_models.catalogue import CATALOGUE, KnownModel
from conservator.experts.language_models.fetching import add_model, remove_model
from conservator.experts.language_models.installed import AddedModel, added_models, model_folder
from conservator.experts.language_models.loading import load_language_model

if TYPE_CHECKING:
    from conservator.experts.language_models.model import LanguageModel

__all__ = [
    "CATALOGUE",
    "AddedModel",
    "KnownModel",
    "LanguageModel",
    "add_model",
    "added_models",
    "load_language_model",
    "model_folder",
    "remove_model",
]


def __getattr__(name: str) -> Any:
    """Import the class that needs the extra ``lm`` on first use."""
    if name == "LanguageModel":
        from conservator.experts.language_models.model import LanguageModel

        return LanguageModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
