"""The evidence without its prior term, under every engine: the ablation that the paper leaves open."""

from collections.abc import Callable
from dataclasses import replace

from conservator.field import Bayes, Inferred
from conservator.reference import Ascent
from conservator_studies.baselines import Composed, Setting
from conservator_studies.byte import (
    COMPARISON,
    COST,
    QUALITY,
    ByteConfig,
    interval,
    prepare,
    tabulate,
    with_paper_particles,
)
from conservator_studies.resources import Resources
from conservator_studies.result import Findings, Row, TableSpec
from conservator_studies.study import TextStudy, Track

CONFIG = ByteConfig(windows=128, particle_windows=16)
PRESETS = {"laptop": CONFIG, "paper": with_paper_particles(ByteConfig())}
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
    return Bayes(prior_term=prior_term)(setting.team, setting.observation, setting.generator())


def ascent(setting: Setting, prior_term: bool) -> Inferred:
    """The paper's update on the composite gradient, or on its posterior term alone."""
    engine = Ascent(setting.smoother, prior_term=prior_term)
    return engine(setting.team, setting.observation, setting.generator())


def particles(setting: Setting, prior_term: bool) -> Inferred:
    """Algorithm 1, with or without unclamped particles."""
    return replace(setting, particles=replace(setting.particles, prior_term=prior_term)).algorithm_1()


RUN: dict[str, Callable[[Setting, bool], Inferred]] = {"bayes": bayes, "eg": ascent, "particles": particles}


def run(config: ByteConfig, seed: int, track: Track, resources: Resources) -> Findings:
    """Infer with both terms and with the posterior term alone, and decode both in the same way."""
    trial = prepare(config, seed, resources)
    few = trial.first(min(config.particle_windows, config.windows))
    rows: list[Row] = []
    for engine in track(ENGINES, "prior-term"):
        part = few if engine == "particles" else trial
        both, alone = (
            part.restore(Composed(RUN[engine](part.setting, prior_term), part.setting.team))
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


STUDY = TextStudy(presets=PRESETS, unit="windows", tables=TABLES, labels=LABELS, run=run, conclude=conclude)
