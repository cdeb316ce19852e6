"""The study of uniform sources, with unigram experts of their domains."""

from dataclasses import replace

import pytest
import torch

from conservator.errors import ConservatorError
from conservator.reference import PRESETS, Particles
from conservator.vocabularies import BYTES
from conservator_studies import uniform
from conservator_studies.corpora import DEMO, read_domain
from conservator_studies.execution import tables
from conservator_studies.resources import Resources
from conservator_studies.result import to_json
from conservator_studies.study import untracked
from support.flows import VOCABULARY
from support.token_experts import MaskedTokens
from support.uniform_experts import IndependentTokens

CONFIG = replace(uniform.PRESETS["laptop"], windows=4, length=96, least=40, particle_windows=2)


def unigram_expert(domain):
    text = b"".join(document for document in read_domain(DEMO, domain, "train").documents)
    counts = torch.bincount(torch.tensor(list(text)), minlength=BYTES.size) + 0.1
    return IndependentTokens(counts.log(), domain, BYTES)


@pytest.fixture(scope="module")
def resources(tmp_path_factory):
    return Resources(DEMO, {name: unigram_expert(name) for name in uniform.DOMAINS}, tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def rows(resources):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, "reduced", Particles(3, 4, 2, steps=2))
        return {row["method"]: row for row in uniform.run(CONFIG, 0, untracked, resources).rows}


def test_every_method_has_a_row(rows):
    assert set(rows) == set(uniform.LABELS)
    assert {name: row["windows"] for name, row in rows.items() if name in uniform.SCORES} == {
        "heuristic": 2,
        "identity": 2,
    }
    assert {row["windows"] for name, row in rows.items() if name not in uniform.SCORES} == {4}
    assert rows["hard_label"]["field_accuracy"] == 1
    assert rows["cavity"]["field_accuracy"] > 0.7
    for name, row in rows.items():
        assert 0 <= row["accuracy_documents"] <= 1
        assert name == uniform.OURS or row["difference_low"] <= row["difference"] <= row["difference_high"]


def test_the_cost_is_unigram_expert(rows):
    """Cavity inference needs one pass of each expert, and decoding another one."""
    assert rows["equal"]["evaluations"] == 2
    assert rows["cavity"]["evaluations"] == 2 + 2
    assert rows["folds"]["evaluations"] > 10
    # Iterations, clamped and unclamped, particles, experts, steps and samples; the identity needs one more.
    assert rows["heuristic"]["evaluations"] == 2 + 3 * 2 * 4 * 2 * (2 + 2)
    assert rows["identity"]["evaluations"] == 2 + 3 * 2 * 4 * 2 * (2 + 3)


def test_tables_record_and_conclusion_can_be_made(rows):
    all_rows = list(rows.values())
    assert len(tables("uniform", all_rows)) == len(uniform.TABLES)
    to_json({"rows": all_rows})
    conclusion = uniform.conclude(all_rows)
    assert "nan" not in conclusion
    assert "Energies by the identity" in conclusion


def test_experts_with_a_mask_source_are_an_error(tmp_path):
    experts = {name: MaskedTokens(torch.zeros(VOCABULARY.size), name, VOCABULARY) for name in uniform.DOMAINS}
    with pytest.raises(ConservatorError, match="two experts with a uniform source"):
        uniform.run(CONFIG, 0, untracked, Resources(DEMO, experts, tmp_path))
