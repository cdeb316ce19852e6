"""Tiny masked models of each family, saved in the layout of the hub: random ones, and ones that memorized a text.

The inputs of each family are specified here again, independently of the code under test.
"""

import json
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DistilBertConfig,
    DistilBertForMaskedLM,
    ModernBertConfig,
    ModernBertForMaskedLM,
    RobertaConfig,
    RobertaForMaskedLM,
)

from conservator.experts.denoisers import load_denoiser
from conservator.vocabularies.hf_tokenizer import make_tokens
from support.tiny import byte_level, word_pieces

STANDINS = Path(__file__).parent / "standins"
TEXT = "the quick brown fox jumps over the lazy dog"
POSITIONS = 32


@dataclass(frozen=True)
class FamilyInputs:
    """The inputs of a family: tokens around a text, mask, and distance between the logits of a token and the token."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    mask: str | None = None
    shift: int = 0
    time: str | None = None
    code: str = ""  # class of the network, if it is code in the folder
    loader: str = "AutoModelForMaskedLM"


BERT = FamilyInputs(("[CLS]",), ("[SEP]",), "[MASK]")
END = ("<|endoftext|>",)
KINDS = {
    "bert": BERT,
    "distilbert": BERT,
    "modernbert": BERT,
    "roberta": FamilyInputs(("<s>",), ("</s>",), "<mask>"),
    "Dream": FamilyInputs(("<|beginoftext|>",), (), "<|mask|>", 1, code="DreamModel", loader="AutoModel"),
    "llada": FamilyInputs((), (), "<|mdm_mask|>", code="LLaDAModelLM", loader="AutoModel"),
    "mdlm": FamilyInputs(END, END, None, time="zeros", code="MDLM"),
    "duo": FamilyInputs(END, END, None, time="sigma", code="DUO"),
}


def with_special_tokens(config, *names):
    """Add special tokens to a tokenizer."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    vocab = config["model"]["vocab"]
    first = max([*vocab.values(), *(token["id"] for token in config["added_tokens"])]) + 1
    config["added_tokens"] += [{"id": first + n, "content": name, **flags} for n, name in enumerate(names)]
    return config


@cache
def tokenizer_json(kind):
    """The tokenizer of a family, as JSON."""
    if kind in ("bert", "distilbert"):
        config = word_pieces(lowercase=kind == "bert")
    elif kind == "modernbert":
        config = with_special_tokens(byte_level("<|padding|>"), "[CLS]", "[SEP]", "[MASK]")
    elif kind == "roberta":
        config = with_special_tokens(byte_level("<s>"), "<pad>", "</s>", "<mask>")
    elif kind == "Dream":
        config = with_special_tokens(byte_level("<|endoftext|>"), "<|beginoftext|>", "<|mask|>")
    elif kind == "llada":
        config = with_special_tokens(byte_level("<|endoftext|>"), "<|mdm_mask|>")
    else:
        config = byte_level("<|endoftext|>")
    return json.dumps(config)


def token_ids(kind):
    """The id of each token by its name."""
    config = json.loads(tokenizer_json(kind))
    return config["model"]["vocab"] | {token["content"]: token["id"] for token in config["added_tokens"]}


def size_of(kind):
    """V: more rows than the tokenizer has tokens; the last is the mask of models whose tokenizer has none."""
    return max(token_ids(kind).values()) + 4


def mask_of(kind):
    """The token id of the mask; None for a uniform source."""
    if kind == "mdlm":
        return size_of(kind) - 1
    return token_ids(kind)[KINDS[kind].mask] if KINDS[kind].mask else None


def network(kind, width=16, spread=0.5):
    """A network of a family with random weights, large enough that its predictions differ."""
    torch.manual_seed(0)
    size = size_of(kind)
    shape = {
        "vocab_size": size,
        "hidden_size": width,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": POSITIONS,
        "initializer_range": spread,
    }
    if kind == "bert":
        model = BertForMaskedLM(BertConfig(**shape))
    elif kind == "roberta":
        pad = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "type_vocab_size": 1}
        model = RobertaForMaskedLM(RobertaConfig(**shape, **pad))
    elif kind == "modernbert":
        ends = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 0)
        model = ModernBertForMaskedLM(
            ModernBertConfig(**shape, **ends, initializer_cutoff_factor=1.0, local_attention=8)
        )
    elif kind == "distilbert":
        small = {"dim": width, "hidden_dim": 24, "n_layers": 2, "n_heads": 2, "initializer_range": spread}
        model = DistilBertForMaskedLM(DistilBertConfig(vocab_size=size, max_position_embeddings=POSITIONS, **small))
    else:
        module = import_module(f"support.standins.modeling_{kind.lower()}")
        model = getattr(module, KINDS[kind].code)(config_of(module, kind, width))
        with torch.no_grad():
            for weight in model.parameters():
                weight.copy_(torch.randn(weight.shape) * (spread if weight.ndim == 2 else 2 * spread))
    return model.eval()


