"""Supported families of language models, and their differences from a plain transformer."""

from dataclasses import dataclass
from typing import Any

from conservator.errors import ConservatorError


@dataclass(frozen=True)
class Family:
    """Properties of the models of one family.

    Attributes:
        starts: candidates for the start token of a text; a model uses the first one in its vocabulary.
        masks_by_layer: whether the network takes a dictionary of masks by layer type.
    """

    starts: tuple[str, ...]
    masks_by_layer: bool = False


FAMILIES = {  # model_type in config.json -> family
    "gemma3_text": Family(("<bos>",), masks_by_layer=True),
    "gpt2": Family(("<|endoftext|>",)),
    "llama": Family(("<|begin_of_text|>", "<s>", "<|endoftext|>")),
    "qwen2": Family(("<|endoftext|>",), masks_by_layer=True),
}
# Settings that change the computation and are not implemented: only these values are accepted.
ACCEPTED_VALUES = {
    "add_cross_attention": (False,),
    "attn_logit_softcapping": (None,),
    "final_logit_softcapping": (None,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "use_bidirectional_attention": (False, None),
}


def family_of(config: Any) -> Family:
    """Return the family of a model; raise a ConservatorError if its type or its settings are not supported."""
    model_type = getattr(config, "model_type", None)
    if model_type not in FAMILIES:
        raise ConservatorError(f"model type {model_type!r} is not supported; supported: {', '.join(FAMILIES)}")
    for setting, accepted in ACCEPTED_VALUES.items():
        value = getattr(config, setting, accepted[0])
        if value not in accepted:
            raise ConservatorError(f"{setting} is {value!r} in config.json; accepted: {accepted[0]!r}")
    return FAMILIES[model_type]
