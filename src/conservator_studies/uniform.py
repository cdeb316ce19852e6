"""Comparison of evidence for two experts with a uniform source: field accuracy and restoration accuracy.

The paper uses a heuristic score, because it has no identity for this source. The study compares it with energies by the
identity in the same algorithm, and with cavity evidence, which needs neither particles nor folds.
"""

from collections.abc import Mapping
from functools import partial

from conservator.errors import ConservatorError
from conservator.experts.uniform import MAX_KAPPA
from conservator.field import Bayes, Inferred
from conservator.reference import sampled_energies, uniform_denoising_score
from conservator_studies.baselines import UniformSetting
from conservator_studies.baselines.uniform import Score
from conservator_studies.byte import PAIRED_TITLE, comparison_tables, interval, region_table
from conservator_studies.corpora import read_domain
from conservator_studies.resources import Resources
from conservator_studies.result import Findings, Row
from conservator_studies.study import Track
from conservator_studies.token_experts import adapter_study, load_or_train_adapters
from conservator_studies.tokens import (
    DECODER_STEPS,
    Method,
    TokenConfig,
    by_field,
    by_name,
    by_noise_decoding,
    compare_methods,
    mixed_windows,
)

DOMAINS = ("prose", "code")
OURS, HEURISTIC, IDENTITY = "cavity", "heuristic", "identity"
LABELS = {
    OURS: "Cavity evidence (ours)",
    "cavity_ascent": "Cavity evidence, with the paper's update",
    "folds": "Fold evidence",
    HEURISTIC: "Heuristic score, Algorithm 1",
    IDENTITY: "Energies by the identity, Algorithm 1",
    "equal": "Equal weights",
    "hard_label": "Hard label router",
    "t_dec": "Ours, with the paper's decoder",
    "iterative": "Ours, with the iterative decoder",
}
SCORES: dict[str, Score] = {HEURISTIC: uniform_denoising_score, IDENTITY: partial(sampled_energies, latest=MAX_KAPPA)}
PRESETS = {
    "laptop": TokenConfig(windows=64, length=128, least=32, particles="reduced", particle_windows=8),
    "paper": TokenConfig(particle_windows=256, training=None),
}
TABLES = [*comparison_tables(title=PAIRED_TITLE), region_table(DOMAINS)]


def folds(setting: UniformSetting) -> Inferred:
    """Infer the exact posterior of grid fields from tokens that are hidden in turn."""
    return Bayes()(setting.team, setting.observation, setting.generator())


def by_particles(score: Score) -> Method:
    """Make a method from Algorithm 1 with a score."""
    return by_field(lambda setting: setting.algorithm_1(score=score))


METHODS: dict[str, Method] = {
    OURS: by_name("local_bayes"),
    "cavity_ascent": by_name("local_eg"),
    "folds": by_field(folds),
    **{name: by_particles(score) for name, score in SCORES.items()},
    "equal": by_name("equal"),
    "hard_label": by_name("hard_label"),
    "t_dec": by_noise_decoding("local_bayes", 1),
    "iterative": by_noise_decoding("local_bayes", DECODER_STEPS),
}


def run(config: TokenConfig, seed: int, track: Track, resources: Resources) -> Findings:
    """Restore the same windows with every method; only the first windows with Algorithm 1."""
    corpora = {name: read_domain(resources.corpora, name, "train") for name in DOMAINS}
    experts = list(load_or_train_adapters(resources, config, corpora, track).values())
    for name, expert in zip(DOMAINS, experts, strict=True):
        if expert.spec.source.shows_noise:
            raise ConservatorError(
                f"the expert for {name} has a mask source; this study needs two experts with a uniform source: "
                "--experts prose=FOLDER --experts code=FOLDER"
            )
    texts = {name: resources.evaluation[name] for name in DOMAINS}
    mixed = mixed_windows(texts, experts[0].spec.vocabulary, config, seed)
    rows = compare_methods(mixed, experts, METHODS, config, seed, track, "uniform", particle_methods=SCORES, ours=OURS)
    return Findings(rows, {})


def conclude(rows: list[Row]) -> str:
    """Compare the kinds of evidence by field accuracy and restoration accuracy."""
    by_method: Mapping[str, Row] = {row["method"]: row for row in rows}
    ours = by_method[OURS]
    sentences = [
        f"{LABELS[name]} ({row['windows']} windows): field accuracy {row['field_accuracy']:.3f}, accuracy "
        f"{row['accuracy_documents']:.3f} (cavity evidence minus method {interval(row)}, p = {row['p']:.4f}), "
        f"{row['evaluations']:.0f} evaluations per window."
        for name in (HEURISTIC, IDENTITY, "folds")
        if (row := by_method.get(name)) and "field_accuracy" in row
    ]
    field = f"field accuracy {ours['field_accuracy']:.3f}, " if "field_accuracy" in ours else ""
    return (
        f"Cavity evidence: {field}accuracy {ours['accuracy_documents']:.3f} on {ours['windows']} windows, with "
        f"{ours['evaluations']:.0f} evaluations per window. " + " ".join(sentences)
    )


STUDY = adapter_study(
    DOMAINS, presets=PRESETS, tables=TABLES, labels=LABELS, run=run, conclude=conclude, domain="arxiv"
)
