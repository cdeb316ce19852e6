"""Two experts with a uniform source: which evidence gives the better field, and the better restoration.

The paper scores them by a heuristic, because it has no identity for this source. Beside it: energies by the identity,
in the same algorithm, and evidence from cavities, which needs neither particles nor folds.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from conservator.channels import MaskChannel, Observation
from conservator.decoders import decode_uniform, sample_uniform
from conservator.errors import ConservatorError
from conservator.experts import At, Context, Cost, Expert, Team
from conservator.experts.uniform import LATEST, Hiding, LeaveOneOut, denoising_score, sampled_energies
from conservator.field import PRESETS as PARTICLES
from conservator.field import (
    Bayes,
    Cavities,
    CompositeEvidence,
    Composition,
    Inferred,
    Particles,
    ascend,
)
from conservator_studies.byte import COMPARISON, COST, QUALITY, interval
from conservator_studies.mixtures import Mixtures, mix
from conservator_studies.resources import Resources
from conservator_studies.restoration import Restored, by_region, describe, judge, restore_windows
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.study import TextStudy, Track

DOMAINS = ("prose", "code")
READ = 2**15  # bytes of a document that are cut into tokens
OURS, PAPERS, IDENTITY = "cavity", "heuristic", "identity"
LABELS = {
    OURS: "Cavity evidence (ours)",
    "cavity_ascent": "Cavity evidence, the paper's update",
    "folds": "Evidence by folds",
    PAPERS: "Heuristic score, Algorithm 1",
    IDENTITY: "Energies by the identity, Algorithm 1",
    "equal": "Equal weights",
    "hard_label": "Hard label router",
    "t_dec": "Ours, the paper's decoder",
    "iterative": "Ours, iterative decoder",
}
Score = Callable[[Expert, Tensor, int, torch.Generator], Tensor]
SCORES: dict[str, Score] = {PAPERS: denoising_score, IDENTITY: partial(sampled_energies, latest=LATEST)}


@dataclass(frozen=True)
class Config:
    """The sizes of the study.

    Attributes:
        windows: the number of windows.
        length: tokens of a window.
        least: the least number of tokens of a segment.
        rate: the share of tokens that is lost.
        particles: the name of the settings of Algorithm 1.
        particle_windows: on how many of the windows Algorithm 1 runs.
        draws: over how many sources the laws of lost tokens are averaged.
        rounds: the steps of the iterative decoder.
    """

    windows: int = 64
    length: int = 128
    least: int = 32
    rate: float = 0.3
    particles: str = "reduced"
    particle_windows: int = 16
    draws: int = 1
    rounds: int = 6


PRESETS = {
    "laptop": Config(),
    "paper": Config(windows=256, length=512, least=128, particles="1.3B", particle_windows=256),
}
TABLES = [
    TableSpec("Restoration, each document counted alike; differences on the same windows", COMPARISON),
    TableSpec("Quality", QUALITY),
    TableSpec("Cost", COST),
    TableSpec("Accuracy in each true region", [Column(f"accuracy_{name}", name, 3) for name in DOMAINS]),
]


@dataclass(frozen=True)
class Window:
    """A damaged window, and what every method shares: the experts, and the source that fills its gaps.

    Attributes:
        experts: with a uniform source.
        mixed: the window, clean.
        observation: (1, L).
        seed: of the source.
        config: the sizes of the study.
    """

    experts: Sequence[Expert]
    mixed: Mixtures
    observation: Observation
    seed: int
    config: Config

    def generator(self) -> torch.Generator:
        """A new generator, so that the draws of a method do not depend on which others ran before."""
        return torch.Generator().manual_seed(self.seed)

    def hiding(self) -> Team:
        """The experts as a team that predicts lost tokens."""
        return Team([Hiding(expert, self.seed, self.config.draws) for expert in self.experts])

    def leaving_out(self) -> Team:
        """The experts as a team that predicts every token from the others."""
        return Team([LeaveOneOut(expert, self.seed, self.config.draws) for expert in self.experts])


def cavity(window: Window) -> Inferred:
    """The exact posterior of lattice fields, from cavities."""
    return Cavities()(window.leaving_out(), window.observation, window.generator())


def folds(window: Window) -> Inferred:
    """The exact posterior of lattice fields, from tokens that are hidden in turn."""
    return Bayes()(window.hiding(), window.observation, window.generator())


def cavity_ascent(window: Window) -> Inferred:
    """The paper's update and smoothing on the gradient of cavity evidence."""
    settings, team = PARTICLES[window.config.particles], window.leaving_out()
    with team.meter.measure() as spent:
        evidence = CompositeEvidence.by_cavity(team, window.observation[0])
        field, _ = ascend(
            lambda lam: evidence.value_and_gradient(lam)[1],
            evidence.shape,
            settings.iterations,
            settings.eta,
            settings.smoother,
        )
    return Inferred.given(field[None], spent.cost)


