"""Table "arxiv" at byte level: prose and mathematics of LaTeX documents, with one byte expert for each."""

from dataclasses import dataclass

from conservator.training import TrainingTarget
from conservator_studies.arxiv import LATEX
from conservator_studies.expert_training import Recipe, load_all, train_missing
from conservator_studies.natural_studies import LABELS, NaturalConfig
from conservator_studies.resources import Resources
from conservator_studies.result import Findings
from conservator_studies.study import Study, Track


@dataclass(frozen=True)
class Config(NaturalConfig):
    """Configuration of the study.

    Attributes:
        preset: training preset of the experts.
        steps_per_window: training steps per window, so that a quick trial with few windows also trains quickly.
    """

    windows: int = 128
    length: int = 256
    rate: float = 0.2
    most: int = 4
    preset: str = "small"
    steps_per_window: float = 4.0


PRESETS = {
    "laptop": Config(particles="natural, reduced"),
    "paper": Config(windows=256, particle_windows=256, preset="paper", steps_per_window=20_000 / 256),
}


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Train a byte expert for each kind of text, and restore documents that have both."""
    steps = max(1, round(config.steps_per_window * config.windows))
    recipes = [
        Recipe(name, text, TrainingTarget(), steps, config.preset) for name, text in LATEX.texts(resources).items()
    ]
    experts = list(load_all(train_missing(recipes, resources.folder / "experts", track)).values())
    return Findings(LATEX.restore(resources, experts, config, seed, track, "arxiv-bytes", {}), {})


STUDY = Study(
    presets=PRESETS, tables=LATEX.tables(), labels=LABELS, run=run, conclude=LATEX.conclude, domain=LATEX.domain
)
