"""Corpora: a folder, the demo, and public data sets with a fake ``datasets``."""

import gzip
import json
import sys
from types import SimpleNamespace

import pytest

from conservator import ConservatorError
from conservator_studies.corpora import DEMO, DOMAINS, find_corpora, read_domain, read_domains
from conservator_studies.huggingface import DATASETS, articles, fetch


def write(folder, name, split, texts):
    lines = "\n".join(json.dumps({"text": text}) for text in texts)
    (folder / f"{name}.{split}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))


def test_corpora_are_read_with_their_filters(tmp_path):
    texts = {"prose": "One. " * 100, "code": "x = 1  # c\n" * 100, "config": "# c\na: 1\n" * 100}
    for name, text in texts.items():
        write(tmp_path, name, "eval", (text, text + text, "y: 2"))
    domains = read_domains(tmp_path, "eval")
    assert {name: len(documents) for name, documents in domains.items()} == {"prose": 2, "code": 2, "config": 2}
    assert b"#" not in b"".join(domains["code"] + domains["config"])
    held_out = read_domains(tmp_path, "eval", min_bytes=1, held_out=True)
    assert all(0 < sum(map(len, held_out[name])) < sum(map(len, domains[name])) / 5 for name in domains)
    with pytest.raises(ConservatorError, match="there is no"):
        read_domains(tmp_path, "train")


def test_comments_are_kept_on_request(tmp_path):
    write(tmp_path, "code", "eval", ["x = 1  # one\n"])
    assert read_domain(tmp_path, "code", "eval").documents == (b"x = 1\n",)
    assert read_domain(tmp_path, "code", "eval", comments=True).documents == (b"x = 1  # one\n",)


def test_a_folder_is_found_by_option_or_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("CONSERVATOR_CORPORA", raising=False)
    with pytest.raises(ConservatorError, match=r"--corpora PATH or set CONSERVATOR_CORPORA .* --corpora demo"):
        find_corpora(None, tmp_path)
    assert find_corpora(str(tmp_path), tmp_path) == tmp_path
    monkeypatch.setenv("CONSERVATOR_CORPORA", str(tmp_path))
    assert find_corpora(None, tmp_path) == tmp_path
    with pytest.raises(ConservatorError, match="there is no folder"):
        find_corpora(str(tmp_path / "nowhere"), tmp_path)


def test_the_demo_has_windows_of_every_domain_in_both_splits(tmp_path):
    assert find_corpora("demo", tmp_path) == DEMO
    seen = set()
    for split in ("train", "eval"):
        domains = read_domains(DEMO, split)
        assert list(domains) == list(DOMAINS)
        assert all(len(documents) >= 3 for documents in domains.values())
        texts = {text for documents in domains.values() for text in documents}
        assert not texts & seen
        seen |= texts


def test_articles_begin_at_their_headings():
    lines = [" = A = \n", " one\n", " = = Part = = \n", " two\n", " = B = \n", " three\n"]
    result = list(articles({"text": line} for line in lines))
    assert result == [" = A = \n one\n = = Part = = \n two\n", " = B = \n three\n"]


class FakeDatasets:
    """Replaces ``datasets``: returns rows of a split, and records the calls."""

    def __init__(self):
        self.calls = []

    def load_dataset(self, path, subset, *, split, streaming):
        assert streaming
        self.calls.append((path, subset, split))
        if path.endswith("wikitext"):
            return [{"text": f" = {split} = \n"}, {"text": " Words.\n"}]
        if path.endswith("code_search_net"):
            return [{"whole_func_string": f"def {split}():\n    return {number}\n"} for number in range(3)]
        return [{"content": f"number: {number}\n"} for number in range(40)]


def test_public_data_sets_are_downloaded_once(tmp_path, monkeypatch):
    fake = FakeDatasets()
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=fake.load_dataset))
    assert find_corpora("huggingface", tmp_path) == tmp_path
    assert len(fake.calls) == 6
    assert ("Salesforce/wikitext", "wikitext-103-raw-v1", "test") in fake.calls
    documents = {name: read_domain(tmp_path, name, "eval").documents for name in DATASETS}
    assert documents["prose"] == (b" = test = \n Words.\n",)
    assert len(documents["code"]) == 3
    assert documents["config"] == (b"number: 0\n", b"number: 20\n")  # of a single split, every 20th document
    assert len(read_domain(tmp_path, "config", "train").documents) == 38
    fetch(tmp_path)
    assert len(fake.calls) == 6


def test_a_missing_dependency_is_reported_with_the_command_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConservatorError, match=r"conservator\[datasets\]"):
        fetch(tmp_path)
