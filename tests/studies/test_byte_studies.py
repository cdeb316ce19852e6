"""Byte studies on the demo corpora, with unigram experts of their domains."""

from dataclasses import replace
from importlib import import_module

import pytest
import torch

from conservator.reference import PRESETS, CategoricalExpert, Particles
from conservator.vocabularies import BYTES
from conservator_studies import STUDIES, field_quality, seeds
from conservator_studies.claims import check_claims
from conservator_studies.corpora import DEMO, DOMAINS, read_domain
from conservator_studies.execution import Request, tables
from conservator_studies.resources import Resources
from conservator_studies.result import to_json
from conservator_studies.study import load_study, untracked
from support.networks import TINY

LENGTH = 128
LOADED = {name: load_study(name) for name in STUDIES}
BYTE = [name for name, study in LOADED.items() if study.needs_resources and not study.domain and name != "lacunae"]


def unigram_expert(name, *domains):
    """An expert with the byte frequencies of the texts of ``domains``."""
    text = b"".join(document for domain in domains for document in read_domain(DEMO, domain, "train").documents)
    counts = torch.bincount(torch.tensor(list(text)), minlength=256) + 0.1
    expert = CategoricalExpert(counts.log().expand(LENGTH, 256), name)
    expert.spec = replace(expert.spec, vocabulary=BYTES)  # so that a memory can be added to the team
    return expert


@pytest.fixture(scope="module")
def resources(tmp_path_factory):
    experts = {name: unigram_expert(name, name) for name in DOMAINS}
    experts |= {name: unigram_expert(name, *DOMAINS) for name in ("generalist", "generalist_3x")}
    return Resources(DEMO, experts, tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def findings(resources):
    """Findings of every study; each study runs once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, "reduced", Particles(2, 2, 1, steps=2))
        by_study = {}
        for name in BYTE:
            study = load_study(name)
            config = replace(study.presets["laptop"], windows=4, length=LENGTH, least=40)
            if config.particle_windows:  # all windows, or a part of them
                config = replace(config, particle_windows=4 if name == "byte3" else 2)
            if name == "seeds":
                training = replace(config.training, network=replace(TINY, context=LENGTH), window=64, batch=4)
                config = replace(config, training=training, steps_per_window=0.75, checked=2)
            by_study[name] = study.run(config, 0, untracked, resources)
        return by_study


@pytest.mark.parametrize("name", BYTE)
def test_a_study_has_rows_for_every_table_and_can_be_written(name, findings):
    study, rows = load_study(name), findings[name].rows
    assert len(tables(name, rows)) == len(study.tables)
    to_json({"rows": rows})
    methods = [row["method"] for row in rows]
    assert len(set(methods)) == len(methods)
    assert "nan" not in study.conclude(rows)


@pytest.mark.parametrize("name", BYTE)
def test_every_value_of_the_paper_has_a_row(name, findings):
    study = load_study(name)
    module = import_module(study.run.__module__)
    paper = [row["paper"] for row in findings[name].rows if row["paper"]]
    if name not in ("replacement", "prior-term", "flagship"):
        assert len(paper) == len(module.PAPER)
    columns = {column.metric for spec in study.tables for column in spec.columns}
    assert {metric for values in paper for metric in values} <= columns


def test_the_papers_table_is_complete(findings):
    rows = {row["method"]: row for row in findings["byte3"].rows}
    ours = rows["local_bayes"]
    assert "difference" not in ours
    for name, row in rows.items():
        assert 0 <= row["accuracy_documents"] <= 1
        if name != "local_bayes":
            assert row["difference_low"] <= row["difference"] <= row["difference_high"]
            assert 0 < row["p"] <= 1
    assert {"generalist", "generalist_3x", "single:prose", "local_particles"} <= set(rows)
    assert rows["local_particles"]["windows"] == ours["windows"] == 4
    assert rows["hard_label"]["field_accuracy"] == 1


def test_claims_are_checked_on_every_row(findings):
    claims = list(check_claims({name: findings[name].rows for name in ("byte3", "field")}))
    assert len(claims) == 2 + 3 + 2 * 3 + 3


def test_generalists_are_optional(resources):
    from conservator_studies import byte2
    from conservator_studies.byte import prepare

    without_generalists = Resources(
        DEMO, {name: resources.experts[name] for name in ("prose", "code")}, resources.folder
    )
    trial = prepare(replace(byte2.CONFIG, windows=2, length=LENGTH, least=40), 0, without_generalists)
    assert list(trial.setting.generalists) == []


def test_rates_are_compared_on_the_same_windows(findings):
    rows = findings["rate"].rows
    assert [row["rate"] for row in rows] == [0.1, 0.2, 0.3]
    for row in rows:
        assert row["count"] == 3
        assert row["over_equal"] == pytest.approx(row["local_bayes"] - row["equal"])


def test_a_pair_that_was_trained_on_everything_fails_the_check(findings):
    specialised, unspecialised = findings["seeds"].rows
    assert unspecialised["passed"] == 0
    assert unspecialised["warning"]
    assert abs(unspecialised["margin_prose"]) < 1
    assert "fails the check" in seeds.conclude(findings["seeds"].rows)
    assert specialised["method"] == "specialised"


def test_trained_experts_are_kept(findings, resources):
    folders = sorted(path.parent.name for path in (resources.folder / "experts").glob("*/*/*/config.json"))
    assert folders == ["code", "code", "prose", "prose"]


def test_copying_repairs_nothing(findings):
    rows = {row["method"]: row for row in findings["replacement"].rows}
    for rate in (0.1, 0.2, 0.3):
        copied = rows[f"copied r={rate:g}"]
        assert (copied["repaired"], copied["spoiled"]) == (0, 0)
        assert copied["accuracy"] == pytest.approx(1 - rate, abs=0.08)


def test_without_the_prior_term_vertices_score_the_same(findings):
    """Only interior weights have a normaliser, so the prior term affects only mixtures."""
    rows = {row["method"]: row for row in findings["prior-term"].rows}
    assert set(rows) == {f"{engine}{end}" for engine in ("bayes", "eg", "particles") for end in ("", "_posterior")}
    assert rows["particles_posterior"]["evaluations"] < rows["particles"]["evaluations"]
    assert rows["bayes_posterior"]["evaluations"] == rows["bayes"]["evaluations"]


def test_attribution_is_by_region(findings):
    rows = {row["method"]: row for row in findings["field"].rows}
    ours = rows["local_bayes"]
    assert ours["field_accuracy_low"] <= ours["field_accuracy"] <= ours["field_accuracy_high"]
    assert rows["equal"]["boundary_f1"] == 0
    assert rows["label"]["all_segments"] >= 8


def test_a_limit_bounds_the_size_of_a_study():
    assert Request("byte3", "laptop", 0, 3).config.windows == 3
    assert Request("byte3", "laptop", 0, 10_000).config.windows == 256
    assert Request("simulator", "laptop", 0, 1).config.repeats == 1


def test_a_shape_hides_letters_and_digits():
    assert field_quality.shape(b"Wrote 42 bytes\n\xc3\x84\xff") == "Aaaaa 99 aaaaa\nA\ufffd"
