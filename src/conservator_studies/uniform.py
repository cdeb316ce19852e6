"""Two experts with a uniform source: which evidence gives the better field, and the better restoration.

The paper scores them by a heuristic, because it has no identity for this source. Beside it: energies by the identity,
in the same algorithm, and evidence from cavities, which needs neither particles nor folds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from conservator.errors import ConservatorError
from conservator.experts.uniform import LATEST
from conservator.field import Bayes, Inferred
from conservator.reference import sampled_energies, uniform_denoising_score
from conservator_studies.baselines import UniformSetting
from conservator_studies.baselines.uniform import Score
from conservator_studies.byte import COMPARISON, COST, QUALITY, interval
from conservator_studies.corpora import read_domain
from conservator_studies.resources import Resources
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.study import TextStudy, Track
from conservator_studies.token_experts import AdapterTraining, lacks_adapters, load_or_train_adapters
from conservator_studies.tokens import (
    ROUNDS,
    Method,
    TokenConfig,
    by_field,
    by_name,
    by_source,
    damage_windows,
    mixed_windows,
    restore_trials,
    tabulate_trials,
)

DOMAINS = ("prose", "code")
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
SCORES: dict[str, Score] = {PAPERS: uniform_denoising_score, IDENTITY: partial(sampled_energies, latest=LATEST)}


@dataclass(frozen=True)
class Config(TokenConfig):
    """The sizes of the study.

    Attributes:
        training: of the experts; None if they are named.
    """

    training: AdapterTraining | None = field(default_factory=AdapterTraining)


PRESETS = {
    "laptop": Config(windows=64, length=128, least=32, particles="reduced", particle_windows=8),
    "paper": Config(particle_windows=256, training=None),
}
TABLES = [
    TableSpec("Restoration, each document counted alike; differences on the same windows", COMPARISON),
    TableSpec("Quality", QUALITY),
    TableSpec("Cost", COST),
    TableSpec("Accuracy in each true region", [Column(f"accuracy_{name}", name, 3) for name in DOMAINS]),
]


def folds(setting: UniformSetting) -> Inferred:
    """The exact posterior of lattice fields, from tokens that are hidden in turn."""
    return Bayes()(setting.team, setting.observation, setting.generator())


def by_particles(score: Score) -> Method:
    """Algorithm 1, with one or the other score."""
    return by_field(lambda setting: setting.algorithm_1(score=score))


METHODS: dict[str, Method] = {
    OURS: by_name("local_bayes"),
    "cavity_ascent": by_name("local_eg"),
    "folds": by_field(folds),
    **{name: by_particles(score) for name, score in SCORES.items()},
    "equal": by_name("equal"),
    "hard_label": by_name("hard_label"),
    "t_dec": by_source("local_bayes", 1),
    "iterative": by_source("local_bayes", ROUNDS),
}


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Restore the same windows by every method; the first of them by Algorithm 1 too."""
    corpora = {name: read_domain(resources.corpora, name, "train") for name in DOMAINS}
    experts = list(load_or_train_adapters(resources, config.training, config.windows, corpora, track).values())
    for name, expert in zip(DOMAINS, experts, strict=True):
        if expert.spec.source.shows_noise:
            raise ConservatorError(
                f"the expert for {name} has a mask source; this study takes two experts with a uniform source: "
                "--experts prose=FOLDER --experts code=FOLDER"
            )
    texts = {name: resources.evaluation[name] for name in DOMAINS}
    mixed = mixed_windows(texts, experts[0].spec.vocabulary, config, seed)
    trials = damage_windows(mixed, experts, config, seed)
    found = restore_trials(trials, METHODS, track, "uniform", SCORES, config.particle_windows)
    return Findings(tabulate_trials(found, mixed, {}, OURS), {})


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


STUDY = TextStudy(
    presets=PRESETS,
    unit="windows",
    tables=TABLES,
    labels=LABELS,
    run=run,
    conclude=conclude,
    domain="arxiv",
    lacks=lacks_adapters(*DOMAINS),
)