class Counted:
    """An expert that counts the sequences that it reads."""

    def __init__(self, expert: Expert) -> None:
        """Begin at 0."""
        self.expert, self.spec, self.count = expert, expert.spec, 0

    def predict(self, context: Context, at: At) -> Tensor:
        """What the expert predicts."""
        self.count += len(context.tokens)
        return self.expert.predict(context, at)


def by_particles(window: Window, score: Score) -> Inferred:
    """Algorithm 1 with particles from noise of the source, and one or the other score as minus the energy."""
    settings, generator = PARTICLES[window.config.particles], window.generator()
    counted = [Counted(expert) for expert in window.experts]
    watched = replace(window, experts=counted)
    start = time.perf_counter()
    field, _ = ascend(
        lambda lam: estimate_gradient(watched, lam, score, settings, generator),
        (window.config.length, len(counted)),
        settings.iterations,
        settings.eta,
        settings.smoother,
    )
    cost = Cost(sum(expert.count for expert in counted), time.perf_counter() - start)
    return Inferred.given(field[None], cost)


def estimate_gradient(
    window: Window, lam: Tensor, score: Score, settings: Particles, generator: torch.Generator
) -> Tensor:
    """Equation (est_gradient): (L, m), the mean score of unclamped particles minus that of clamped ones."""
    composition = Composition.of_field(lam.expand(settings.particles, *lam.shape))
    clamped = window.observation[[0] * settings.particles]
    blank = MaskChannel(clamped.vocab_size, window.config.rate).observe(
        torch.full_like(clamped.tokens, clamped.vocab_size)
    )
    means = []
    for observation in (clamped, blank):
        start = float((~observation.lost).double().mean())
        drawn = sample_uniform(
            window.experts, observation, composition, generator, steps=settings.steps, start=start, seed=window.seed
        )
        scores = [score(expert, drawn, settings.samples, generator).mean(0) for expert in window.experts]
        means.append(torch.stack(scores, dim=-1))
    return means[1] - means[0]


def given(window: Window, field: Tensor) -> Inferred:
    """A field (L, m) that is not inferred."""
    return Inferred.given(field[None])


METHODS: dict[str, Callable[[Window], Inferred]] = {
    OURS: cavity,
    "cavity_ascent": cavity_ascent,
    "folds": folds,
    **{name: partial(by_particles, score=score) for name, score in SCORES.items()},
    "equal": lambda window: given(
        window, torch.full((window.config.length, len(window.experts)), 1 / len(window.experts), dtype=torch.float64)
    ),
    "hard_label": lambda window: given(
        window, torch.eye(len(window.experts), dtype=torch.float64)[window.mixed.labels[0]]
    ),
}
DECODERS = {"t_dec": 1, "iterative": None}  # steps; None for those of the config


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Restore the same windows by every method; the first of them by Algorithm 1 too."""
    windows = prepare(config, seed, resources)
    found: dict[str, list[tuple[Restored, Inferred]]] = {name: [] for name in LABELS}
    for number, window in enumerate(track(windows, "uniform")):
        for name, infer in METHODS.items():
            if name in SCORES and number >= config.particle_windows:
                continue
            inferred = infer(window)
            found[name].append((restore_windows(window.hiding(), window.mixed, window.observation, inferred), inferred))
            if name == OURS:
                for decoder, steps in DECODERS.items():
                    found[decoder].append((decoded(window, inferred, steps or config.rounds), inferred))
    joined = {name: join(parts) for name, parts in found.items() if parts}
    labels = torch.cat([window.mixed.labels for window in windows])
    rows: list[Row] = []
    for name, restored in joined.items():
        row = describe(name, restored, labels[: len(found[name])], joined[OURS])
        rows.append(row | by_region(restored, DOMAINS) | {"paper": {}})
    return Findings(rows, {})


def prepare(config: Config, seed: int, resources: Resources) -> list[Window]:
    """Mix evaluation documents, cut into the experts' tokens, and lose a share of them."""
    experts = resources.choose(DOMAINS)
    for name, expert in zip(DOMAINS, experts, strict=True):
        if expert.spec.source.shows_noise:
            raise ConservatorError(
                f"the expert for {name} has a mask source; this study takes two experts with a uniform source: "
                "--experts prose=FOLDER --experts code=FOLDER"
            )
    vocabulary = experts[0].spec.vocabulary
    texts = {
        name: [vocabulary.encode(shortened(text)).tokens.tolist() for text in resources.evaluation[name]]
        for name in DOMAINS
    }
    mixed = mix(texts, config.windows, length=config.length, least=config.least, seed=seed)
    observation = MaskChannel(vocabulary.size, config.rate).corrupt(mixed.tokens, torch.Generator().manual_seed(seed))
    return [
        Window(
            experts,
            mixed.between(number, number + 1),
            observation[number : number + 1],
            1000 * (seed + 1) + number,
            config,
        )
        for number in range(config.windows)
    ]


