"""Common parts of the token studies: windows of tokens, one trial per window, and methods."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from conservator_studies.byte import OURS, Trial, tabulate
from conservator_studies.mixtures import Mixtures, mix
from conservator_studies.restoration import Restored, join, select_positions
from conservator_studies.result import Metrics, Row
from conservator_studies.study import Track

MAX_DOCUMENT_BYTES = 2**15  # bytes: part of a document that is tokenized [safety limit]
DECODER_STEPS = 6  # steps: of the iterative decoder [untuned]
FULL_TRAINING_WINDOWS = 64  # windows: a study with fewer windows trains for fewer steps [untuned]
BASE_DOMAINS = ("readme", "arxiv")  # training texts of the base model; not the domains of its adapters
Method = Callable[[Trial], Restored]


@dataclass(frozen=True)
class AdapterTraining:
    """Training configuration of a base model and its adapters.

    Attributes:
        source: ``uniform`` or ``mask``.
        tokens: vocabulary size.
        base: training steps of the base model.
        steps: training steps of an adapter.
        general: domains of the training texts of the base model.
    """

    source: str = "uniform"
    tokens: int = 1024
    base: int = 2000
    steps: int = 600
    general: tuple[str, ...] = BASE_DOMAINS

    def for_windows(self, count: int) -> "AdapterTraining":
        """Reduce the steps for a study with few windows, so that a quick trial trains quickly."""
        fraction = min(1.0, count / FULL_TRAINING_WINDOWS)
        return replace(self, base=max(1, round(fraction * self.base)), steps=max(1, round(fraction * self.steps)))


@dataclass(frozen=True)
class TokenConfig:
    """Configuration of a token study (table "settings").

    Attributes:
        windows: number of windows.
        length: tokens per window.
        least: minimum number of tokens per segment.
        rate: fraction of tokens that are lost.
        particles: name of the settings of Algorithm 1; routers use the same smoother and step size.
        particle_windows: number of windows on which Algorithm 1 runs.
        training: training configuration of the experts; None if they must be named.
    """

    windows: int = 256
    length: int = 512
    least: int = 128
    rate: float = 0.3
    particles: str = "1.3B"
    particle_windows: int = 2
    training: AdapterTraining | None = field(default_factory=AdapterTraining)


def truncate(text: bytes) -> bytes:
    """Truncate a text to MAX_DOCUMENT_BYTES, between characters."""
    return text[:MAX_DOCUMENT_BYTES].decode(errors="ignore").encode()


def mixed_windows(
    texts: Mapping[str, Sequence[bytes]], vocabulary: Vocabulary, config: TokenConfig, seed: int
) -> Mixtures:
    """Build windows that mix documents of several domains, from the first MAX_DOCUMENT_BYTES bytes of each document."""
    tokens = {
        name: [vocabulary.encode(truncate(text)).tokens.tolist() for text in documents]
        for name, documents in texts.items()
    }
    return mix(tokens, config.windows, length=config.length, min_segment=config.least, seed=seed)


@dataclass(frozen=True)
class Trials:
    """Lazy sequence of trials, one per damaged window, so that cached values of a trial are freed after use.

    Attributes:
        mixed: clean windows.
        observation: damaged windows.
        experts: experts that all have a mask source, or all a uniform source.
        options: options of every setting.
        seed: random seed; the seed of a window is derived from it and from the window number.
    """

    mixed: Mixtures
    observation: Observation
    experts: Sequence[Expert]
    options: Mapping[str, Any]
    seed: int

    def __len__(self) -> int:
        """Number of windows."""
        return len(self.mixed.tokens)

    def __getitem__(self, number: int) -> Trial:
        """Make the trial of a window."""
        mixed, damaged = self.mixed.between(number, number + 1), self.observation[number : number + 1]
        seed = 1000 * (self.seed + 1) + number
        if self.experts[0].spec.source.shows_noise:
            return Trial(mixed, Setting(Team(self.experts), damaged, mixed.labels, seed, **self.options))
        return Trial(mixed, UniformSetting.of(self.experts, damaged, mixed.labels, seed, **self.options))


def damage_windows(
    mixed: Mixtures, experts: Sequence[Expert], config: TokenConfig, seed: int, generalists: Sequence[Expert] = ()
) -> Trials:
    """Erase a fraction of the tokens of windows."""
    if len({expert.spec.source.shows_noise for expert in (*experts, *generalists)}) > 1:
        raise ConservatorError(
            "some experts have a mask source and some a uniform source; a study needs experts of one kind"
        )
    channel, particles = MaskChannel(experts[0].spec.vocabulary.size, config.rate), PARTICLES[config.particles]
    observation = channel.corrupt(mixed.tokens, torch.Generator().manual_seed(seed))
    options = {
        "samples": particles.samples,
        "smoother": particles.smoother,
        "iterations": particles.iterations,
        "eta": particles.eta,
        "particles": particles,
        "generalists": generalists,
    }
    return Trials(mixed, observation, experts, options, seed)


def by_name(name: str) -> Method:
    """Make a method from a baseline, decoded in one step."""
    baseline = find_baseline(name)
    return lambda trial: trial.restore(baseline(trial.setting))


def by_names(*names: str) -> dict[str, Method]:
    """Make methods from baselines, decoded in one step."""
    return {name: by_name(name) for name in names}


def by_field(infer: Callable[[UniformSetting], Inferred]) -> Method:
    """Make a method from a field of experts with a uniform source, decoded in one step."""
    return lambda trial: trial.restore(Composed(infer(uniform_setting(trial)), trial.setting.team))


def by_noise_decoding(name: str, steps: int) -> Method:
    """Make a method from a baseline, decoded from noise at lost positions in ``steps`` steps, as in the paper."""
    return lambda trial: decode_from_noise(trial, find_baseline(name)(trial.setting).inferred, steps)


def decode_from_noise(trial: Trial, inferred: Inferred, steps: int) -> Restored:
    """Decode from noise at lost positions; the noise is the same for all methods."""
    setting = uniform_setting(trial)
    decoded = decode_uniform(
        setting.experts, setting.observation, inferred.composition, setting.generator(), steps=steps, seed=setting.seed
    )
    correct = decoded.tokens == trial.mixed.tokens
    cost = decoded.cost + inferred.cost
    return select_positions(correct, decoded.confidence, trial.mixed, setting.observation.lost, inferred, cost)


def uniform_setting(trial: Trial) -> UniformSetting:
    """Return the setting of a trial with a uniform source."""
    if not isinstance(trial.setting, UniformSetting):
        raise ConservatorError("these experts have a mask source; this method needs experts with a uniform source")
    return trial.setting


def restore_trials(
    trials: Trials,
    methods: Mapping[str, Method],
    track: Track,
    title: str,
    particle_methods: Collection[str] = (),
    particle_windows: int = 0,
) -> dict[str, Restored]:
    """Restore every window with every method; ``particle_methods`` restore only the first ``particle_windows``."""
    parts: dict[str, list[Restored]] = {name: [] for name in methods}
    for number in track(range(len(trials)), title):
        trial = trials[number]
        for name, method in methods.items():
            if name not in particle_methods or number < particle_windows:
                parts[name].append(method(trial))
    return {name: join(method_parts) for name, method_parts in parts.items() if method_parts}


def compare_methods(
    mixed: Mixtures,
    experts: Sequence[Expert],
    methods: Mapping[str, Method],
    config: TokenConfig,
    seed: int,
    track: Track,
    title: str,
    *,
    particle_methods: Collection[str],
    paper: Mapping[str, Metrics] | None = None,
    ours: str = OURS,
) -> list[Row]:
    """Erase tokens of windows, restore them with every method, and make one row per method."""
    trials = damage_windows(mixed, experts, config, seed)
    restorations = restore_trials(trials, methods, track, title, particle_methods, config.particle_windows)
    return tabulate(restorations, mixed, paper or {}, ours)
