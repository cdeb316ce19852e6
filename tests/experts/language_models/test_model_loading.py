"""Language models by name, folder, file and repository; what cannot be loaded is said."""

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


def test_where_models_are_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("CONSERVATOR_HOME", str(tmp_path))
    assert model_folder("small") == tmp_path / "models" / "small"
    monkeypatch.delenv("CONSERVATOR_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert model_folder("small") == tmp_path / "cache" / "conservator" / "models" / "small"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert model_folder("small") == tmp_path / ".cache" / "conservator" / "models" / "small"
    for name in ("", "../small", ".small", "hf:small"):
        with pytest.raises(ConservatorError, match="no name of a model"):
            model_folder(name)


def test_an_added_model_is_listed_and_loaded_by_name(home):
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


def test_halves_are_loaded_in_every_precision(tmp_path):
    network = save_tiny(tmp_path)
    network.half().save_pretrained(tmp_path)
    for precision in ("float32", "bfloat16"):
        law = load_language_model(tmp_path, precision).read().extend([0], [260], [1])
        torch.testing.assert_close(law.exp().sum(-1), torch.ones(1))


def test_a_repository_is_found_in_the_cache_of_the_hub_alone(tmp_path, monkeypatch):
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
    with pytest.raises(ConservatorError, match="hf download someone/else fetches it"):
        load_language_model("hf:someone/else")


def test_names_that_are_not_known(home, tmp_path):
    with pytest.raises(ConservatorError, match="conservator experts add smollm2 fetches it"):
        load_language_model("smollm2")
    with pytest.raises(ConservatorError, match="no language model 'nobody'"):
        load_language_model("nobody")
    with pytest.raises(ConservatorError, match="no language model in"):
        load_language_model(tmp_path)
    with pytest.raises(ConservatorError, match=r"no language model 'x{80}\.\.\.': neither added"):
        load_language_model("x" * 300)
    with pytest.raises(ConservatorError, match=r"no model 'hf:x+\.\.\.'"):
        load_denoiser("hf:" + "x" * 300)
    with pytest.raises(ConservatorError, match=r"no expert 'x+\.\.\.'"):
        load_experts("x" * 300)


def test_pickled_weights_are_not_read(tmp_path):
    network = save_tiny(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(network.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(ConservatorError, match=r"needs config.json, tokenizer.json and \*.safetensors"):
        load_language_model(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "mamba"}, "type 'mamba' is not known; known: gemma3_text, gpt2, llama, qwen2"),
        ({"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config"}}, "cannot load|not known"),
        ({"use_bidirectional_attention": True}, "use_bidirectional_attention is True"),
    ],
)
def test_a_network_that_is_not_known_is_refused(tmp_path, changes, message):
    save_tiny(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(ConservatorError, match=message):
        load_language_model(tmp_path)


def test_broken_weights_are_refused(tmp_path):
    save_tiny(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ConservatorError, match="cannot load the language model"):
        load_language_model(tmp_path)


def test_a_tokenizer_without_a_start_is_refused(tmp_path):
    save_tiny(tmp_path, tokenizer=byte_level("<|begin|>"))
    with pytest.raises(ConservatorError, match="no token to begin a text with"):
        load_language_model(tmp_path)


def change_weights(folder, change):
    """Write what ``change`` makes of the weights of a model."""
    weights = load_file(folder / "model.safetensors")
    save_file(change(weights), folder / "model.safetensors", {"format": "pt"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda weights: {name: one for name, one in weights.items() if "layers.1" not in name},
            r"lack 9 tensors \(model.layers.1.input_layernorm.weight, .*\); copy all \*.safetensors files",
        ),
        (
            lambda weights: {name: one for name, one in weights.items() if "embed_tokens" not in name},
            r"lack .*model.embed_tokens.weight",
        ),
        (
            lambda weights: weights | {"model.layers.7.mlp.up_proj.weight": torch.zeros(2, 2)},
            r"have 1 tensors that the network has not \(model.layers.7.mlp.up_proj.weight\)",
        ),
        (
            lambda weights: weights | {"model.norm.weight": torch.zeros(5)},
            r"1 tensors have shapes that the network has not \(model.norm.weight: \[5\] instead of",
        ),
    ],
)
def test_weights_of_another_network_are_refused(tmp_path, change, message):
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
def test_the_precision_depends_on_the_processor_alone(monkeypatch, tmp_path, instructions, expected):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: instructions)
    with mock.patch("time.perf_counter", side_effect=AssertionError("it was measured")):
        assert choose_precision() == expected
    save_tiny(tmp_path)
    assert load_language_model(tmp_path).spec.precision == expected
