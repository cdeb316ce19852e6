"""The study of lacunae, on a small set of texts."""

import gzip
import json
from types import SimpleNamespace

import numpy as np
import pytest

from conservator.errors import ConservatorError
from conservator_studies import lacunae
from conservator_studies.edited_texts import most_frequent, read_set, sample_lacunae

RESTORED = "dis manibus vixit annis fecit"


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpora")
    (folder / "damage").mkdir()
    entries = []
    for number in range(24):
        start, stop = [(4, 7), (12, 14), (25, 28)][number % 3]
        damaged = RESTORED[:start] + "\ufffd" * (stop - start) + RESTORED[stop:]
        gap = {"start": start, "len": stop - start, "text": RESTORED[start:stop], "low": False}
        entry = {"id": f"t{number}", "damaged": damaged, "restored_by_editors": RESTORED, "gaps": [gap], "lang": "la"}
        entries.append(json.dumps(entry))
    (folder / "damage" / "stones.dev.jsonl.gz").write_bytes(gzip.compress("\n".join(entries).encode()))
    return folder


def test_texts_are_written_in_leiden_conventions(corpora):
    text = read_set(corpora, "stones")[0]
    leiden, starts = text.in_leiden()
    assert leiden == "dis [...]ibus vixit annis fecit"
    assert starts == [5]
    with pytest.raises(ConservatorError, match="no damage/walls"):
        read_set(corpora, "walls")


def test_the_most_frequent_string_in_the_longest_context():
    listed = most_frequent(["abc xbc abd"], "a", "c", 1, 20)
    assert listed[0] == ("b", 1.0)
    assert most_frequent(["abc"], "z", "z", 1, 2) == [("a", 1 / 3), ("b", 1 / 3)]


def test_a_sample_has_the_requested_size(corpora):
    texts = read_set(corpora, "stones")
    sampled = sample_lacunae(texts, 7, 10, 3, np.random.default_rng(0))
    assert sum(len(item.numbers) for item in sampled) == 7
    assert sample_lacunae(texts, 7, 1, 3, np.random.default_rng(0)) == []


def test_references_restore_the_lacunae(corpora):
    config = lacunae.Config(sets=("stones",), lacunae=8, per_text=1)
    resources = SimpleNamespace(corpora=corpora)
    assert lacunae.lacks(config, resources) == ""
    findings = lacunae.run(config, 0, lambda items, title: items, resources)
    rows = {row["method"]: row for row in findings.rows}
    row = rows[f"all: {lacunae.LABELS['set']}"]
    assert row["top1"] == row["top20"] == 1.0
    assert row["cer"] == 0.0
    assert row["lacunae"] == 8


def test_the_risk_coverage_area_of_a_perfect_order():
    def item(probability, is_right):
        return lacunae.Scored("set", "text", "a", (("a" if is_right else "b", probability),))

    assert lacunae.risk_coverage_area([item(0.9, True), item(0.1, True)]) == 0
    assert lacunae.risk_coverage_area([item(0.1, False), item(0.9, True)]) == 0.25
    assert lacunae.distance("abc", "ac") == lacunae.distance("", "a") == 1


def test_missing_texts_are_reported(tmp_path):
    assert "damage/NAME.dev" in lacunae.lacks(lacunae.Config(), SimpleNamespace(corpora=tmp_path))
    assert "--corpora" in lacunae.lacks(lacunae.Config(), None)
