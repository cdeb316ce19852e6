"""The study of README files, on a small corpus with experts of known texts."""

import gzip
import json

import numpy as np
import pytest

from conservator import ConservatorError
from conservator_studies import readme
from conservator_studies.resources import Resources
from conservator_studies.scored_documents import ScoredDocuments, ScoredRestoration
from conservator_studies.study import untracked
from support.fakes import FakeExpert, TextExpert

VERSE = "the quick brown fox jumps over the lazy dog; " * 2
CODE = "x = [y for y in z if y]\n" * 4


@pytest.fixture
def corpora(tmp_path):
    with gzip.open(tmp_path / "readme.eval.jsonl.gz", "wt") as lines:
        for text in (VERSE + CODE, CODE + VERSE, "has a \ufffd of its own", VERSE * 2):
            lines.write(json.dumps({"text": text}) + "\n")
    with gzip.open(tmp_path / "readme.train.jsonl.gz", "wt") as lines:
        lines.write(json.dumps({"text": VERSE + "and more"}) + "\n")
    return tmp_path


def test_every_method_is_measured_on_every_document(corpora):
    experts = [TextExpert(VERSE, name="prose"), TextExpert(CODE, name="code")]
    team = {expert.spec.name: expert for expert in (*experts, FakeExpert(name="generalist"))}
    config = readme.Config(rate=0.2, domains=("prose", "code"))
    findings = readme.run(config, 0, untracked, Resources(corpora, team, corpora))
    rows = {row["method"]: row for row in findings.rows if "accuracy" in row}
    assert list(rows) == [
        *("product", "without_memory", "memory_alone", "global_memory", "single:prose", "single:code", "equal"),
        *("global", "generalist", "generalist_memory", "product_like", "memory_like_alone"),
    ]
    assert rows["product"]["count"] == 3
    singles = rows["single:prose"], rows["single:code"]
    assert rows["product"]["accuracy"] >= max(row["accuracy"] for row in singles)
    assert rows["generalist"]["difference"] > 0
    curve = [row for row in findings.rows if "right" in row]
    assert sum(row["share"] for row in curve) == pytest.approx(1)
    assert next(row for row in findings.rows if row["method"] == "calibration")["calibration_error"] < 0.2
    assert len(readme.STUDY.grids(findings.rows)) == len(readme.TABLES)
    assert "On 3 real README files the product is" in readme.conclude(findings.rows)


def test_confidence_is_binned():
    outcome = ScoredRestoration(np.array([True, False, True, True]), np.array([0.95, 0.15, 1.0, 0.55]), 4, 0.0)
    rows = readme.reliability_rows(ScoredDocuments([outcome]))
    assert [(row["method"], row["count"], row["right"]) for row in rows] == [
        ("0.1 to 0.2", 1, 0.0),
        ("0.5 to 0.6", 1, 1.0),
        ("at least 0.9", 2, 1.0),
    ]


def test_without_training_texts_there_are_no_references(tmp_path):
    assert readme.references(tmp_path, "readme") == []
    methods = readme.make_methods([FakeExpert()], [], [])
    assert readme.WITH_REFERENCES not in methods


def test_a_missing_corpus_is_an_error(tmp_path):
    with pytest.raises(ConservatorError, match="readme"):
        readme.read_documents(tmp_path, "readme", 1, 100)
