"""The token studies, with unigram experts of their texts."""

import gzip
import json
import pickle
from dataclasses import replace

import pytest
import torch

from conservator.errors import ConservatorError
from conservator.execution import Call, find_factory
from conservator.reference import PRESETS as PARTICLES
from conservator.reference import Particles
from conservator.training import TrainingTarget, runs
from conservator_studies import arxiv, arxiv_bytes, expert_training, readme_tokens, scale, sevenb, token_experts
from conservator_studies.byte import OURS
from conservator_studies.execution import tables
from conservator_studies.expert_training import Recipe, text_corpus, train_missing
from conservator_studies.resources import Resources
from conservator_studies.result import to_json
from conservator_studies.study import untracked
from conservator_studies.token_experts import load_or_train_adapters
from conservator_studies.tokens import AdapterTraining, TokenConfig, by_noise_decoding, damage_windows, mixed_windows
from support.fakes import FakeExpert
from support.flows import VOCABULARY
from support.token_experts import MaskedTokens
from support.uniform_experts import IndependentTokens

SMALL = Particles(2, 2, 2, steps=2)
PROSE = "The theorem of the quiet house is that nothing follows from it, and nobody minds. "
MATHS = "$x_{i+1} = \\frac{a}{b} + \\sum_{k} \\alpha_k$ "
CODE = "```python\nfor x in range(10):\n    print(x_1, y[2])\n```\n"


