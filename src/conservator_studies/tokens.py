"""What the token studies share: windows of tokens, one trial for each, and every method on each of them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from conservator.channels import MaskChannel, Observation
from conservator.errors import ConservatorError
from conservator.experts import Expert, Team
from conservator.field import Inferred
from conservator.reference import PRESETS as PARTICLES
from conservator.reference import decode_uniform
from conservator.vocabularies import Vocabulary
from conservator_studies.baselines import Composed, Setting, UniformSetting, find_baseline
from conservator_studies.byte import Trial
from conservator_studies.mixtures import Mixtures, mix
from conservator_studies.restoration import Restored, by_region, describe, join, judge
from conservator_studies.result import Metrics, Row
from conservator_studies.study import Track

READ = 2**15  # bytes of a document that are cut into tokens
ROUNDS = 6  # steps of the iterative decoder
Method = Callable[[Trial], Restored]


@dataclass(frozen=True)
class TokenConfig:
    """The sizes of a token study (table "settings").

    Attributes:
        windows: the number of windows.
        length: tokens of a window.
        least: the least number of tokens of a segment.
        rate: the share of tokens that is lost.
        particles: the name of the settings of Algorithm 1; its smoother and its step size are also those of routers.
        particle_windows: on how many of the windows Algorithm 1 runs.
    """

    windows: int = 256
    length: int = 512
    least: int = 128
    rate: float = 0.3
    particles: str = "1.3B"
    particle_windows: int = 2


def cut_documents(texts: Mapping[str, Sequence[bytes]], vocabulary: Vocabulary) -> dict[str, list[list[int]]]:
    """The beginnings of documents as tokens."""
    return {
        name: [vocabulary.encode(shortened(text)).tokens.tolist() for text in documents]
        for name, documents in texts.items()
    }


def shortened(text: bytes) -> bytes:
    """The beginning of a text, whole characters alone."""
    return text[:READ].decode(errors="ignore").encode()


def mixed_windows(
    texts: Mapping[str, Sequence[bytes]], vocabulary: Vocabulary, config: TokenConfig, seed: int
) -> Mixtures:
    """Windows that mix documents of several domains."""
    tokens = cut_documents(texts, vocabulary)
    return mix(tokens, config.windows, length=config.length, min_segment=config.least, seed=seed)


@dataclass(frozen=True)
class Trials:
    """Damaged windows as trials, each made when it is asked for, so that what its methods share is not kept.

    Attributes:
        mixed: the windows, clean.
        observation: the same, damaged.
        experts: all with a mask source, or all with a uniform source.
        generalists: experts that are not composed, of the same kind.
        options: of every setting.
        seed: of the windows; every window has a seed, and thereby a source, of its own.
    """

    mixed: Mixtures
    observation: Observation
    experts: Sequence[Expert]
    generalists: Sequence[Expert]
    options: Mapping[str, Any]
    seed: int

    def __len__(self) -> int:
        """The number of windows."""
        return len(self.mixed.tokens)

    def __getitem__(self, number: int) -> Trial:
        """The trial of one window."""
        mixed, damaged = self.mixed.between(number, number + 1), self.observation[number : number + 1]
        seed, others = 1000 * (self.seed + 1) + number, self.generalists
        if self.experts[0].spec.source.shows_noise:
            team = Team(self.experts)
            return Trial(mixed, Setting(team, damaged, mixed.labels, seed, generalists=others, **self.options))
        setting = UniformSetting.of(self.experts, damaged, mixed.labels, seed, generalists=others, **self.options)
        return Trial(mixed, setting)


def damage_windows(
    mixed: Mixtures, experts: Sequence[Expert], config: TokenConfig, seed: int, generalists: Sequence[Expert] = ()
) -> Trials:
    """Lose a share of the tokens of windows."""
    if len({expert.spec.source.shows_noise for expert in (*experts, *generalists)}) > 1:
        raise ConservatorError("some experts have a mask source, and some a uniform source; a study takes one kind")
    channel, particles = MaskChannel(experts[0].spec.vocabulary.size, config.rate), PARTICLES[config.particles]
    observation = channel.corrupt(mixed.tokens, torch.Generator().manual_seed(seed))
    options = {
        "samples": particles.samples,
        "smoother": particles.smoother,
        "iterations": particles.iterations,
        "eta": particles.eta,
        "particles": particles,
    }
    return Trials(mixed, observation, experts, generalists, options, seed)


def by_name(name: str) -> Method:
    """The baseline of that name, decoded in one step."""
    baseline = find_baseline(name)
    return lambda trial: trial.restore(baseline(trial.setting))


def by_field(infer: Callable[[UniformSetting], Inferred]) -> Method:
    """A field that experts with a uniform source are composed by, decoded in one step."""
    return lambda trial: trial.restore(Composed(infer(uniform(trial)), trial.setting.team))


def by_source(name: str, steps: int) -> Method:
    """The composition of a baseline, decoded from noise in the gaps as the paper does: in one step, or in several."""
    return lambda trial: decoded(trial, find_baseline(name)(trial.setting).inferred, steps)


def decoded(trial: Trial, inferred: Inferred, steps: int) -> Restored:
    """Decode from noise in the gaps, which is the same for all methods."""
    setting = uniform(trial)
    found = decode_uniform(
        setting.experts,
        setting.observation,
        inferred.composition,
        setting.generator(),
        steps=steps,
        seed=setting.seed,
    )
    right = found.tokens == trial.mixed.tokens
    cost = found.cost + inferred.cost
    return judge(right, found.confidence, trial.mixed, setting.observation.lost, inferred, cost)


def uniform(trial: Trial) -> UniformSetting:
    """The setting of a trial whose experts have a uniform source."""
    if not isinstance(trial.setting, UniformSetting):
        raise ConservatorError("these experts have a mask source; this method takes experts with a uniform source")
    return trial.setting


def restore_trials(
    trials: Trials,
    methods: Mapping[str, Method],
    track: Track,
    title: str,
    few: Collection[str] = (),
    first: int = 0,
) -> dict[str, Restored]:
    """Restore every window by every method; by those of ``few`` only the ``first`` windows."""
    found: dict[str, list[Restored]] = {name: [] for name in methods}
    for number in track(range(len(trials)), title):
        trial = trials[number]
        for name, method in methods.items():
            if name not in few or number < first:
                found[name].append(method(trial))
    return {name: join(parts) for name, parts in found.items() if parts}


def tabulate_trials(
    found: Mapping[str, Restored], mixed: Mixtures, paper: Mapping[str, Metrics], ours: str
) -> list[Row]:
    """A row for each method, compared with ours on the same windows."""
    rows: list[Row] = []
    for name, restored in found.items():
        labels = mixed.unambiguous_labels[: len(restored.regions)]
        row = describe(name, restored, labels, found[ours])
        rows.append(row | by_region(restored, mixed.names) | {"paper": dict(paper.get(name, {}))})
    return rows
