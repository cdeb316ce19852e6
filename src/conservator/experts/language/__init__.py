"""Pretrained language models as causal experts. Only reading them needs the extra ``lm``; listing them does not."""

from typing import TYPE_CHECKING, Any

from conservator.experts.language.catalogue import CATALOGUE, KnownModel
from conservator.experts.language.fetching import add_model, remove_model
from conservator.experts.language.home import AddedModel, added_models, model_folder
from conservator.experts.language.loading import load_language_model

if TYPE_CHECKING:
    from conservator.experts.language.model import LanguageModel

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
    """Import the class that needs the extra on first use."""
    if name == "LanguageModel":
        from conservator.experts.language.model import LanguageModel

        return LanguageModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
