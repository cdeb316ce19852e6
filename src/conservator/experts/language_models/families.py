"""The families of language models that are known: what each needs beyond a plain transformer."""

from dataclasses import dataclass
from typing import Any

from conservator.errors import ConservatorError


@dataclass(frozen=True)
class Family:
    """What the models of one family need.

    Attributes:
        starts: tokens that stand before every text; a model has been trained with the first of them that it has.
        masks_by_layer: whether the layers of the network take masks by their type.
    """

    starts: tuple[str, ...]
    masks_by_layer: bool = False


FAMILIES = {  # by the model_type in config.json
    "gemma3_text": Family(("<bos>",), masks_by_layer=True),
    "gpt2": Family(("<|endoftext|>",)),
    "llama": Family(("<|begin_of_text|>", "<s>", "<|endoftext|>")),
    "qwen2": Family(("<|endoftext|>",), masks_by_layer=True),
}
# Settings that change what a network computes, and are not read here: only these values are accepted.
PLAIN = {
    "add_cross_attention": (False,),
    "attn_logit_softcapping": (None,),
    "final_logit_softcapping": (None,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "use_bidirectional_attention": (False, None),
}


def family_of(config: Any) -> Family:
    """The family of a model, by its config; raise a ConservatorError if it is not known or not plain."""
    kind = getattr(config, "model_type", None)
    if kind not in FAMILIES:
        raise ConservatorError(f"a model of type {kind!r} is not known; known: {', '.join(FAMILIES)}")
    for setting, accepted in PLAIN.items():
        value = getattr(config, setting, accepted[0])
        if value not in accepted:
            raise ConservatorError(f"{setting} is {value!r} in config.json; accepted: {accepted[0]!r}")
    return FAMILIES[kind]
