"""The study that predicts the gain of local weights, with unigram experts of their domains."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from conservator.errors import ConservatorError
from conservator.reference import CategoricalExpert
from conservator.vocabularies import BYTES
from conservator_studies import rule
from conservator_studies.corpora import DEMO, DOMAINS, read_domain
from conservator_studies.execution import tables
from conservator_studies.resources import Resources
from conservator_studies.result import to_json
from conservator_studies.rule import Case
from conservator_studies.study import untracked

LENGTH = 128
PAIR = ("prose", "code")
CASES = (
    Case(PAIR, PAIR, 0.2, LENGTH, scaled=True),
    Case(PAIR, ("prose", "prose"), 0.2, LENGTH),
    Case(("commented",), ("prose", "config"), 0.3, LENGTH),
    Case(("arxiv",), PAIR, 0.2, LENGTH),  # the demo corpora have no arxiv texts
)
FITTED = tuple(Case(PAIR, PAIR, rate, LENGTH) for rate in (0.1, 0.2, 0.3, 0.4, 0.5))


def unigram_expert(domain):
    text = b"".join(read_domain(DEMO, domain, "train").documents)
    counts = torch.bincount(torch.tensor(list(text)), minlength=BYTES.size) + 0.1
    expert = CategoricalExpert(counts.log().expand(LENGTH, BYTES.size), domain)
    expert.spec = replace(expert.spec, vocabulary=BYTES)
    return expert


@pytest.fixture(scope="module")
def resources(tmp_path_factory):
    return Resources(DEMO, {name: unigram_expert(name) for name in DOMAINS}, tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def findings(resources):
    return rule.run(rule.Config(4, CASES, FITTED), 0, untracked, resources)


def test_every_setting_has_a_predicted_and_a_measured_gain(findings):
    rows = {row["method"]: row for row in findings.rows}
    assert len(rows) == len(rule.RULES) + 3 + len(FITTED)  # the arxiv case is skipped
    for case in CASES[:3]:
        row = rows[case.name]
        for metric in ("difference", "right", "nats"):
            assert row[f"{metric}_low"] <= row[metric] <= row[f"{metric}_high"]
        assert ("scaled_difference" in row) == case.scaled
    identical = rows[CASES[1].name]
    assert identical["difference"] == identical["right"] == 0
    assert identical["nats"] == pytest.approx(0, abs=1e-5)
    assert len(tables("rule", findings.rows)) == len(rule.TABLES)
    to_json({"rows": findings.rows})
    assert "nan" not in rule.conclude(findings.rows)


def test_settings_have_unique_names():
    assert len({case.name for case in rule.CASES}) == len(rule.CASES) >= 40
    assert {len(case.team) for case in rule.CASES} == {2, 3, 5}
    assert {case.rate for case in rule.CASES} == set(rule.RATES)
    assert {case.length for case in rule.CASES} == set(rule.LENGTHS)
    assert len(rule.FITTING_CASES) > len(rule.FEATURES)


def test_too_few_kinds_of_text_are_an_error(resources):
    with pytest.raises(ConservatorError, match="too few kinds of text"):
        rule.run(rule.Config(4, CASES[3:], ()), 0, untracked, resources)
    with pytest.raises(ConservatorError, match="no document has 9 bytes"):
        rule.excerpts([b"short"], 1, 9, 0)


def settings(gains, **features):
    """Rows of settings with gains and intervals of +-0.01."""
    offsets = {"difference_low": -0.01, "difference_high": 0.01, "right_low": -0.01, "right_high": 0.01}
    rows = []
    for number, gain in enumerate(gains):
        row = {"difference": gain, **{name: values[number] for name, values in features.items()}}
        rows.append(row | {key: row[key.partition("_")[0]] + offset for key, offset in offsets.items()})
    return rows


def test_rules_are_evaluated_on_settings_not_used_for_fitting():
    rng = np.random.default_rng(0)
    gains, fitting_gains = rng.normal(size=20) / 10, rng.normal(size=30) / 10
    noise = [rng.normal(size=len(values)) for values in (gains, fitting_gains)]
    rows = settings(gains, evidence=3 * gains, nats=-gains, right=gains, switches=noise[0])
    fitted = settings(
        fitting_gains, evidence=3 * fitting_gains, nats=-fitting_gains, right=fitting_gains, switches=noise[1]
    )
    by_method = {row["method"]: row for row in rule.compare_rules(rows, fitted)}
    for row in by_method.values():
        assert row["spearman"] == pytest.approx(1, abs=0.02)  # the sign of the log-likelihood is fitted
        assert row["sign_significant"] == 1
        assert row["error"] < 0.01
    exact = by_method[rule.RULES["right"]]
    assert (exact["error"], exact["covered"], exact["sign"]) == (0, 1, 1)
    wrong = settings(gains, evidence=gains, nats=gains, right=-gains, switches=gains)
    assert rule.compare_rules(wrong, fitted)[2]["spearman"] == pytest.approx(-1)


def test_ranks_and_signs():
    assert rule.rank_correlation(np.array([1.0, 2.0, 9.0]), np.array([0.1, 0.2, 0.3])) == pytest.approx(1)
    assert rule.rank_correlation(np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])) == pytest.approx(3**0.5 / 2)
    assert rule.rank_correlation(np.ones(3), np.arange(3.0)) == 0
    assert rule.sign(np.array([0.01, -0.01, 0.0004, 0.0])).tolist() == [1, -1, 0, 0]
