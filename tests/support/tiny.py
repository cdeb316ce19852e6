"""Tiny random language models of each family, saved in the layout of the hub."""

import json

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

SENTENCES = [
    "the quick brown fox jumps over the lazy dog",
    "def add(a, b):\n    return a + b\n",
    "naïve café 12 345",
] * 4
STARTS = {"llama": "<|endoftext|>", "gpt2": "<|endoftext|>", "qwen2": "<|endoftext|>", "gemma3_text": "<bos>"}
WINDOW = 4  # tokens: window of the sliding-attention layers of Gemma 3


def byte_level(start, **changes):
    """A byte-level tokenizer as in GPT-2."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=[start], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return json.loads(tokenizer.to_str()) | changes


def sentence_pieces(start, **changes):
    """A SentencePiece tokenizer with byte fallback, as in Gemma and LLaMA 2."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=340, special_tokens=["<unk>", start, *byte_tokens], show_progress=False)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    config = json.loads(tokenizer.to_str())
    config["added_tokens"] = [token for token in config["added_tokens"] if token["content"] not in byte_tokens]
    return config | changes


def word_pieces(lowercase=False, **changes):
    """A WordPiece tokenizer, as in BERT."""
    special_tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=160, special_tokens=special_tokens, initial_alphabet=[",", "."], show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return json.loads(tokenizer.to_str()) | changes


def network(family, size):
    """A network of a family with random weights, large enough that its predictions differ."""
    torch.manual_seed(0)
    common = {"vocab_size": size, "tie_word_embeddings": family != "qwen2"}
    shape = {
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "initializer_range": 0.5,
    }
    if family == "llama":
        return LlamaForCausalLM(LlamaConfig(**common, **shape)).eval()
    if family == "qwen2":
        return Qwen2ForCausalLM(Qwen2Config(**common, **shape)).eval()
    if family == "gemma3_text":
        layer_types = ["sliding_attention", "full_attention", "sliding_attention"]
        config = Gemma3TextConfig(
            **common, **shape, head_dim=8, layer_types=layer_types, sliding_window=WINDOW, query_pre_attn_scalar=8
        )
        return Gemma3ForCausalLM(config).eval()
    config = GPT2Config(**common, n_embd=16, n_layer=3, n_head=4, n_positions=64, initializer_range=0.5)
    return GPT2LMHeadModel(config).eval()


def save_tiny(folder, family="llama", tokenizer=None):
    """Save a tiny model of a family; return its network, which computes as transformers does."""
    start = STARTS[family]
    if tokenizer is None:
        tokenizer = sentence_pieces(start) if family == "gemma3_text" else byte_level(start)
    model = network(family, len(tokenizer["model"]["vocab"]) + 3)  # some rows without a token
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    return model
