"""The experts of the token studies: adapters of one base, which the studies train unless ``--experts`` names others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from conservator.errors import ConservatorError
from conservator.experts import Expert
from conservator.training import Corpus, TrainingTarget
from conservator.vocabularies import BYTES
from conservator_studies.corpora import read_domain
from conservator_studies.resources import Resources
from conservator_studies.study import Track
from conservator_studies.trained import Recipe, load_all, text_corpus, train_once

WINDOWS = 64  # from so many on, training has its full length
GENERAL = ("readme", "arxiv")  # the texts of a base, of kinds that its adapters are not for


@dataclass(frozen=True)
class Training:
    """How a base and its adapters are trained.

    Attributes:
        source: uniform or mask.
        tokens: the size of the vocabulary.
        base: steps of the base.
        steps: steps of an adapter.
        general: the texts of the base.
    """

    source: str = "uniform"
    tokens: int = 1024
    base: int = 2000
    steps: int = 600
    general: tuple[str, ...] = GENERAL

    def for_windows(self, count: int) -> "Training":
        """Shorter if there are few windows, so that a quick try trains quickly."""
        share = min(1.0, count / WINDOWS)
        return replace(self, base=max(1, round(share * self.base)), steps=max(1, round(share * self.steps)))


class Adapted(Protocol):
    """The sizes of a study with adapters: how they are trained, or None if they are named."""

    @property
    def training(self) -> Training | None:
        """How they are trained."""


def adapt(
    resources: Resources,
    training: Training | None,
    windows: int,
    texts: Mapping[str, Corpus],
    track: Track,
    longer: Mapping[str, int] | None = None,
) -> dict[str, Expert]:
    """An adapter for each of the roles in ``texts``, trained once.

    Args:
        resources: where experts over tokens are named for all of the roles, these are returned.
        training: how to train them; None if they have to be named.
        windows: how many windows are restored with them.
        texts: role -> what its adapter is trained on.
        track: shows the progress.
        longer: role -> how many times longer it is trained than the others.
    """
    given = {role: resources.experts[role] for role in texts if was_named(resources, role)}
    if len(given) == len(texts):
        return given
    if training is None:
        raise ConservatorError(f"no expert over tokens for {', '.join(role for role in texts if role not in given)}")
    home, training = resources.folder / "experts", training.for_windows(windows)
    base = make_base(resources.corpora, training, home, track)
    recipes = [
        Recipe(role, corpus, TrainingTarget(base=base), training.steps * (longer or {}).get(role, 1))
        for role, corpus in texts.items()
    ]
    return load_all(train_once(recipes, home, track))


def lacking(*roles: str) -> Callable[[Adapted, Resources | None], str]:
    """What a study lacks that has adapters in these roles, as ``Study.lacks``."""

    def lacks(config: Adapted, resources: Resources | None) -> str:
        missing = [role for role in roles if resources is None or not was_named(resources, role)]
        if missing and config.training is None:
            named = " ".join(f"--experts {role}=NAME" for role in missing)
            return f"with this preset its experts are not trained, but named: {named}"
        if missing and find_spec("peft") is None:
            return 'adapters need an extra: pip install "conservator[hf]"'
        return ""

    return lacks


def make_base(corpora: Path, training: Training, home: Path, track: Track) -> Path:
    """The folder of a base that is trained on texts of all kinds."""
    documents = [text for name in training.general for text in read_domain(corpora, name, "train").documents]
    wish = TrainingTarget(training.source, str(training.tokens))
    return train_once([Recipe("base", text_corpus(documents), wish, training.base)], home, track)["base"]


def was_named(resources: Resources, role: str) -> bool:
    """Whether there is an expert for this role of another kind than those built in, which read bytes and see masks."""
    expert = resources.experts.get(role)
    if expert is None:
        return False
    return expert.spec.vocabulary.fingerprint != BYTES.fingerprint or not expert.spec.source.shows_noise
