"""Conservator: restore damaged documents by composing frozen experts position by position.

The names below are imported when they are first used, so that ``import conservator`` is
instant and brings in neither torch nor numba nor matplotlib.
"""

from importlib import import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and editors alone
    from conservator.channels import Channel, ConfusionChannel, MaskChannel, Observation, ReplacementChannel
    from conservator.decoders import (
        Decoded,
        Reading,
        decode_iteratively,
        decode_one_step,
        decode_posterior,
        decode_with_channel,
    )
    from conservator.documents.restored import Restoration
    from conservator.errors import ConservatorError
    from conservator.experts import BigramExpert, ByteExpert, CategoricalExpert, Expert, ExpertSpec, load_experts
    from conservator.field import EnumeratedEvidence, FactorisedEvidence, infer_field, log_pool
    from conservator.field.composition import Composition
    from conservator.field.folds import Schedule
    from conservator.field.infer import (
        Inferred,
        infer_by_ascent,
        infer_globally,
        infer_maximum,
        infer_with_bayes,
    )
    from conservator.field.particles import ParticleSettings, infer_particles
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
    "Composition": "field.composition",
    "Schedule": "field.folds",
    "Inferred": "field.infer",
    "infer_by_ascent": "field.infer",
    "infer_globally": "field.infer",
    "infer_maximum": "field.infer",
    "infer_with_bayes": "field.infer",
    "ParticleSettings": "field.particles",
    "infer_particles": "field.particles",
    "GroupTotalVariation": "field.smoothing",
    "MovingAverage": "field.smoothing",
    "NoSmoothing": "field.smoothing",
    "PerColumn": "field.smoothing",
    "TotalVariation": "field.smoothing",
    "Decoded": "decoders",
    "Reading": "decoders",
    "decode_iteratively": "decoders",
    "decode_one_step": "decoders",
    "decode_posterior": "decoders",
    "decode_with_channel": "decoders",
    "ConservatorError": "errors",
    "Restoration": "documents.restored",
    "restore": "restoration",
}
__all__ = [
    "BigramExpert",
    "ByteExpert",
    "CategoricalExpert",
    "Channel",
    "Composition",
    "ConfusionChannel",
    "ConservatorError",
    "Decoded",
    "EnumeratedEvidence",
    "Expert",
    "ExpertSpec",
    "FactorisedEvidence",
    "GroupTotalVariation",
    "Inferred",
    "MaskChannel",
    "MovingAverage",
    "NoSmoothing",
    "Observation",
    "ParticleSettings",
    "PerColumn",
    "Reading",
    "ReplacementChannel",
    "Restoration",
    "Schedule",
    "TotalVariation",
    "__version__",
    "decode_iteratively",
    "decode_one_step",
    "decode_posterior",
    "decode_with_channel",
    "infer_by_ascent",
    "infer_field",
    "infer_globally",
    "infer_maximum",
    "infer_particles",
    "infer_with_bayes",
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
