"""Experts of the token studies: adapters of one base model, trained by the studies or named with ``--experts``."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from conservator.errors import ConservatorError
from conservator.experts import Expert
from conservator.training import Corpus, TrainingTarget
from conservator.vocabularies import BYTES
from conservator_studies.corpora import read_domain
from conservator_studies.expert_training import Recipe, load_all, text_corpus, train_missing
from conservator_studies.resources import Resources
from conservator_studies.study import Study, Track
from conservator_studies.tokens import AdapterTraining, TokenConfig


def load_or_train_adapters(
    resources: Resources,
    config: TokenConfig,
    texts: Mapping[str, Corpus],
    track: Track,
    step_factors: Mapping[str, int] | None = None,
) -> dict[str, Expert]:
    """Return an adapter for each role in ``texts``; train missing adapters once.

    Args:
        resources: named token experts are returned if every role has one.
        config: configuration of the study.
        texts: role -> training corpus of its adapter.
        track: shows progress.
        step_factors: role -> factor on the training steps; 1 by default.
    """
    named = {role: resources.experts[role] for role in texts if has_token_expert(resources, role)}
    if len(named) == len(texts):
        return named
    if config.training is None:
        missing = ", ".join(role for role in texts if role not in named)
        raise ConservatorError(f"no token expert for {missing}; name one with --experts ROLE=NAME")
    cache, training = resources.folder / "experts", config.training.for_windows(config.windows)
    base = make_base(resources.corpora, training, cache, track)
    recipes = [
        Recipe(role, corpus, TrainingTarget(base=base), training.steps * (step_factors or {}).get(role, 1))
        for role, corpus in texts.items()
    ]
    return load_all(train_missing(recipes, cache, track))


def adapter_study(roles: Sequence[str], **options: Any) -> Study:
    """Make a study with adapters in these roles; ``options`` are the other fields of ``Study``."""

    def lacks(config: TokenConfig, resources: Resources | None) -> str:
        missing = [role for role in roles if resources is None or not has_token_expert(resources, role)]
        if missing and config.training is None:
            options = " ".join(f"--experts {role}=NAME" for role in missing)
            return f"this preset does not train experts; they must be named: {options}"
        if missing and find_spec("peft") is None:
            return 'adapters need an optional dependency: pip install "conservator[hf]"'
        return ""

    return Study(lacks=lacks, **options)


def make_base(corpora: Path, training: AdapterTraining, cache: Path, track: Track) -> Path:
    """Train the base model on ``training.general``, or find it in ``cache``; return its folder."""
    documents = [text for name in training.general for text in read_domain(corpora, name, "train").documents]
    target = TrainingTarget(training.source, str(training.tokens))
    return train_missing([Recipe("base", text_corpus(documents), target, training.base)], cache, track)["base"]


def has_token_expert(resources: Resources, role: str) -> bool:
    """Whether ``resources`` has a non-built-in expert for this role: over tokens, or with a uniform source."""
    expert = resources.experts.get(role)
    if expert is None:
        return False
    return expert.spec.vocabulary.fingerprint != BYTES.fingerprint or not expert.spec.source.shows_noise