def shortened(text: bytes) -> bytes:
    """The beginning of a text, whole characters alone."""
    return text[:READ].decode(errors="ignore").encode()


def decoded(window: Window, inferred: Inferred, steps: int) -> Restored:
    """Decode from noise in the gaps, which is the same for all methods."""
    found = decode_uniform(
        window.experts,
        window.observation,
        inferred.composition,
        window.generator(),
        steps=steps,
        seed=window.seed,
    )
    right = found.tokens == window.mixed.tokens
    return judge(right, found.confidence, window.mixed, window.observation.lost, inferred, found.cost + inferred.cost)


def join(parts: Sequence[tuple[Restored, Inferred]]) -> Restored:
    """The restorations of single windows as one."""
    all_of = [restored for restored, _ in parts]
    likelihoods = [one.log_likelihood for one in all_of if one.log_likelihood is not None]
    varies = any(one.regions is not None for one in all_of)
    return Restored(
        torch.cat([one.right for one in all_of]),
        torch.cat([one.confidence for one in all_of]),
        torch.cat(likelihoods) if likelihoods else None,
        torch.cat([one.documents for one in all_of]),
        torch.cat([one.windows + number for number, one in enumerate(all_of)]),
        torch.cat([one.labels for one in all_of]),
        torch.cat([inferred.regions.argmax(-1) for _, inferred in parts]) if varies else None,
        sum((one.cost for one in all_of), Cost()),
    )


def conclude(rows: list[Row]) -> str:
    """Which evidence is the best, for the field and for the text."""
    found: Mapping[str, Row] = {row["method"]: row for row in rows}
    ours = found[OURS]
    sentences = [
        f"{LABELS[name]} ({row['windows']} windows): field accuracy {row['field_accuracy']:.3f}, accuracy "
        f"{row['accuracy_documents']:.3f} (cavity evidence minus it {interval(row)}, p = {row['p']:.4f}), "
        f"{row['evaluations']:.0f} evaluations a window."
        for name in (PAPERS, IDENTITY, "folds")
        if (row := found.get(name)) and "field_accuracy" in row
    ]
    field = f"field accuracy {ours['field_accuracy']:.3f}, " if "field_accuracy" in ours else ""
    return (
        f"Cavity evidence: {field}accuracy {ours['accuracy_documents']:.3f} on {ours['windows']} windows, with "
        f"{ours['evaluations']:.0f} evaluations a window. " + " ".join(sentences)
    )


def lacks() -> str:
    """It needs experts that do not come with the package."""
    return (
        "it needs two experts with a uniform source, which do not come with the package: "
        "conservator reproduce uniform --experts prose=FOLDER --experts code=FOLDER"
    )


STUDY = TextStudy(
    presets=PRESETS, unit="windows", tables=TABLES, labels=LABELS, run=run, conclude=conclude, lacks=lacks
)