def documents(domain, split):
    """Yield distinct synthetic documents."""
    for n in range(24):
        if domain == "prose":
            yield f"{split} {n}. " + PROSE * 30
        elif domain == "code":
            yield "\n".join(f"def {split}_{n}_{k}(value):\n    return value[{k}] + {n}\n" for k in range(40))
        elif domain == "config":
            yield "\n".join(f"{split}{n}:\n  - name: key{k}\n    value: {k}" for k in range(40))
        else:
            inside = MATHS if domain == "arxiv" else "\n\n" + CODE + "\n"
            yield f"{split} {n}. " + (PROSE * (1 + n % 2) + inside * 2) * 30


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """A folder of corpora."""
    folder = tmp_path_factory.mktemp("corpora")
    for domain in ("prose", "code", "config", "arxiv", "readme"):
        for split in ("train", "eval"):
            lines = "".join(json.dumps({"text": text}) + "\n" for text in documents(domain, split))
            (folder / f"{domain}.{split}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    return folder


def frequencies(text):
    counts = torch.bincount(torch.from_numpy(VOCABULARY.encode(text[:20000]).tokens), minlength=VOCABULARY.size) + 0.1
    return counts.log()


def resources_of(corpora, folder, texts, kind=IndependentTokens):
    experts = {name: kind(frequencies(text), name, VOCABULARY) for name, text in texts.items()}
    return Resources(corpora, experts, folder)


def run(study, config, resources):
    with pytest.MonkeyPatch.context() as patch:
        for name in ("1.3B", "1.3B, reduced", "natural", "natural, reduced", "7B"):
            patch.setitem(PARTICLES, name, replace(SMALL, smoother=PARTICLES[name].smoother))
        findings = study.run(config, 0, untracked, resources)
    return findings.rows


def conclusion_of(name, rows, study):
    """Make the tables, the record and the conclusion; return the conclusion."""
    assert tables(name, rows)
    conclusion = study.STUDY.conclude(rows)
    assert "nan" not in conclusion
    to_json({"rows": rows})
    return conclusion


@pytest.fixture(scope="module")
def domain_texts():
    return {name: "\n".join(documents(name, "train")).encode() for name in ("prose", "code")}


def test_scale_has_every_row(corpora, domain_texts, tmp_path):
    texts = {**domain_texts, "generalist": domain_texts["prose"] + domain_texts["code"]}
    texts["generalist_2x"] = texts["generalist"]
    sizes = {"windows": 3, "length": 64, "least": 24, "particle_windows": 1, "rate_windows": 2, "calibration": 2}
    config = replace(scale.PRESETS["laptop"], **sizes, taus=(0.0, 0.4))
    rows = run(scale, config, resources_of(corpora, tmp_path, texts))
    by_method = {row["method"]: row for row in rows}
    assert set(scale.BASELINES) | set(scale.PARTICLE_METHODS) | {
        "r = 0.3",
        "r = 0.5",
        "r = 0.7",
        "tau = 0",
        "Ours",
    } <= set(by_method)
    assert by_method["local_particles"]["windows"] == 1
    assert by_method[OURS]["windows"] == 3
    assert by_method["hard_label"]["field_accuracy"] == 1
    assert by_method["tau = 0.4"]["paper"] == {"tau_accuracy": 0.679, "tau_field": 0.993}
    assert by_method["r = 0.5"]["rate_equal"] <= 1
    assert "Generalist, same compute" in conclusion_of("scale", rows, scale)


def test_natural_documents_are_restored_with_labels_of_both_kinds(corpora, tmp_path):
    sizes = {"windows": 4, "length": 64, "particle_windows": 1}
    texts = {"prose": PROSE.encode(), "math": MATHS.encode(), "code": CODE.encode()}
    resources = resources_of(corpora, tmp_path, texts)
    rows = run(arxiv, replace(arxiv.PRESETS["paper"], **sizes), resources)
    by_method = {row["method"]: row for row in rows}
    assert by_method["hard_label"]["field_accuracy"] == 1
    assert by_method[OURS]["field_accuracy"] > 0.6
    assert 0.25 <= by_method[OURS]["inside"] <= 0.75
    assert by_method[OURS]["documents"] == 4  # documents take turns
    assert "accuracy_math" in by_method["equal"]
    assert "The paper: 0.691" in conclusion_of("arxiv", rows, arxiv)
    rows = run(readme_tokens, replace(readme_tokens.PRESETS["paper"], **sizes), resources)
    assert {row["method"].split()[0] for row in rows} == {"matched"}  # named experts are the only pair
    assert "local evidence" in conclusion_of("readme-tokens", rows, readme_tokens)


def test_a_pair_of_masked_models_is_checked_and_composed(corpora, domain_texts, tmp_path):
    resources = resources_of(corpora, tmp_path, domain_texts, MaskedTokens)
    config = replace(sevenb.PRESETS["paper"], windows=2, length=64, least=24, particle_windows=1, checked=4)
    rows = run(sevenb, config, resources)
    by_method = {row["method"]: row for row in rows}
    assert set(sevenb.BASELINES) <= set(by_method)
    assert by_method["check code"]["energy_code"] < by_method["check code"]["energy_prose"]
    assert by_method["check prose"]["paper"] == {"energy_prose": 0.888, "energy_code": 1.078}
    assert "Each domain has its lowest energy with its own expert: yes" in conclusion_of("sevenb", rows, sevenb)


def test_unsuitable_experts_are_an_error(corpora, domain_texts, tmp_path, monkeypatch):
    uniform = resources_of(corpora, tmp_path, domain_texts)
    masked = resources_of(corpora, tmp_path, domain_texts, MaskedTokens)
    config = replace(scale.PRESETS["paper"], windows=1, length=64, least=24)
    with pytest.raises(ConservatorError, match="no token expert for generalist, generalist_2x"):
        scale.run(config, 0, untracked, uniform)
    assert "named: --experts generalist=NAME --experts generalist_2x=NAME" in scale.STUDY.lacks(config, uniform)
    assert scale.STUDY.lacks(scale.PRESETS["laptop"], uniform) == ""
    monkeypatch.setattr(token_experts, "find_spec", lambda name: None)
    assert "pip install" in scale.STUDY.lacks(scale.PRESETS["laptop"], uniform)
    mixed = mixed_windows({name: [text] for name, text in domain_texts.items()}, VOCABULARY, config, 0)
    with pytest.raises(ConservatorError, match="a study needs experts of one kind"):
        damage_windows(mixed, [uniform.experts["prose"], masked.experts["code"]], config, 0)
    trials = damage_windows(mixed, list(masked.experts.values()), config, 0)
    with pytest.raises(ConservatorError, match="needs experts with a uniform source"):
        by_noise_decoding(OURS, 1)(trials[0])


class ThisProcess:
    """A pool that runs tasks in this process, where attributes of modules can be replaced."""

    def __init__(self, factory, config, workers):
        threads = torch.get_num_threads()
        self.handler = find_factory(factory)(config)
        torch.set_num_threads(threads)

    def run(self, tasks):
        for task in tasks:
            call = Call(task)
            call.set_result(self.handler(task, None))
            yield call

    def close(self):
        """Do nothing."""


def test_a_base_and_its_adapters_are_trained_once(corpora, tmp_path, monkeypatch):
    """The second call loads all experts from the cache."""
    monkeypatch.setattr(expert_training, "WorkerPool", ThisProcess)
    monkeypatch.setattr(runs, "FINAL_WINDOWS", 2)
    monkeypatch.setattr(runs, "CURVE_WINDOWS", 2)
    config = TokenConfig(windows=1, training=AdapterTraining(tokens=300, base=128, steps=64))
    reduced = config.training.for_windows(config.windows)
    assert (reduced.base, reduced.steps) == (2, 1)
    resources = Resources(corpora, {}, tmp_path)
    texts = {name: text_corpus([PROSE.encode() * 60 + extra] * 1) for name, extra in (("prose", b"."), ("code", b"!"))}
    arguments = (resources, config, texts, untracked)
    first = load_or_train_adapters(*arguments, {"code": 2})
    assert [expert.spec.name for expert in first.values()] == ["prose", "code"]
    assert not first["prose"].spec.source.shows_noise
    assert first["prose"].base is first["code"].base
    assert first["code"].about["steps"] == 2 * first["prose"].about["steps"]
    monkeypatch.setattr(expert_training, "WorkerPool", None)
    loaded = load_or_train_adapters(*arguments, {"code": 2})
    assert loaded["code"].spec.fingerprint == first["code"].spec.fingerprint
    assert token_experts.has_token_expert(Resources(corpora, loaded, tmp_path), "code")


def test_every_recipe_has_a_different_folder(tmp_path):
    recipes = [
        Recipe("name", text_corpus([text]), TrainingTarget(), steps, "small", seed)
        for text in (b"a", b"b")
        for steps in (1, 2)
        for seed in (0, 1)
    ]
    assert len({recipe.folder(tmp_path) for recipe in recipes}) == len(recipes)
    assert pickle.loads(pickle.dumps(recipes[0])) == recipes[0]  # another process trains it
    assert train_missing([], tmp_path, untracked) == {}


def test_the_byte_level_study_uses_byte_experts(corpora, tmp_path, monkeypatch):
    monkeypatch.setattr(
        arxiv_bytes, "train_missing", lambda recipes, cache, track: {recipe.name: cache for recipe in recipes}
    )
    monkeypatch.setattr(
        arxiv_bytes, "load_all", lambda folders: {name: FakeExpert(n, 256, name) for n, name in enumerate(folders)}
    )
    config = replace(arxiv_bytes.PRESETS["laptop"], windows=3, length=128, particle_windows=0)
    rows = run(arxiv_bytes, config, Resources(corpora, {}, tmp_path))
    assert {row["method"] for row in rows} >= {OURS, "single:prose", "single:math", "hmm"}
    conclusion_of("arxiv-bytes", rows, arxiv_bytes)
