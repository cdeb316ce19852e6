"""The study of documents of several kinds, on a small corpus with fake experts."""

import gzip
import json

import pytest

from conservator_studies import documents
from conservator_studies.resources import Resources
from conservator_studies.study import untracked
from support.fakes import FakeExpert, TextExpert

VERSE = "the quick brown fox jumps over the lazy dog; " * 3
CODE = "x = [y for y in z if y]\n" * 4


def test_every_kind_and_damage_has_a_row(tmp_path):
    for name, texts in {
        "prose.eval": (VERSE, VERSE * 2),
        "prose.train": (CODE,),
        "code.eval": (CODE, CODE * 2),
    }.items():
        with gzip.open(tmp_path / f"{name}.jsonl.gz", "wt") as lines:
            lines.writelines(json.dumps({"text": text}) + "\n" for text in texts)
    experts = {name: FakeExpert(number, name=name) for number, name in enumerate(documents.EXPERTS)}
    experts |= {"prose": TextExpert(VERSE, name="prose"), "code": TextExpert(CODE, name="code")}
    config = documents.Config(documents=2, damages=(("code", 0.3, 4),))
    findings = documents.run(config, 0, untracked, Resources(tmp_path, experts, tmp_path))
    rows = {row["method"]: row for row in findings.rows}
    assert list(rows) == [
        "prose, 10% lost",
        "code, 10% lost",
        "code, 30% lost in bursts of 4",
    ]  # the corpus has no other kinds
    assert [name for name, row in rows.items() if "accuracy_like" in row] == ["prose, 10% lost"]
    for row in findings.rows:
        assert row["count"] == 2
        assert row["accuracy_product"] - row["accuracy_plain"] == pytest.approx(row["difference"])
        assert 0 <= row["calibration_error"] <= 1
    assert len(documents.STUDY.grids(findings.rows)) == len(documents.TABLES)
    assert "increases the accuracy by between" in documents.conclude(findings.rows)
