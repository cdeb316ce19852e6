"""Texts and experts for the studies."""

import pytest

from conservator import ConservatorError
from conservator.experts import save_expert
from conservator_studies import resources
from conservator_studies.resources import open_resources
from support.networks import random_network


@pytest.fixture
def without_builtin(monkeypatch):
    monkeypatch.setattr(resources, "builtin_names", list)


def test_an_expert_has_the_name_of_its_role(tmp_path, without_builtin):
    save_expert(tmp_path / "mine", random_network(), "mine", {})
    opened = open_resources("demo", [f"code={tmp_path / 'mine'}", f"generalist={tmp_path / 'mine'}"], tmp_path)
    assert [expert.spec.name for expert in opened.choose(["code"])] == ["code"]
    assert [expert.spec.name for expert in opened.generalists()] == ["generalist"]
    assert opened.fingerprints["code"] == opened.fingerprints["generalist"] != ""
    assert set(opened.evaluation) == {"prose", "code", "config"}
    assert len(opened.fingerprint) == 64
    with pytest.raises(ConservatorError, match="no expert for prose, config"):
        opened.choose(["prose", "code", "config"])


@pytest.mark.parametrize("value", ["code", "verse=somewhere", "code="])
def test_invalid_experts_options_are_an_error(value, tmp_path):
    with pytest.raises(ConservatorError, match="expected ROLE=FOLDER"):
        open_resources("demo", [value], tmp_path)
