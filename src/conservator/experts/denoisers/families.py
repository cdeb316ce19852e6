"""The families of pretrained two-sided models that are known: what each reads, and how its logits are to be read."""

from dataclasses import dataclass, field
from typing import Any, Literal

from conservator.errors import ConservatorError
from conservator.experts.source import MaskSource, Source, UniformSource

FLOW = "conservator_flow"  # the type of our own flow-matching transformer, whose config states all of this itself
LAST = "the last row"  # of the embedding: the mask of models whose tokenizer has none


@dataclass(frozen=True)
class Family:
    """What the models of one family need.

    Nothing is padded for any of them: rows of one length are read together.

    Attributes:
        loader: the class of transformers that loads it.
        mask: the token that stands for a hidden one, or LAST; "" for a uniform source, which has none.
        start: the token that stands before every text; "" for none.
        end: the token that stands after every text; "" for none.
        shift: how many positions before a token its logits stand.
        source: the noise from which its path to the data starts.
        time: ``none``, or what the network takes as ``timesteps``: ``zeros``, or ``sigma`` = -log kappa.
        length: the setting with the number of positions that it has.
        longest: the number of positions with which it was trained, where that is less; None if it is not.
        after_pad: whether its positions are counted from the number of its padding token on.
        tokenizer: the class of transformers that reads its tokenizer where there is no tokenizer.json; "" for none.
        remote: whether the network is code in the folder, which is run only if that is allowed.
    """

    loader: str = "AutoModelForMaskedLM"
    mask: str = ""
    start: str = ""
    end: str = ""
    shift: Literal[0, 1] = 0
    source: Source = field(default_factory=MaskSource)
    time: Literal["none", "zeros", "sigma"] = "none"
    length: str = "max_position_embeddings"
    longest: int | None = None
    after_pad: bool = False
    tokenizer: str = ""
    remote: bool = False


BERT = Family(mask="[MASK]", start="[CLS]", end="[SEP]", tokenizer="BertTokenizer")
END = "<|endoftext|>"  # which GPT-2 has for the start and the end
FAMILIES = {  # by the model_type in config.json
    "bert": BERT,
    "distilbert": BERT,
    "modernbert": Family(mask="[MASK]", start="[CLS]", end="[SEP]"),
    "roberta": Family(mask="<mask>", start="<s>", end="</s>", after_pad=True, tokenizer="RobertaTokenizer"),
    "Dream": Family(
        "AutoModel",
        mask="<|mask|>",
        start="<|beginoftext|>",
        shift=1,
        longest=2048,
        tokenizer="Qwen2Tokenizer",
        remote=True,
    ),
    "llada": Family("AutoModel", mask="<|mdm_mask|>", length="max_sequence_length", longest=4096, remote=True),
    "mdlm": Family(
        mask=LAST, start=END, end=END, time="zeros", length="model_length", tokenizer="GPT2Tokenizer", remote=True
    ),
    "duo": Family(
        start=END,
        end=END,
        source=UniformSource(),
        time="sigma",
        length="model_length",
        tokenizer="GPT2Tokenizer",
        remote=True,
    ),
}
# Settings that change what a network computes, and are not read here: only these values are accepted.
PLAIN = {
    "add_cross_attention": (False,),
    "causal": (False,),
    "causal_attention": (False,),
    "is_decoder": (False,),
    "position_embedding_type": ("absolute", None),
    "time_conditioning": (False,),
}


def family_of(kind: Any) -> Family:
    """The family of a model by its model_type; raise a ConservatorError if it is not known."""
    if not isinstance(kind, str) or kind not in FAMILIES:
        known = ", ".join([*FAMILIES, FLOW])
        raise ConservatorError(
            f"a model of type {kind!r} is not known as one that reads both sides; known: {known}. One that writes from "
            "left to right is named by --language-model (language=)"
        )
    return FAMILIES[kind]


def check_plain(config: Any) -> None:
    """Raise a ConservatorError if a setting makes a network compute something else than its family says."""
    for setting, accepted in PLAIN.items():
        value = getattr(config, setting, accepted[0])
        if value not in accepted:
            raise ConservatorError(f"{setting} is {value!r} in config.json; accepted: {accepted[0]!r}")


def longest_of(family: Family, config: Any) -> int:
    """How many positions a network reads at once, start and end among them."""
    found = getattr(config, family.length, None)
    if type(found) is not int:
        raise ConservatorError(f"{family.length} is {found!r} in config.json; accepted: a number of positions")
    if family.after_pad:
        found -= config.pad_token_id + 1
    return found if family.longest is None else min(found, family.longest)
