"""Weights that are finite but too large, and float64 as the default type of torch."""

import hashlib
import json

import pytest
import torch
from safetensors.torch import load_file, save

from conservator import Restorer
from conservator.errors import ConservatorError
from conservator.experts import load_experts, save_expert
from support.flows import UNIFORM, save_random
from support.networks import random_network

DOCUMENT = "the quick brown fox \ufffdumps over the lazy dog, 12 345 and so on\n" * 2


def make_byte_expert(folder):
    save_expert(folder, random_network().float(), "name", {})


def make_token_expert(folder):
    save_random(folder)


def make_uniform_expert(folder):
    save_random(folder, UNIFORM)


all_kinds = pytest.mark.parametrize("make", [make_byte_expert, make_token_expert, make_uniform_expert])


def enlarge(folder, scale):
    """Multiply the weights of an expert, and update the hash in its config."""
    weights = load_file(folder / "model.safetensors")
    large = {key: value.float() * (1 if "inv_freq" in key else scale) for key, value in weights.items()}
    data = save({key: value.clamp(-3e38, 3e38) for key, value in large.items()})
    (folder / "model.safetensors").write_bytes(data)
    config = json.loads((folder / "config.json").read_text())
    if "weights" in config:
        config["weights"] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "config.json").write_text(json.dumps(config))


@all_kinds
def test_the_error_for_too_large_weights_names_the_weights(make, tmp_path):
    make(tmp_path / "name")
    enlarge(tmp_path / "name", 1e30)
    restorer = Restorer(load_experts([tmp_path / "name"]))
    with pytest.raises(
        ConservatorError, match=r"'name': predict\(\) must return finite log-probabilities, .* its weights"
    ):
        restorer.restore(DOCUMENT)


@all_kinds
def test_the_default_type_of_torch_has_no_effect(make, tmp_path):
    make(tmp_path / "name")
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        restoration = Restorer(load_experts([tmp_path / "name"])).restore(DOCUMENT)
    finally:
        torch.set_default_dtype(before)
    parts = DOCUMENT.split("\ufffd")
    assert all(part in restoration.text for part in parts)
