"""Running a study, and checking whether a result is current."""

import json
from dataclasses import replace

import pytest

from conservator_studies import contextual, execution
from conservator_studies.execution import Request, execute, is_current
from conservator_studies.resources import Resources
from conservator_studies.study import untracked


@pytest.fixture
def committed(monkeypatch):
    """A checkout without local changes."""
    monkeypatch.setattr(execution, "commit", lambda: "abc")


def test_a_result_is_current_until_one_of_its_inputs_changes(tmp_path, committed, monkeypatch):
    request, path = Request("contextual", "laptop", 3, 1), tmp_path / "contextual.json"
    assert not is_current(path, request)
    executed, written = execute(request, tmp_path, untracked)
    assert written[0] == path
    assert {path.name for path in written} == {"contextual.json", "contextual.md", "contextual.png"}
    record = json.loads(path.read_text())
    assert record == json.loads(json.dumps(executed))
    assert list(record) == [
        *("name", "preset", "commit", "seed", "config", "experts", "corpora", "versions", "seconds", "figures", "rows")
    ]
    assert {"python", "torch", "numpy", "numba", "conservator"} <= set(record["versions"])
    assert record["commit"] == "abc"
    assert is_current(path, request)
    assert not is_current(path, replace(request, seed=4))
    assert not is_current(path, replace(request, limit=2))
    assert not is_current(path, replace(request, preset="paper"))
    (tmp_path / "contextual.png").rename(tmp_path / "elsewhere.png")
    assert not is_current(path, request)
    (tmp_path / "elsewhere.png").rename(tmp_path / "contextual.png")
    monkeypatch.setattr(execution, "commit", lambda: "abd")
    assert not is_current(path, request)


@pytest.mark.parametrize("commit", [None, "abc-dirty"])
def test_results_of_uncommitted_code_are_never_current(tmp_path, commit, monkeypatch):
    monkeypatch.setattr(execution, "commit", lambda: commit)
    request = Request("contextual", "laptop", 0, 1)
    execute(request, tmp_path, untracked)
    assert not is_current(tmp_path / "contextual.json", request)


def test_an_invalid_result_file_is_not_current(tmp_path, committed):
    for text in ("", "{}", "[]", '{"figures": 3}'):
        (tmp_path / "contextual.json").write_text(text)
        assert not is_current(tmp_path / "contextual.json", Request("contextual", "laptop", 0, 1))


def test_results_with_other_experts_or_texts_are_not_current(tmp_path, committed, monkeypatch):
    class FakeExpert:
        def __init__(self, fingerprint):
            self.spec = type("Spec", (), {"fingerprint": fingerprint})

    def make_request(fingerprint, texts):
        (tmp_path / "prose.eval.jsonl").write_text(texts)
        resources = Resources(tmp_path, {"prose": FakeExpert(fingerprint)}, tmp_path)
        return Request("contextual", "laptop", 0, 1, resources)

    monkeypatch.setattr(contextual, "STUDY", replace(contextual.STUDY, needs_resources=True))
    execute(make_request("a", "x"), tmp_path, untracked)
    path = tmp_path / "contextual.json"
    assert is_current(path, make_request("a", "x"))
    assert not is_current(path, make_request("b", "x"))
    assert not is_current(path, make_request("a", "y"))
