"""Conservator: restore damaged documents by composing frozen experts position by position.

The names below are imported when they are first used, so that ``import conservator`` is
instant and brings in neither torch nor numba nor matplotlib.
"""

from importlib import import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and editors alone
    from conservator.channels import Channel, ConfusionChannel, MaskChannel, Observation, ReplacementChannel
    from conservator.decoders import decode_posterior
    from conservator.documents.restored import Restoration
    from conservator.errors import ConservatorError
    from conservator.experts import BigramExpert, ByteExpert, CategoricalExpert, Expert, ExpertSpec, load_experts
    from conservator.field import EnumeratedEvidence, FactorisedEvidence, infer_field, log_pool
    from conservator.field.smoothing import (
        GroupTotalVariation,
        MovingAverage,
        NoSmoothing,
        PerColumn,
        TotalVariation,
    )
    from conservator.restoration import restore

__version__ = _version("conservator")

_HOME = {
    "Channel": "channels",
    "ConfusionChannel": "channels",
    "MaskChannel": "channels",
    "Observation": "channels",
    "ReplacementChannel": "channels",
    "BigramExpert": "experts",
    "ByteExpert": "experts",
    "CategoricalExpert": "experts",
    "Expert": "experts",
    "ExpertSpec": "experts",
    "load_experts": "experts",
    "EnumeratedEvidence": "field",
    "FactorisedEvidence": "field",
    "infer_field": "field",
    "log_pool": "field",
    "GroupTotalVariation": "field.smoothing",
    "MovingAverage": "field.smoothing",
    "NoSmoothing": "field.smoothing",
    "PerColumn": "field.smoothing",
    "TotalVariation": "field.smoothing",
    "decode_posterior": "decoders",
    "ConservatorError": "errors",
    "Restoration": "documents.restored",
    "restore": "restoration",
}
__all__ = [
    "BigramExpert",
    "ByteExpert",
    "CategoricalExpert",
    "Channel",
    "ConfusionChannel",
    "ConservatorError",
    "EnumeratedEvidence",
    "Expert",
    "ExpertSpec",
    "FactorisedEvidence",
    "GroupTotalVariation",
    "MaskChannel",
    "MovingAverage",
    "NoSmoothing",
    "Observation",
    "PerColumn",
    "ReplacementChannel",
    "Restoration",
    "TotalVariation",
    "__version__",
    "decode_posterior",
    "infer_field",
    "load_experts",
    "log_pool",
    "restore",
]


def __getattr__(name: str) -> Any:
    """Import a public name from the module that defines it, on first use (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'conservator' has no attribute {name!r}")
    value = getattr(import_module(f"conservator.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the lazy names too, for completion in a shell."""
    return sorted(__all__)
