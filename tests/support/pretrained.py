"""Tiny two-sided models of each family, saved as the hub saves them: random ones, and ones that know a text by heart.

What each family reads is written down here once more, beside the code that is tested by it.
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
class Kind:
    """What a model reads: its own tokens around a text, its mask, and how far before a token its logits stand."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    mask: str | None = None
    shift: int = 0
    time: str | None = None
    code: str = ""  # class of the network that is code in the folder
    loader: str = "AutoModelForMaskedLM"


BERT = Kind(("[CLS]",), ("[SEP]",), "[MASK]")
END = ("<|endoftext|>",)
KINDS = {
    "bert": BERT,
    "distilbert": BERT,
    "modernbert": BERT,
    "roberta": Kind(("<s>",), ("</s>",), "<mask>"),
    "Dream": Kind(("<|beginoftext|>",), (), "<|mask|>", 1, code="DreamModel", loader="AutoModel"),
    "llada": Kind((), (), "<|mdm_mask|>", code="LLaDAModelLM", loader="AutoModel"),
    "mdlm": Kind(END, END, None, time="zeros", code="MDLM"),
    "duo": Kind(END, END, None, time="sigma", code="DUO"),
}


def with_specials(described, *names):
    """A tokenizer with special tokens more."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    known = described["model"]["vocab"]
    first = max([*known.values(), *(one["id"] for one in described["added_tokens"])]) + 1
    described["added_tokens"] += [{"id": first + n, "content": name, **flags} for n, name in enumerate(names)]
    return described


@cache
def described(kind):
    """The tokenizer of a family, as text."""
    if kind in ("bert", "distilbert"):
        found = word_pieces(lowercase=kind == "bert")
    elif kind == "modernbert":
        found = with_specials(byte_level("<|padding|>"), "[CLS]", "[SEP]", "[MASK]")
    elif kind == "roberta":
        found = with_specials(byte_level("<s>"), "<pad>", "</s>", "<mask>")
    elif kind == "Dream":
        found = with_specials(byte_level("<|endoftext|>"), "<|beginoftext|>", "<|mask|>")
    elif kind == "llada":
        found = with_specials(byte_level("<|endoftext|>"), "<|mdm_mask|>")
    else:
        found = byte_level("<|endoftext|>")
    return json.dumps(found)


def numbers(kind):
    """The number of each token by its name."""
    found = json.loads(described(kind))
    return found["model"]["vocab"] | {one["content"]: one["id"] for one in found["added_tokens"]}


def size_of(kind):
    """V: some rows more than the tokenizer has tokens; the last is the mask of models whose tokenizer has none."""
    return max(numbers(kind).values()) + 4


def mask_of(kind):
    """The number of the network's mask; None for a uniform source."""
    if kind == "mdlm":
        return size_of(kind) - 1
    return numbers(kind)[KINDS[kind].mask] if KINDS[kind].mask else None


def network(kind, width=16, spread=0.5):
    """A network of a family with random weights, large enough that its laws differ."""
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
        made = BertForMaskedLM(BertConfig(**shape))
    elif kind == "roberta":
        pad = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "type_vocab_size": 1}
        made = RobertaForMaskedLM(RobertaConfig(**shape, **pad))
    elif kind == "modernbert":
        ends = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 0)
        made = ModernBertForMaskedLM(
            ModernBertConfig(**shape, **ends, initializer_cutoff_factor=1.0, local_attention=8)
        )
    elif kind == "distilbert":
        few = {"dim": width, "hidden_dim": 24, "n_layers": 2, "n_heads": 2, "initializer_range": spread}
        made = DistilBertForMaskedLM(DistilBertConfig(vocab_size=size, max_position_embeddings=POSITIONS, **few))
    else:
        module = import_module(f"support.standins.modeling_{kind.lower()}")
        made = getattr(module, KINDS[kind].code)(config_of(module, kind, width))
        with torch.no_grad():
            for weight in made.parameters():
                weight.copy_(torch.randn(weight.shape) * (spread if weight.ndim == 2 else 2 * spread))
    return made.eval()


