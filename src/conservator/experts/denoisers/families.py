"""The supported families of pretrained masked models: their inputs, and how their logits are interpreted."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from conservator.errors import ConservatorError
from conservator.experts.source import MaskSource, Source, UniformSource

FLOW = "conservator_flow"  # model_type of our flow-matching transformer, whose config states all of this
LAST_ROW = "the last row"  # of the embedding: the mask of models whose tokenizer has none


@dataclass(frozen=True)
class Family:
    """Inputs and outputs of the models of one family.

    No family needs padding: only rows of equal length share a batch.

    Attributes:
        loader: the class of transformers that loads the network.
        mask: the mask token, or LAST_ROW; "" for a uniform source, which has none.
        start: the token before every text; "" for none.
        end: the token after every text; "" for none.
        shift: number of positions between the logits of a token and the token itself.
        source: the noise from which its path to the data starts.
        time: the input ``timesteps``: ``none``, ``zeros``, or ``sigma`` = -log kappa.
        length_key: the key of config.json with the number of positions.
        trained_length: number of positions used in training, if that is less; None otherwise.
        after_pad: whether positions are counted from the id of the padding token on.
        tokenizer: the class of transformers that loads the tokenizer without a tokenizer.json; "" for none.
        remote: whether the network is code in the folder, which runs only with ``trust_remote_code``.
    """

    loader: str = "AutoModelForMaskedLM"
    mask: str = ""
    start: str = ""
    end: str = ""
    shift: Literal[0, 1] = 0
    source: Source = field(default_factory=MaskSource)
    time: Literal["none", "zeros", "sigma"] = "none"
    length_key: str = "max_position_embeddings"
    trained_length: int | None = None
    after_pad: bool = False
    tokenizer: str = ""
    remote: bool = False


BERT = Family(mask="[MASK]", start="[CLS]", end="[SEP]", tokenizer="BertTokenizer")
END = "<|endoftext|>"  # the start and end token of GPT-2
DIFFUSION = Family(start=END, end=END, length_key="model_length", tokenizer="GPT2Tokenizer", remote=True)
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
        trained_length=2048,
        tokenizer="Qwen2Tokenizer",
        remote=True,
    ),
    "llada": Family(
        "AutoModel", mask="<|mdm_mask|>", length_key="max_sequence_length", trained_length=4096, remote=True
    ),
    "mdlm": replace(DIFFUSION, mask=LAST_ROW, time="zeros"),
    "duo": replace(DIFFUSION, source=UniformSource(), time="sigma"),
}
# Settings that change the computation of a network, with the supported values.
SUPPORTED_SETTINGS = {
    "add_cross_attention": (False,),
    "causal": (False,),
    "causal_attention": (False,),
    "is_decoder": (False,),
    "position_embedding_type": ("absolute", None),
    "time_conditioning": (False,),
}


def family_of(model_type: Any) -> Family:
    """Return the family of a model by its model_type; raise a ConservatorError if it is not supported."""
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        supported = ", ".join([*FAMILIES, FLOW])
        raise ConservatorError(
            f"model_type {model_type!r} is not a supported masked model; supported: {supported}. A causal language "
            "model is given by --language-model (language=)"
        )
    return FAMILIES[model_type]


def check_settings(config: Any) -> None:
    """Raise a ConservatorError for settings that change the computation of a network."""
    for setting, supported in SUPPORTED_SETTINGS.items():
        value = getattr(config, setting, supported[0])
        if value not in supported:
            raise ConservatorError(f"{setting} in config.json must be {supported[0]!r}, got {value!r}")


def max_positions_of(family: Family, config: Any) -> int:
    """Return the maximum number of positions of a network, including start and end tokens."""
    positions = getattr(config, family.length_key, None)
    if type(positions) is not int:
        raise ConservatorError(f"{family.length_key} in config.json must be a number of positions, got {positions!r}")
    if family.after_pad:
        positions -= config.pad_token_id + 1
    return positions if family.trained_length is None else min(positions, family.trained_length)