def config_of(module, kind, width):
    size = size_of(kind)
    if kind == "Dream":
        return module.DreamConfig(size, width, POSITIONS)
    if kind == "llada":
        return module.LLaDAConfig(size, width, POSITIONS)
    return getattr(module, f"{kind.upper()}Config")(size, POSITIONS, width)


def save(kind, model, folder):
    """Save a network and its tokenizer in the layout of the hub, with code and older tokenizer files if it has them."""
    spec, tokenizer = KINDS[kind], json.loads(tokenizer_json(kind))
    if not spec.code:
        model.save_pretrained(folder)
    else:
        module = f"modeling_{kind.lower()}"
        for name in (f"{module}.py", "body.py"):
            shutil.copyfile(STANDINS / name, folder / name)
        settings = model.config.to_dict() | {"model_type": kind}
        prefix = type(model.config).__name__
        settings["auto_map"] = {"AutoConfig": f"{module}.{prefix}", spec.loader: f"{module}.{spec.code}"}
        (folder / "config.json").write_text(json.dumps(settings))
        save_file(model.state_dict(), folder / "model.safetensors", metadata={"format": "pt"})
    if kind == "Dream":
        (folder / "vocab.json").write_text(json.dumps(tokenizer["model"]["vocab"]))
        pairs = [pair if isinstance(pair, str) else " ".join(pair) for pair in tokenizer["model"]["merges"]]
        (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(pairs) + "\n", encoding="utf-8")
        added = {str(token.pop("id")): token for token in tokenizer["added_tokens"]}
        settings = {"added_tokens_decoder": added, "tokenizer_class": "DreamTokenizer"}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    else:
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")


def load(kind, model, folder):
    """Save a network and load it as an expert."""
    save(kind, model, folder)
    return load_denoiser(f"hf:{folder}", precision="float32", trust_remote_code=bool(KINDS[kind].code))


@cache
def random_denoiser(kind):
    """An expert of a family with random weights."""
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / f"{kind}-random"
        folder.mkdir()
        return load(kind, network(kind), folder)


def around(kind, rows):
    """Rows (B, L) with the start and end tokens of the family."""
    spec, ids = KINDS[kind], token_ids(kind)
    ends = [torch.tensor([ids[name] for name in part]).long() for part in (spec.before, spec.after)]
    return torch.cat([ends[0].expand(len(rows), -1), rows, ends[1].expand(len(rows), -1)], dim=1)


@cache
def memorized_network(kind, steps=100):
    """A network that was trained on one text as its family is, and the tokens of the text (L,)."""
    model = network(kind, width=32, spread=0.1)
    text = torch.tensor(make_tokens(json.loads(tokenizer_json(kind)), size_of(kind)).tokenize(TEXT))
    generator = torch.Generator().manual_seed(0)
    spec, mask, first = KINDS[kind], mask_of(kind), len(KINDS[kind].before)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        rows, kappa = text.repeat(32, 1), torch.rand(32, 1, generator=generator)
        noise = torch.rand(rows.shape, generator=generator) >= kappa
        other = torch.randint(size_of(kind), rows.shape, generator=generator) if mask is None else mask
        inputs = {"input_ids": around(kind, torch.where(noise, other, rows))}
        if spec.time:
            inputs["timesteps"] = -kappa[:, 0].clamp_min(1e-3).log() if spec.time == "sigma" else torch.zeros(32)
        logits = model(**inputs, return_dict=True).logits[:, first - spec.shift :][:, : len(text)]
        scored = noise | (mask is None)
        loss = torch.nn.functional.cross_entropy(logits[scored], rows[scored])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval(), text
