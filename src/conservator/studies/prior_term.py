"""The posterior term kept, the prior term removed, on every engine: the ablation that the paper leaves open."""

from collections.abc import Callable
from dataclasses import replace

from conservator.field.infer import Inferred, infer_by_ascent, infer_with_bayes
from conservator.studies.baselines import Answer, Setting
from conservator.studies.baselines.particles import by_particles
from conservator.studies.byte import (
    COMPARISON,
    COST,
    QUALITY,
    ByteConfig,
    interval,
    prepare,
    tabulate,
    with_the_papers_particles,
)
from conservator.studies.materials import Materials
from conservator.studies.result import Findings, Row, TableSpec, Track

CONFIG = ByteConfig(windows=128, particle_windows=16)
PRESETS = {"laptop": CONFIG, "paper": with_the_papers_particles(ByteConfig())}
UNIT = "windows"
TABLES = [
    TableSpec("With the prior term and without; differences are to the same engine with it", COMPARISON),
    TableSpec("Quality", QUALITY),
    TableSpec("Cost", COST),
]
ENGINES = {"bayes": "Bayes", "eg": "The paper's update", "particles": "The paper's particles"}
LABELS = {engine: f"{text}, both terms" for engine, text in ENGINES.items()} | {
    f"{engine}_posterior": f"{text}, posterior alone" for engine, text in ENGINES.items()
}


def bayes(setting: Setting, prior_term: bool) -> Inferred:
    """The exact posterior, with or without the normaliser of the pool."""
    return infer_with_bayes(setting.experts, setting.observation, setting.generator(), prior_term=prior_term)


def ascent(setting: Setting, prior_term: bool) -> Inferred:
    """The paper's update on the composite gradient, or on the posterior's part of it."""
    return infer_by_ascent(
        setting.experts,
        setting.observation,
        setting.generator(),
        smoother=setting.smoother,
        prior_term=prior_term,
    )


def particles(setting: Setting, prior_term: bool) -> Inferred:
    """Algorithm 1, with or without unclamped particles."""
    return by_particles(setting, replace(setting.particles, prior_term=prior_term))


RUN: dict[str, Callable[[Setting, bool], Inferred]] = {"bayes": bayes, "eg": ascent, "particles": particles}


def run(config: ByteConfig, seed: int, track: Track[str], materials: Materials) -> Findings:
    """Infer with both terms and with one, and decode alike."""
    trial = prepare(config, seed, materials)
    few = trial.first(min(config.particle_windows, config.windows))
    rows: list[Row] = []
    for engine in track(ENGINES, "prior-term"):
        part = few if engine == "particles" else trial
        both, alone = (
            part.restore(Answer(RUN[engine](part.setting, prior_term), part.setting.experts))
            for prior_term in (True, False)
        )
        rows += tabulate({engine: both, f"{engine}_posterior": alone}, part, {}, both)
    return Findings(rows, {})


def conclude(rows: list[Row]) -> str:
    """What the prior term alone contributes."""
    found = {row["method"]: row for row in rows}
    sentences = []
    for engine, text in ENGINES.items():
        both, alone = found[engine], found[f"{engine}_posterior"]
        sentences.append(
            f"{text} ({both['windows']} windows): {both['accuracy_documents']:.3f} with the term, "
            f"{alone['accuracy_documents']:.3f} without ({interval(alone)}, p = {alone['p']:.4f}); field accuracy "
            f"{both['field_accuracy']:.3f} and {alone['field_accuracy']:.3f}."
        )
    return (
        "**What does the prior term alone contribute?** The posterior term is kept and the prior expectation alone is "
        "removed, which the paper names as its third limitation. " + " ".join(sentences)
    )
