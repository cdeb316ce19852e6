"""Masked models are loaded by folder and repository; errors state the reason and the fix."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from conservator import ConservatorError
from conservator.experts.denoisers import find_denoiser, load_denoiser, size_of
from conservator.experts.denoisers.families import FAMILIES, family_of
from support.pretrained import KINDS, network, save
from support.tables import table_of

TOKENS = torch.tensor([[20, 21, 22, 23]])


def test_every_family_has_a_test_model():
    assert set(FAMILIES) == set(KINDS)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "small"
    path.mkdir()
    save("bert", network("bert"), path)
    return path


def edit(folder, name="config.json", **changes):
    config = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(config | changes))


def test_a_model_is_loaded_once_until_it_changes(folder):
    expert = load_denoiser(folder, precision="float32")
    assert load_denoiser(f"hf:{folder}", precision="float32") is expert
    assert (expert.spec.name, len(expert.spec.fingerprint)) == ("small", 64)
    assert expert.parameters == sum(weight.numel() for weight in network("bert").parameters())
    edit(folder, layer_norm_eps=0.1)
    assert load_denoiser(folder, precision="float32") is not expert


def test_every_precision_gives_log_probs_in_float32(folder):
    for precision in ("float32", "bfloat16"):
        log_probs = table_of(load_denoiser(folder, precision=precision), TOKENS, TOKENS > 20)
        assert log_probs.dtype == torch.float32
        torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(1, 4))
    assert table_of(load_denoiser(folder), TOKENS, TOKENS > 20).shape == log_probs.shape
    with pytest.raises(ConservatorError, match="precision must be one of float32, bfloat16, got 'int3'"):
        load_denoiser(folder, precision="int3")
    with pytest.raises(ConservatorError, match="device 'abacus' is not available"):
        load_denoiser(folder, device="abacus")


def test_the_memory_is_computed_without_loading(folder):
    count = sum(weight.numel() for weight in load_file(folder / "model.safetensors").values())
    assert size_of(folder) == 4 * count
    assert size_of(folder, "bfloat16") == 2 * count
    (folder / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ConservatorError, match="not a safetensors file"):
        size_of(folder)


def test_a_repository_is_found_only_in_the_cache_of_the_hub(tmp_path, monkeypatch):
    from huggingface_hub import constants

    cache = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    repository = cache / "models--someone--small"
    folder = repository / "snapshots" / ("0" * 40)
    folder.mkdir(parents=True)
    save("roberta", network("roberta"), folder)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    assert find_denoiser("hf:someone/small") == folder
    assert load_denoiser("hf:someone/small", precision="float32").spec.max_length == 28
    with pytest.raises(ConservatorError, match="run: hf download someone/else"):
        load_denoiser("hf:someone/else")
    for name in ("hf:nobody", "nobody", "some/where"):
        with pytest.raises(ConservatorError, match="there is no such folder; expected hf:OWNER/NAME or hf:FOLDER"):
            load_denoiser(name)


def test_pickled_weights_are_rejected(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(ConservatorError, match=r"has no \*.safetensors"):
        load_denoiser(folder)
    torch.save(network("bert").state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(ConservatorError, match=r"is pickled.*conservator convert .*pytorch_model.bin --out FOLDER"):
        load_denoiser(folder)
    (folder / "config.json").unlink()
    with pytest.raises(ConservatorError, match=r"it has no config.json"):
        load_denoiser(folder)


@pytest.mark.parametrize("kind", [kind for kind, inputs in KINDS.items() if inputs.code])
def test_code_in_a_folder_runs_only_with_permission(kind, tmp_path):
    save(kind, network(kind), tmp_path)
    module = next(tmp_path.glob("modeling_*.py"))
    module.write_text("raise RuntimeError('it was run')\n")
    with pytest.raises(ConservatorError, match=r"needs to run code from its folder; allow it with --trust-remote-code"):
        load_denoiser(tmp_path)
    with pytest.raises(ConservatorError, match="it was run"):
        load_denoiser(tmp_path, trust_remote_code=True)


def test_a_missing_class_in_auto_map_is_rejected(tmp_path):
    save("llada", network("llada"), tmp_path)
    edit(tmp_path, auto_map={"AutoConfig": "modeling_llada.LLaDAConfig"})
    with pytest.raises(ConservatorError, match=r"auto_map in config.json must have the key AutoModel"):
        load_denoiser(tmp_path, trust_remote_code=True)


def test_code_beside_a_family_of_transformers_is_never_run(folder):
    (folder / "mine.py").write_text("raise RuntimeError('it was run')\n")
    edit(folder, auto_map={"AutoConfig": "mine.Config", "AutoModelForMaskedLM": "mine.Model"})
    assert load_denoiser(folder, precision="float32", trust_remote_code=True).spec.name == "small"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "gpt2"}, "model_type 'gpt2' is not a supported masked model; supported: bert, distilbert"),
        ({"model_type": None}, "model_type None is not a supported"),
        ({"is_decoder": True}, "is_decoder in config.json must be False, got True"),
        (
            {"position_embedding_type": "relative_key"},
            "position_embedding_type in config.json must be 'absolute', got 'relative_key'",
        ),
        ({"hidden_size": 8}, "cannot load the model"),
        ({"vocab_size": 9}, "cannot load the model"),
        ({"num_hidden_layers": 3}, "the weights lack bert.encoder.layer.2"),
    ],
)
def test_an_unsupported_network_is_rejected(folder, changes, message):
    edit(folder, **changes)
    with pytest.raises(ConservatorError, match=message):
        load_denoiser(folder)


def test_the_flow_matching_transformer_is_listed_as_supported():
    with pytest.raises(ConservatorError, match="conservator_flow"):
        family_of("mamba")


def test_a_model_without_its_output_layer_is_rejected(folder):
    weights = load_file(folder / "model.safetensors")
    without_head = {name: weight for name, weight in weights.items() if not name.startswith("cls.")}
    save_file(without_head, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConservatorError, match=r"the weights lack cls\."):
        load_denoiser(folder)


def test_a_missing_or_wrong_tokenizer_is_rejected(folder):
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    edit(folder, "tokenizer.json", model={**tokenizer["model"], "vocab": {"a": 0}}, added_tokens=[])
    with pytest.raises(ConservatorError, match=r"must have the token \[MASK\], which the model family needs"):
        load_denoiser(folder)
    moved = [token | {"id": token["id"] + 900} for token in tokenizer["added_tokens"]]
    edit(folder, "tokenizer.json", model={**tokenizer["model"], "vocab": {"a": 0}}, added_tokens=moved)
    with pytest.raises(
        ConservatorError, match=r"the id of \[MASK\] must be below the .* tokens of the network, got 904"
    ):
        load_denoiser(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ConservatorError, match=r"there is no tokenizer\.json; add the one"):
        load_denoiser(folder)


def test_older_files_of_a_tokenizer_are_read(folder):
    """A word list, as in the first models of the family, gives the same vocabulary."""
    expected = load_denoiser(folder, precision="float32").spec.vocabulary
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    (folder / "tokenizer.json").unlink()
    words = sorted(vocabulary, key=vocabulary.get)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    assert load_denoiser(folder, precision="float32").spec.vocabulary.fingerprint == expected.fingerprint
