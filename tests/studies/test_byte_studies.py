"""Every byte study on the demo texts, with experts that know how often each byte occurs in their domain."""

from dataclasses import replace
from importlib import import_module

import pytest
import torch

from conservator.reference import PRESETS, CategoricalExpert, Particles
from conservator.vocabularies import BYTES
from conservator_studies import STUDIES, recovered, seeds
from conservator_studies.claims import judge
from conservator_studies.corpora import DEMO, DOMAINS, read_domain
from conservator_studies.execution import Request, tables
from conservator_studies.resources import Resources
from conservator_studies.result import Result
from conservator_studies.study import TextStudy, load_study, untracked
from support.networks import TINY

LENGTH = 128
LOADED = {name: load_study(name) for name in STUDIES}
BYTE = [name for name, one in LOADED.items() if isinstance(one, TextStudy) and not one.domain]


def counted(name, *domains):
    """The frequencies of bytes in the texts of ``domains``."""
    text = b"".join(document for domain in domains for document in read_domain(DEMO, domain, "train").documents)
    counts = torch.bincount(torch.tensor(list(text)), minlength=256) + 0.1
    expert = CategoricalExpert(counts.log().expand(LENGTH, 256), name)
    expert.spec = replace(expert.spec, vocabulary=BYTES)  # so that a memory can join them
    return expert


@pytest.fixture(scope="module")
def resources(tmp_path_factory):
    experts = {name: counted(name, name) for name in DOMAINS}
    experts |= {name: counted(name, *DOMAINS) for name in ("generalist", "generalist_3x")}
    return Resources(DEMO, experts, tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def found(resources):
    """The findings of every study, each run once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, "reduced", Particles(2, 2, 1, steps=2))
        results = {}
        for name in BYTE:
            study = load_study(name)
            config = replace(study.presets["laptop"], windows=4, length=LENGTH, least=40)
            if config.particle_windows:  # as many as there are windows, and fewer
                config = replace(config, particle_windows=4 if name == "byte3" else 2)
            if name == "seeds":
                training = replace(config.training, network=replace(TINY, context=LENGTH), window=64, batch=4)
                config = replace(config, training=training, steps_per_window=0.75, checked=2)
            results[name] = study.run(config, 0, untracked, resources)
        return results


@pytest.mark.parametrize("name", BYTE)
def test_a_study_has_rows_for_every_table_and_can_be_written(name, found):
    study, findings = load_study(name), found[name]
    assert len(tables(name, findings.rows)) == len(study.tables)
    Result(name, "laptop", 0, {}, 0.0, findings.rows).to_json()
    methods = [row["method"] for row in findings.rows]
    assert len(set(methods)) == len(methods)
    assert "nan" not in study.conclude(findings.rows)


@pytest.mark.parametrize("name", BYTE)
def test_every_figure_of_the_paper_has_a_row_of_ours(name, found):
    study, module = load_study(name), import_module(STUDIES[name].module)
    paper = [row["paper"] for row in found[name].rows if row["paper"]]
    if name not in ("replacement", "prior-term", "flagship"):
        assert len(paper) == len(module.PAPER)
    columns = {column.metric for spec in study.tables for column in spec.columns}
    assert {metric for figures in paper for metric in figures} <= columns


def test_the_papers_table_is_complete(found):
    rows = {row["method"]: row for row in found["byte3"].rows}
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


def test_claims_can_be_judged_of_every_row(found):
    claims = list(judge({name: found[name].rows for name in ("byte3", "field")}))
    assert len(claims) == 2 + 3 + 2 * 3 + 3


def test_without_generalists_there_are_no_rows_of_them(resources):
    from conservator_studies import byte2
    from conservator_studies.byte import prepare

    few = Resources(DEMO, {name: resources.experts[name] for name in ("prose", "code")}, resources.folder)
    trial = prepare(replace(byte2.CONFIG, windows=2, length=LENGTH, least=40), 0, few)
    assert list(trial.setting.generalists) == []


def test_rates_are_compared_on_the_same_windows(found):
    rows = found["rate"].rows
    assert [row["rate"] for row in rows] == [0.1, 0.2, 0.3]
    for row in rows:
        assert row["count"] == 3
        assert row["over_equal"] == pytest.approx(row["local_bayes"] - row["equal"])


def test_a_pair_that_was_trained_on_everything_fails_the_check(found):
    specialised, unspecialised = found["seeds"].rows
    assert unspecialised["passed"] == 0
    assert unspecialised["warning"]
    assert abs(unspecialised["margin_prose"]) < 1
    assert "fails it" in seeds.conclude(found["seeds"].rows)
    assert specialised["method"] == "specialised"


def test_trained_experts_are_kept(found, resources):
    kept = sorted(path.parent.name for path in (resources.folder / "experts").glob("*/*/*/config.json"))
    assert kept == ["code", "code", "prose", "prose"]


def test_overturning_repairs_and_copying_does_not(found):
    rows = {row["method"]: row for row in found["replacement"].rows}
    for rate in (0.1, 0.2, 0.3):
        copied = rows[f"copied r={rate:g}"]
        assert (copied["repaired"], copied["spoiled"]) == (0, 0)
        assert copied["accuracy"] == pytest.approx(1 - rate, abs=0.08)


def test_without_the_prior_term_vertices_score_the_same(found):
    """Only interior states have a normaliser, so the term matters for mixtures alone."""
    rows = {row["method"]: row for row in found["prior-term"].rows}
    assert set(rows) == {f"{engine}{end}" for engine in ("bayes", "eg", "particles") for end in ("", "_posterior")}
    assert rows["particles_posterior"]["evaluations"] < rows["particles"]["evaluations"]
    assert rows["bayes_posterior"]["evaluations"] == rows["bayes"]["evaluations"]


def test_attribution_is_by_region(found):
    rows = {row["method"]: row for row in found["field"].rows}
    ours = rows["local_bayes"]
    assert ours["field_accuracy_low"] <= ours["field_accuracy"] <= ours["field_accuracy_high"]
    assert rows["equal"]["boundary_f1"] == 0
    assert rows["label"]["all_segments"] >= 8


def test_limits_bound_what_a_study_counts():
    assert Request("byte3", "laptop", 0, 3).config.windows == 3
    assert Request("byte3", "laptop", 0, 10_000).config.windows == 256
    assert Request("simulator", "laptop", 0, 1).config.repeats == 1


def test_a_shape_says_nothing_of_what_a_text_says():
    assert recovered.shape(b"Wrote 42 bytes\n\xc3\x84\xff") == "Aaaaa 99 aaaaa\nA\ufffd"
