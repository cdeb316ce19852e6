"""Language models by name, folder, file and repository; errors of loading."""

import json
from unittest import mock

import pytest
import torch
from safetensors.torch import load_file, save_file

from conservator import ConservatorError
from conservator.experts import load_experts
from conservator.experts.denoisers import load_denoiser
from conservator.experts.language_models import added_models, load_language_model, model_folder
from conservator.experts.language_models.precision import choose_precision
from support.tiny import byte_level, save_tiny


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("CONSERVATOR_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_the_folder_of_models(monkeypatch, tmp_path):
    monkeypatch.setenv("CONSERVATOR_HOME", str(tmp_path))
    assert model_folder("small") == tmp_path / "models" / "small"
    monkeypatch.delenv("CONSERVATOR_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert model_folder("small") == tmp_path / "cache" / "conservator" / "models" / "small"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert model_folder("small") == tmp_path / ".cache" / "conservator" / "models" / "small"
    for name in ("", "../small", ".small", "hf:small"):
        with pytest.raises(ConservatorError, match="invalid model name"):
            model_folder(name)


def test_an_installed_model_is_listed_and_loaded_by_name(home):
    assert added_models() == []
    folder = model_folder("small")
    folder.mkdir(parents=True)
    save_tiny(folder)
    (home / "models" / "broken").mkdir()
    (listed,) = added_models()
    assert (listed.name, listed.kind, listed.licence) == ("small", "llama", "")
    assert listed.bytes == (folder / "model.safetensors").stat().st_size
    model = load_language_model("small")
    assert model.spec.name == "small"
    assert len(model.spec.fingerprint) == 64
    assert load_language_model("small") is model
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 0.1}))
    assert load_language_model("small") is not model


def test_float16_weights_are_loaded_in_every_precision(tmp_path):
    network = save_tiny(tmp_path)
    network.half().save_pretrained(tmp_path)
    for precision in ("float32", "bfloat16"):
        log_probs = load_language_model(tmp_path, precision).read().extend([0], [260], [1])
        torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(1))


def test_a_repository_is_loaded_from_the_hugging_face_cache_only(tmp_path, monkeypatch):
    from huggingface_hub import constants

    cache = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    repository = cache / "models--someone--small"
    folder = repository / "snapshots" / ("0" * 40)
    folder.mkdir(parents=True)
    save_tiny(folder)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    assert load_language_model("hf:someone/small", "float32").spec.max_length == 63
    with pytest.raises(ConservatorError, match="run: hf download someone/else"):
        load_language_model("hf:someone/else")


def test_unknown_names_are_rejected(home, tmp_path):
    with pytest.raises(ConservatorError, match="run: conservator experts add smollm2"):
        load_language_model("smollm2")
    with pytest.raises(ConservatorError, match="unknown language model 'nobody'"):
        load_language_model("nobody")
    with pytest.raises(ConservatorError, match="is not a language model"):
        load_language_model(tmp_path)
    with pytest.raises(ConservatorError, match=r"unknown language model 'x{80}\.\.\.'; expected the name"):
        load_language_model("x" * 300)
    with pytest.raises(ConservatorError, match=r"no model 'hf:x+\.\.\.'"):
        load_denoiser("hf:" + "x" * 300)
    with pytest.raises(ConservatorError, match=r"no expert 'x+\.\.\.'"):
        load_experts("x" * 300)


def test_pickled_weights_are_not_read(tmp_path):
    network = save_tiny(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(network.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(ConservatorError, match=r"must contain config.json, tokenizer.json and \*.safetensors"):
        load_language_model(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "mamba"}, "type 'mamba' is not supported; supported: gemma3_text, gpt2, llama, qwen2"),
        ({"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config"}}, "cannot load|not supported"),
        ({"use_bidirectional_attention": True}, "use_bidirectional_attention is True"),
    ],
)
def test_an_unsupported_network_is_rejected(tmp_path, changes, message):
    save_tiny(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(ConservatorError, match=message):
        load_language_model(tmp_path)


def test_invalid_weights_are_rejected(tmp_path):
    save_tiny(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ConservatorError, match="cannot load the language model"):
        load_language_model(tmp_path)


def test_a_tokenizer_without_a_start_token_is_rejected(tmp_path):
    save_tiny(tmp_path, tokenizer=byte_level("<|begin|>"))
    with pytest.raises(ConservatorError, match="has no start token"):
        load_language_model(tmp_path)


def change_weights(folder, change):
    """Replace the weights of a model by ``change(weights)``."""
    weights = load_file(folder / "model.safetensors")
    save_file(change(weights), folder / "model.safetensors", {"format": "pt"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda weights: {name: tensor for name, tensor in weights.items() if "layers.1" not in name},
            r"lack 9 tensors \(model.layers.1.input_layernorm.weight, .*\); copy all \*.safetensors files",
        ),
        (
            lambda weights: {name: tensor for name, tensor in weights.items() if "embed_tokens" not in name},
            r"lack .*model.embed_tokens.weight",
        ),
        (
            lambda weights: weights | {"model.layers.7.mlp.up_proj.weight": torch.zeros(2, 2)},
            r"have 1 unexpected tensors \(model.layers.7.mlp.up_proj.weight\)",
        ),
        (
            lambda weights: weights | {"model.norm.weight": torch.zeros(5)},
            r"1 tensors of the weights have unexpected shapes \(model.norm.weight: expected \[16\], got \[5\]",
        ),
    ],
)
def test_weights_of_another_network_are_rejected(tmp_path, change, message):
    save_tiny(tmp_path)
    change_weights(tmp_path, change)
    with pytest.raises(ConservatorError, match=message):
        load_language_model(tmp_path)


@pytest.mark.parametrize("stored", [True, False])
def test_tied_weights_may_be_stored_or_not(tmp_path, stored):
    network = save_tiny(tmp_path)
    assert network.config.tie_word_embeddings
    head = {"lm_head.weight": network.get_input_embeddings().weight.detach().clone()} if stored else {}
    change_weights(tmp_path, lambda weights: weights | head)
    assert load_language_model(tmp_path, "float32").spec.name == tmp_path.name


def test_a_head_that_is_not_tied_must_be_stored(tmp_path):
    save_tiny(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": False}))
    with pytest.raises(ConservatorError, match=r"lack 1 tensors \(lm_head.weight\)"):
        load_language_model(tmp_path)


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        ({}, "float32"),
        ({"avx512_f": True, "avx512_bf16": False}, "float32"),
        ({"avx512_bf16": True}, "bfloat16"),
        ({"amx_bf16": True}, "bfloat16"),
        ({"bf16": True}, "bfloat16"),
    ],
)
def test_the_precision_depends_on_the_processor_only(monkeypatch, tmp_path, instructions, expected):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: instructions)
    with mock.patch("time.perf_counter", side_effect=AssertionError("it was measured")):
        assert choose_precision() == expected
    save_tiny(tmp_path)
    assert load_language_model(tmp_path).spec.precision == expected
