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


def test_an_expert_goes_by_the_name_of_its_role(tmp_path, without_builtin):
    save_expert(tmp_path / "mine", random_network(), "mine", {})
    found = open_resources("demo", [f"code={tmp_path / 'mine'}", f"generalist={tmp_path / 'mine'}"], tmp_path)
    assert [expert.spec.name for expert in found.choose(["code"])] == ["code"]
    assert [expert.spec.name for expert in found.generalists()] == ["generalist"]
    assert found.fingerprints["code"] == found.fingerprints["generalist"] != ""
    assert set(found.evaluation) == {"prose", "code", "config"}
    assert len(found.fingerprint) == 64
    with pytest.raises(ConservatorError, match="no expert for prose, config"):
        found.choose(["prose", "code", "config"])


@pytest.mark.parametrize("value", ["code", "verse=somewhere", "code="])
def test_roles_that_are_not_said_well(value, tmp_path):
    with pytest.raises(ConservatorError, match="expected ROLE=FOLDER"):
        open_resources("demo", [value], tmp_path)
