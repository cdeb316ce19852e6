"""Common parts of the token studies: windows of tokens, one trial per window, and methods."""

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
from conservator_studies.restoration import Restored, by_region, describe, join, select_positions
from conservator_studies.result import Metrics, Row
from conservator_studies.study import Track

MAX_DOCUMENT_BYTES = 2**15  # bytes: part of a document that is tokenized [safety limit]
DECODER_STEPS = 6  # steps: of the iterative decoder [untuned]
Method = Callable[[Trial], Restored]


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
    """

    windows: int = 256
    length: int = 512
    least: int = 128
    rate: float = 0.3
    particles: str = "1.3B"
    particle_windows: int = 2


def tokenize_documents(texts: Mapping[str, Sequence[bytes]], vocabulary: Vocabulary) -> dict[str, list[list[int]]]:
    """Tokenize the first MAX_DOCUMENT_BYTES bytes of each document."""
    return {
        name: [vocabulary.encode(truncate(text)).tokens.tolist() for text in documents]
        for name, documents in texts.items()
    }


def truncate(text: bytes) -> bytes:
    """Truncate a text to MAX_DOCUMENT_BYTES, between characters."""
    return text[:MAX_DOCUMENT_BYTES].decode(errors="ignore").encode()


def mixed_windows(
    texts: Mapping[str, Sequence[bytes]], vocabulary: Vocabulary, config: TokenConfig, seed: int
) -> Mixtures:
    """Build windows that mix documents of several domains."""
    tokens = tokenize_documents(texts, vocabulary)
    return mix(tokens, config.windows, length=config.length, min_segment=config.least, seed=seed)


@dataclass(frozen=True)
class Trials:
    """Lazy sequence of trials, one per damaged window, so that cached values of a trial are freed after use.

    Attributes:
        mixed: clean windows.
        observation: damaged windows.
        experts: experts that all have a mask source, or all a uniform source.
        generalists: experts of the same kind that are not composed.
        options: options of every setting.
        seed: random seed; the seed of a window is derived from it and from the window number.
    """

    mixed: Mixtures
    observation: Observation
    experts: Sequence[Expert]
    generalists: Sequence[Expert]
    options: Mapping[str, Any]
    seed: int

    def __len__(self) -> int:
        """Number of windows."""
        return len(self.mixed.tokens)

    def __getitem__(self, number: int) -> Trial:
        """Make the trial of a window."""
        mixed, damaged = self.mixed.between(number, number + 1), self.observation[number : number + 1]
        seed, generalists = 1000 * (self.seed + 1) + number, self.generalists
        if self.experts[0].spec.source.shows_noise:
            team = Team(self.experts)
            return Trial(mixed, Setting(team, damaged, mixed.labels, seed, generalists=generalists, **self.options))
        setting = UniformSetting.of(self.experts, damaged, mixed.labels, seed, generalists=generalists, **self.options)
        return Trial(mixed, setting)


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
    }
    return Trials(mixed, observation, experts, generalists, options, seed)


def by_name(name: str) -> Method:
    """Make a method from a baseline, decoded in one step."""
    baseline = find_baseline(name)
    return lambda trial: trial.restore(baseline(trial.setting))


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
        setting.experts,
        setting.observation,
        inferred.composition,
        setting.generator(),
        steps=steps,
        seed=setting.seed,
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


def tabulate_trials(
    restorations: Mapping[str, Restored], mixed: Mixtures, paper: Mapping[str, Metrics], ours: str
) -> list[Row]:
    """Make one row per method, compared with ours on the same windows."""
    rows: list[Row] = []
    for name, restored in restorations.items():
        labels = mixed.unambiguous_labels[: len(restored.regions)]
        row = describe(name, restored, labels, restorations[ours])
        rows.append(row | by_region(restored, mixed.names) | {"paper": dict(paper.get(name, {}))})
    return rows
