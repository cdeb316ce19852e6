"""The study of language models, with Markov chains over bytes in place of language models."""

import gzip
import json

import numpy as np
import pytest
import torch

from conservator import Restorer, damage
from conservator.experts import Meter
from conservator.experts.causal import byte_conditionals
from conservator.pipelines.rescoring import Rescorer
from conservator.reference import MarkovExpert
from conservator_studies import language_models
from conservator_studies.drafts import make_draft
from conservator_studies.resources import Resources
from conservator_studies.shared_weights import CausalEvidence, FixedWeightRescorer, compute_evidence
from conservator_studies.study import untracked
from support.fakes import FakeExpert, TextExpert

VERSE = "the quick brown fox jumps over the lazy dog;\n" * 4
CODE = "x = [y for y in z if y]\n" * 8


def markov_chain(text, name):
    """A Markov chain over bytes with the transition counts of a text."""
    counts = torch.full((256, 256), 0.01)
    for pair in zip(text.encode(), text.encode()[1:], strict=False):
        counts[pair] += 1
    return MarkovExpert([bytes([byte]) for byte in range(256)], torch.zeros(256), counts.log(), name)


def numbered(text):
    """Four distinct texts."""
    return [f"{number}\n{text}" for number in range(4)]


MODELS = [markov_chain(VERSE, "verse"), markov_chain(CODE, "code")]


@pytest.fixture
def resources(tmp_path):
    texts = {"readme": [VERSE + CODE, CODE + VERSE], "prose": numbered(VERSE), "code": numbered(CODE)}
    for name, kind_texts in texts.items():
        with gzip.open(tmp_path / f"{name}.eval.jsonl.gz", "wt") as lines:
            lines.writelines(json.dumps({"text": text}) + "\n" for text in kind_texts)
    experts = {name: FakeExpert(number, name=name) for number, name in enumerate(language_models.EXPERTS)}
    experts |= {"prose": TextExpert(VERSE, name="prose"), "code": TextExpert(CODE, name="code")}
    return Resources(tmp_path, experts, tmp_path)


CONFIG = language_models.Config(documents=2, size=120, mixed=2, mixed_size=80, apart=2)


def test_every_method_has_a_row(resources, monkeypatch):
    monkeypatch.setattr(language_models, "find_models", lambda config: MODELS)
    findings = language_models.run(CONFIG, 0, untracked, resources)
    rows = {row["method"]: row for row in findings.rows}
    assert list(rows) == list(language_models.LABELS)
    assert {row["count"] for row in findings.rows if "accuracy" in row} == {6}  # two of each available kind
    assert {row["count"] for row in findings.rows if "mixed_accuracy" in row} == {2}
    for row in findings.rows:
        if "difference" in row:
            assert rows["composed"]["accuracy"] - row["accuracy"] == pytest.approx(row["difference"])
        if "mixed_difference" in row:
            difference = rows["local"]["mixed_accuracy"] - row["mixed_accuracy"]
            assert difference == pytest.approx(row["mixed_difference"])
    assert (rows["equal"]["weight_prose"], rows["equal"]["weight_code"]) == (0.5, 0.5)
    assert rows["local"]["weight_prose"] > rows["local"]["weight_code"]
    assert rows["networks"]["models"] == ["verse ", "code "]
    assert len(language_models.STUDY.grids(findings.rows)) == len(language_models.TABLES)
    assert "On 2 mixed documents, local weights" in language_models.conclude(findings.rows)


def test_mixed_documents_need_a_second_model(resources, monkeypatch):
    monkeypatch.setattr(language_models, "find_models", lambda config: MODELS[:1])
    findings = language_models.run(CONFIG, 0, untracked, resources)
    assert not [row for row in findings.rows if "mixed_accuracy" in row]
    assert "mixed" not in language_models.conclude(findings.rows)


def test_a_draft_equals_the_restoration_of_the_product(resources):
    experts = resources.choose(language_models.EXPERTS)
    document = (VERSE + CODE).encode()
    damaged = damage(document, 0.2, seed=1)
    product = Restorer(experts, select=True).restore(damaged, seed=1, lost="bytes")
    draft = make_draft(experts, damaged, 1)
    assert draft.text == product.text.encode()
    assert draft.score(document).confidence == pytest.approx(product.confidence[~draft.visible])


def test_local_weights_equal_those_of_the_rescorer(resources):
    experts = resources.choose(language_models.EXPERTS)
    draft = make_draft(experts, damage((VERSE + CODE).encode(), 0.1, seed=2), 2)
    local = compute_evidence(MODELS, draft).weights()["local"]
    assert local == pytest.approx(Rescorer(MODELS).weights(draft.text, draft.visible))
    with_given, with_inferred = (
        rescorer(draft.damaged, draft.positions, draft.decoded, Meter()).decoded.tokens
        for rescorer in (FixedWeightRescorer(MODELS, given=local), Rescorer(MODELS))
    )
    assert with_given.tolist() == with_inferred.tolist()


def test_constant_weights_prefer_the_model_of_the_text():
    text = VERSE.encode()
    tokens = np.frombuffer(text, dtype=np.uint8).astype(np.int64)
    evidence = CausalEvidence(
        [byte_conditionals(model, text) for model in MODELS], tokens, np.ones(len(text), dtype=bool), 0.0
    )
    for name, weights in evidence.weights().items():
        assert weights.shape == (len(text), 2)
        assert weights.sum(axis=1) == pytest.approx(1)
        if name != "equal":
            assert (weights[:, 0] > 0.9).all(), name
    best = min(evidence.loss(np.array([1 - share, share])) for share in np.linspace(0, 1, 21))
    assert evidence.loss(evidence.packllm_opt()) == pytest.approx(best)


def test_mixed_documents_have_masks_of_their_code(resources):
    documents = language_models.mixed_documents(resources, CONFIG)
    for number, (text, code) in enumerate(documents):
        assert len(text) == len(code)
        assert bytes(np.frombuffer(text, dtype=np.uint8)[code]) == CODE[:40].encode()
        assert code[0] == (number == 1)


def test_missing_dependencies_and_models_are_reported(monkeypatch, tmp_path):
    monkeypatch.setenv("CONSERVATOR_HOME", str(tmp_path))
    monkeypatch.setattr(language_models, "find_spec", lambda name: None)
    assert "conservator[lm]" in language_models.lacks(None, None)
    monkeypatch.setattr(language_models, "find_spec", lambda name: name)
    assert "conservator experts add smollm2" in language_models.lacks(None, None)
