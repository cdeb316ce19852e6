"""Ablation of the prior term of the evidence gradient, for every engine. The paper does not have this ablation."""

from collections.abc import Callable
from dataclasses import replace

from conservator.field import Bayes, Inferred
from conservator.reference import Ascent
from conservator_studies.baselines import Composed, Setting
from conservator_studies.byte import ByteConfig, comparison_tables, interval, prepare, tabulate, with_paper_particles
from conservator_studies.resources import Resources
from conservator_studies.result import Findings, Row
from conservator_studies.study import Study, Track

CONFIG = ByteConfig(windows=128, particle_windows=16)
PRESETS = {"laptop": CONFIG, "paper": with_paper_particles(ByteConfig())}
TABLES = comparison_tables(
    title="With and without the prior term; differences from the same engine with the prior term"
)
ENGINES = {"bayes": "Bayes", "eg": "The paper's update", "particles": "The paper's particles"}
LABELS = {engine: f"{text}, both terms" for engine, text in ENGINES.items()} | {
    f"{engine}_posterior": f"{text}, posterior term only" for engine, text in ENGINES.items()
}


def bayes(setting: Setting, prior_term: bool) -> Inferred:
    """Infer the exact posterior, with or without the normaliser of the pool."""
    return Bayes(prior_term=prior_term)(setting.team, setting.observation, setting.generator())


def ascent(setting: Setting, prior_term: bool) -> Inferred:
    """Run the paper's update on the composite gradient, or on its posterior term only."""
    engine = Ascent(setting.smoother, prior_term=prior_term)
    return engine(setting.team, setting.observation, setting.generator())


def particles(setting: Setting, prior_term: bool) -> Inferred:
    """Run Algorithm 1, with or without unclamped particles."""
    return replace(setting, particles=replace(setting.particles, prior_term=prior_term)).algorithm_1()


INFERENCE: dict[str, Callable[[Setting, bool], Inferred]] = {"bayes": bayes, "eg": ascent, "particles": particles}


def run(config: ByteConfig, seed: int, track: Track, resources: Resources) -> Findings:
    """Infer with both terms and with the posterior term only, and decode both in the same way."""
    trial = prepare(config, seed, resources)
    particle_trial = trial.first(min(config.particle_windows, config.windows))
    rows: list[Row] = []
    for engine in track(ENGINES, "prior-term"):
        engine_trial = particle_trial if engine == "particles" else trial
        both, posterior_only = (
            engine_trial.restore(
                Composed(INFERENCE[engine](engine_trial.setting, prior_term), engine_trial.setting.team)
            )
            for prior_term in (True, False)
        )
        rows += tabulate({engine: both, f"{engine}_posterior": posterior_only}, engine_trial.mixed, {}, engine)
    return Findings(rows, {})


def conclude(rows: list[Row]) -> str:
    """State the contribution of the prior term for each engine."""
    by_method = {row["method"]: row for row in rows}
    sentences = []
    for engine, text in ENGINES.items():
        both, posterior_only = by_method[engine], by_method[f"{engine}_posterior"]
        sentences.append(
            f"{text} ({both['windows']} windows): accuracy {both['accuracy_documents']:.3f} with the prior term, "
            f"{posterior_only['accuracy_documents']:.3f} without it (with minus without: "
            f"{interval(posterior_only)}, p = {posterior_only['p']:.4f}); field accuracy {both['field_accuracy']:.3f} "
            f"and {posterior_only['field_accuracy']:.3f}."
        )
    return (
        "**Contribution of the prior term.** The ablation removes the prior expectation and keeps the posterior term. "
        "The paper names this as its third limitation. " + " ".join(sentences)
    )


STUDY = Study(presets=PRESETS, tables=TABLES, labels=LABELS, run=run, conclude=conclude)
