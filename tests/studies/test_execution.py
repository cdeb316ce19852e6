"""Running a study, and telling whether a result is still good."""

import json
from dataclasses import replace

import pytest

from conservator_studies import contextual, execution, result
from conservator_studies.execution import Request, execute, is_current
from conservator_studies.resources import Resources
from conservator_studies.study import TextStudy, untracked


@pytest.fixture
def committed(monkeypatch):
    """A checkout whose code is that of a commit."""
    for module in (execution, result):
        monkeypatch.setattr(module, "commit", lambda: "abc")


def test_a_result_is_current_until_something_it_depends_on_changes(tmp_path, committed, monkeypatch):
    request, path = Request("contextual", "laptop", 3, 1), tmp_path / "contextual.json"
    assert not is_current(path, request)
    found, written = execute(request, tmp_path, untracked)
    assert written[0] == path
    assert {one.name for one in written} == {"contextual.json", "contextual.md", "contextual.png"}
    assert json.loads(path.read_text())["rows"] == found.rows
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
def test_code_that_is_of_no_commit_vouches_for_nothing(tmp_path, commit, monkeypatch):
    for module in (execution, result):
        monkeypatch.setattr(module, "commit", lambda: commit)
    request = Request("contextual", "laptop", 0, 1)
    execute(request, tmp_path, untracked)
    assert not is_current(tmp_path / "contextual.json", request)


def test_a_damaged_result_is_made_again(tmp_path, committed):
    for text in ("", "{}", "[]", '{"figures": 3}'):
        (tmp_path / "contextual.json").write_text(text)
        assert not is_current(tmp_path / "contextual.json", Request("contextual", "laptop", 0, 1))


def test_other_experts_or_texts_make_another_result(tmp_path, committed, monkeypatch):
    class FixedText:
        def __init__(self, fingerprint):
            self.spec = type("Spec", (), {"fingerprint": fingerprint})

    def given(fingerprint, texts):
        (tmp_path / "prose.eval.jsonl").write_text(texts)
        resources = Resources(tmp_path, {"prose": FixedText(fingerprint)}, tmp_path)
        return Request("contextual", "laptop", 0, 1, resources)

    plain = contextual.STUDY
    study = TextStudy(
        presets=plain.presets,
        unit=plain.unit,
        tables=plain.tables,
        labels=plain.labels,
        run=lambda config, seed, track, resources: plain.run(config, seed, track),
    )
    monkeypatch.setattr(contextual, "STUDY", study)
    execute(given("a", "x"), tmp_path, untracked)
    path = tmp_path / "contextual.json"
    assert is_current(path, given("a", "x"))
    assert not is_current(path, given("b", "x"))
    assert not is_current(path, given("a", "y"))