def config_of(module, kind, width):
    size = size_of(kind)
    if kind == "Dream":
        return module.DreamConfig(size, width, POSITIONS)
    if kind == "llada":
        return module.LLaDAConfig(size, width, POSITIONS)
    return getattr(module, f"{kind.upper()}Config")(size, POSITIONS, width)


def save(kind, made, folder):
    """Save a network and its tokenizer as the hub has them: code and older tokenizer files, where there are any."""
    spec, found = KINDS[kind], json.loads(described(kind))
    if not spec.code:
        made.save_pretrained(folder)
    else:
        module = f"modeling_{kind.lower()}"
        for name in (f"{module}.py", "body.py"):
            shutil.copyfile(STANDINS / name, folder / name)
        settings = made.config.to_dict() | {"model_type": kind}
        prefix = type(made.config).__name__
        settings["auto_map"] = {"AutoConfig": f"{module}.{prefix}", spec.loader: f"{module}.{spec.code}"}
        (folder / "config.json").write_text(json.dumps(settings))
        save_file(made.state_dict(), folder / "model.safetensors", metadata={"format": "pt"})
    if kind == "Dream":
        (folder / "vocab.json").write_text(json.dumps(found["model"]["vocab"]))
        pairs = [pair if isinstance(pair, str) else " ".join(pair) for pair in found["model"]["merges"]]
        (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(pairs) + "\n", encoding="utf-8")
        added = {str(one.pop("id")): one for one in found["added_tokens"]}
        settings = {"added_tokens_decoder": added, "tokenizer_class": "DreamTokenizer"}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    else:
        (folder / "tokenizer.json").write_text(json.dumps(found), encoding="utf-8")


def load(kind, made, folder):
    """Save a network, and load it as an expert."""
    save(kind, made, folder)
    return load_denoiser(f"hf:{folder}", precision="float32", trust_remote_code=bool(KINDS[kind].code))


@cache
def random_denoiser(kind):
    """An expert of a family with random weights."""
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / f"{kind}-random"
        folder.mkdir()
        return load(kind, network(kind), folder)


def around(kind, rows):
    """Rows (B, L) with the family's own tokens around them."""
    spec, known = KINDS[kind], numbers(kind)
    ends = [torch.tensor([known[name] for name in part]).long() for part in (spec.before, spec.after)]
    return torch.cat([ends[0].expand(len(rows), -1), rows, ends[1].expand(len(rows), -1)], dim=1)


@cache
def by_heart(kind, steps=100):
    """A network that was trained, as its family is, on one text; and the tokens of the text (L,)."""
    made = network(kind, width=32, spread=0.1)
    text = torch.tensor(make_tokens(json.loads(described(kind)), size_of(kind)).tokenize(TEXT))
    drawn = torch.Generator().manual_seed(0)
    spec, mask, first = KINDS[kind], mask_of(kind), len(KINDS[kind].before)
    fast = torch.optim.Adam(made.parameters(), lr=1e-2)
    for _ in range(steps):
        rows, kappa = text.repeat(32, 1), torch.rand(32, 1, generator=drawn)
        noise = torch.rand(rows.shape, generator=drawn) >= kappa
        other = torch.randint(size_of(kind), rows.shape, generator=drawn) if mask is None else mask
        given = {"input_ids": around(kind, torch.where(noise, other, rows))}
        if spec.time:
            given["timesteps"] = -kappa[:, 0].clamp_min(1e-3).log() if spec.time == "sigma" else torch.zeros(32)
        logits = made(**given, return_dict=True).logits[:, first - spec.shift :][:, : len(text)]
        scored = noise | (mask is None)
        loss = torch.nn.functional.cross_entropy(logits[scored], rows[scored])
        fast.zero_grad()
        loss.backward()
        fast.step()
    return made.eval(), text
