"""Byte experts in files: saved experts are loaded, and damaged ones are rejected with the reason."""

import hashlib
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from conservator.errors import ConservatorError
from conservator.experts import PAD, ByteExpert, Context, load_expert, load_experts, save_expert
from conservator.vocabularies import BYTES
from support.networks import PLAIN, TINY, random_network
from support.tables import table_of

TOKENS = torch.arange(12)[None] + 60
HIDDEN = TOKENS % 3 == 0


@pytest.fixture
def folder(tmp_path):
    save_expert(tmp_path / "mine", random_network(), "mine", {"seed": 7})
    return tmp_path / "mine"


@pytest.mark.parametrize("config", [TINY, PLAIN])
def test_a_saved_expert_is_loaded(config, tmp_path):
    network = random_network(config).half().float()
    save_expert(tmp_path / "mine", network, "mine", {"seed": 7})
    expert = load_expert(tmp_path / "mine")
    assert (expert.spec.name, expert.spec.vocabulary, expert.spec.max_length) == ("mine", BYTES, 40)
    assert expert.about == {"seed": 7}
    original = ByteExpert(network, "original", "")
    assert torch.equal(table_of(expert, TOKENS, HIDDEN, 0.5), table_of(original, TOKENS, HIDDEN, 0.5))
    assert expert.spec.fingerprint == hashlib.sha256((tmp_path / "mine" / "model.safetensors").read_bytes()).hexdigest()


def test_an_unavailable_device_is_rejected(folder):
    with pytest.raises(ConservatorError, match="device 'abacus' is not available"):
        load_expert(folder, "abacus")


def test_experts_are_loaded_by_folder(folder):
    (expert,) = load_experts([folder])
    assert [loaded.spec for loaded in load_experts(f"{folder}, {folder}")] == [expert.spec] * 2


def edit(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def replace_weights(folder, data):
    (folder / "model.safetensors").write_bytes(data)
    edit(folder, weights={"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()})


def network_of(folder, **changes):
    return {**json.loads((folder / "config.json").read_text())["network"], **changes}


def flip_a_bit(folder):
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "model.safetensors").write_bytes(data)


def truncate(folder):
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[:-10])


def scaled(network, factor):
    with torch.no_grad():
        network.head.weight *= factor
    return network


def enlarge(folder):
    with (folder / "model.safetensors").open("r+b") as handle:
        handle.truncate(2**31 + 1)  # a sparse file: nothing is written


DAMAGES = {
    "a bit flipped": (flip_a_bit, "content has changed"),
    "truncated": (truncate, "bytes of"),
    "too large": (enlarge, "at most 2147483648 are read"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "cannot read .*model.safetensors"),
    "no config": (lambda f: (f / "config.json").unlink(), "cannot read .*config.json"),
    "config is no JSON": (lambda f: (f / "config.json").write_text("{"), "is not JSON"),
    "config is nested too deep": (lambda f: (f / "config.json").write_text("[" * 10**6), "is not JSON"),
    "config is too large": (lambda f: (f / "config.json").write_text(" " * (2**20 + 1)), "at most 1048576"),
    "config of another kind": (lambda f: (f / "config.json").write_text("[1]"), "does not describe a byte expert"),
    "config of another format": (lambda f: edit(f, format="2"), "expected the format"),
    "weights not described": (lambda f: edit(f, weights=None), "incomplete"),
    "no safetensors": (lambda f: replace_weights(f, b"pickled"), "not a safetensors file"),
    "another network": (lambda f: edit(f, network=network_of(f, layers=3)), "does not fit"),
    "another width": (lambda f: edit(f, network=network_of(f, width=20)), r"is \(.*\), expected \("),
    "weights too many": (lambda f: replace_weights(f, save({"more": torch.ones(1)})), "does not fit"),
    "a huge network": (
        lambda f: edit(f, network=network_of(f, layers=10**9)),
        "layers must be a number from 1 to 128, got 1000000000",
    ),
    "a negative size": (
        lambda f: edit(f, network=network_of(f, width=-1)),
        "width must be a number from 1 to 8192, got -1",
    ),
    "a word for a size": (lambda f: edit(f, network=network_of(f, width="1")), "width must be a number .*, got '1'"),
    "an unknown size": (lambda f: edit(f, network=network_of(f, depth=1)), "network must have exactly the keys"),
    "infinite weights": (
        lambda f: save_expert(f, scaled(random_network(), 1e9), "mine", {}),
        "must be a floating-point tensor of finite values",
    ),
    "no name": (lambda f: edit(f, name=""), "incomplete"),
    "no network": (lambda f: edit(f, network=None), "network must have exactly the keys"),
    "odd heads": (
        lambda f: edit(f, network=network_of(f, heads=3)),
        "width must be a multiple of twice the number of heads",
    ),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_expert_is_rejected_with_the_reason(folder, damage, message):
    damage(folder)
    with pytest.raises(ConservatorError, match=message):
        load_expert(folder)


def test_an_unknown_name_is_rejected_with_the_built_in_ones():
    with pytest.raises(ConservatorError, match=r"no expert 'nonsense'.*a built-in expert \(code, "):
        load_experts("nonsense")
    with pytest.raises(ConservatorError, match="no expert named"):
        load_experts(" , ")


def test_tokens_of_any_integer_type_give_the_same_predictions():
    expert = ByteExpert(random_network(), "mine", "")
    expected = table_of(expert, TOKENS, HIDDEN)
    for dtype in (torch.uint8, torch.int16, torch.int32):
        assert torch.equal(table_of(expert, TOKENS.to(dtype), HIDDEN), expected)


@pytest.mark.parametrize("hidden", [HIDDEN[0], HIDDEN.long(), HIDDEN[:, 1:]])
def test_a_mask_of_wrong_shape_or_type_is_rejected(hidden):
    with pytest.raises(ConservatorError, match="hidden must be bool"):
        ByteExpert(random_network(), "mine", "").predict(Context(TOKENS, hidden), Context(TOKENS, HIDDEN).everywhere())


def test_an_empty_batch_has_empty_predictions():
    assert table_of(ByteExpert(random_network(), "mine", ""), TOKENS[:0], HIDDEN[:0]).shape == (0, 12, 256)


def test_a_path_is_a_folder_and_a_name_is_a_built_in_expert(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    monkeypatch.setattr("conservator.experts.library.BUILTIN_FOLDER", folder.parent / "builtin")
    save_expert(folder.parent / "builtin" / "mine", random_network(seed=1), "built in", {})
    assert [expert.spec.name for expert in load_experts([Path("mine"), "mine", "./mine"])] == [
        "mine",
        "built in",
        "mine",
    ]


def test_tokens_that_are_not_bytes_are_rejected():
    expert = ByteExpert(random_network(), "mine", "")
    with pytest.raises(ConservatorError, match="visible tokens must be bytes from 0 to 255, got 256"):
        table_of(expert, torch.tensor([[256]]), torch.tensor([[False]]))
    assert torch.isfinite(table_of(expert, torch.tensor([[256, PAD]]), torch.tensor([[True, False]]))).all()
