"""Pretrained models that share their tokens compose at token level, as the paper's experts do."""

import pytest
import torch

from conservator import ConservatorError
from conservator.channels import MaskChannel
from conservator.experts import Team
from conservator.field import Inferred
from conservator.reference import decode_one_step
from support.pretrained import memorized_network, load, network, random_denoiser


def test_a_team_restores_lost_tokens_by_the_expert_that_knows_them(tmp_path):
    made, text = memorized_network("roberta")
    folders = [tmp_path / name for name in ("knows", "guesses")]
    for folder in folders:
        folder.mkdir()
    knows, guesses = load("roberta", made, folders[0]), load("roberta", network("roberta"), folders[1])
    team = Team([knows, guesses])
    assert team.names == ("knows", "guesses")
    tokens = text[None].clone()
    tokens[0, ::2] = team.vocabulary.mask
    observed = MaskChannel(team.vocabulary.size, 0.5).observe(tokens)
    for weight, right in ((0.95, True), (0.0, False)):
        field = torch.tensor([weight, 1 - weight], dtype=torch.float64).expand(1, len(text), 2)
        decoded = decode_one_step(team, observed, Inferred.given(field).composition)
        assert torch.equal(decoded.tokens[0], text) == right
        assert torch.equal(decoded.tokens[0, 1::2], text[1::2])


def test_experts_over_other_tokens_do_not_share_a_team():
    with pytest.raises(ConservatorError, match="different vocabularies"):
        Team([random_denoiser("bert"), random_denoiser("distilbert")])
    with pytest.raises(ConservatorError, match="uniform source"):
        Team([random_denoiser("duo")])
