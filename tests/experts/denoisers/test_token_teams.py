"""Pretrained models with the same vocabulary are composed over tokens, as in the paper."""

import pytest
import torch

from conservator import ConservatorError
from conservator.channels import MaskChannel
from conservator.experts import Team
from conservator.field import Inferred
from conservator.reference import decode_one_step
from support.pretrained import load, memorized_network, network, random_denoiser


def test_a_team_restores_lost_tokens_with_the_expert_that_memorized_them(tmp_path):
    model, text = memorized_network("roberta")
    folders = [tmp_path / name for name in ("memorized", "random")]
    for folder in folders:
        folder.mkdir()
    memorized, untrained = load("roberta", model, folders[0]), load("roberta", network("roberta"), folders[1])
    team = Team([memorized, untrained])
    assert team.names == ("memorized", "random")
    tokens = text[None].clone()
    tokens[0, ::2] = team.vocabulary.mask
    observed = MaskChannel(team.vocabulary.size, 0.5).observe(tokens)
    for weight, right in ((0.95, True), (0.0, False)):
        field = torch.tensor([weight, 1 - weight], dtype=torch.float64).expand(1, len(text), 2)
        decoded = decode_one_step(team, observed, Inferred.given(field).composition)
        assert torch.equal(decoded.tokens[0], text) == right
        assert torch.equal(decoded.tokens[0, 1::2], text[1::2])


def test_experts_with_different_vocabularies_are_rejected():
    with pytest.raises(ConservatorError, match="different vocabularies"):
        Team([random_denoiser("bert"), random_denoiser("distilbert")])
    with pytest.raises(ConservatorError, match="uniform source"):
        Team([random_denoiser("duo")])
