"""Common parts of the byte studies: damaged windows of mixed text, baselines, and one row per baseline."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import torch

from conservator.channels import MaskChannel
from conservator.experts import Team
from conservator.reference import PRESETS as PARTICLES
from conservator.vocabularies import BYTES
from conservator_studies.baselines import Composed, Setting, find_baseline
from conservator_studies.mixtures import Mixtures, mix
from conservator_studies.resources import Resources
from conservator_studies.restoration import Restored, by_region, describe, restore_windows
from conservator_studies.result import Column, Metrics, Row, TableSpec
from conservator_studies.study import Track

OURS = "local_bayes"
OURS_IN_DOMAIN = "local_bayes_own"  # each expert conditions only on text of its domain
NAMES = {
    "local_bayes": "Local evidence (ours)",
    "local_bayes_own": "Ours, in-domain context",
    "local_map": "Ours, engine MAP",
    "local_eg": "Ours, engine EG",
    "local_particles": "The paper's particles",
    "hard_label": "Hard label router",
    "hard_label_own": "Hard label, in-domain context",
    "packllm_sim": "PackLLM-sim",
    "packllm_opt": "PackLLM-opt",
    "global": "Global weight",
    "global_particles": "The paper's global weight",
    "field_average": "Field-average global",
    "best_single_marginal": "Best single, marginal",
    "best_single_posterior": "Best single, posterior",
    "demix": "DEMix router",
    "demix_heldout": "DEMix, held out",
    "raw_loss": "Raw-loss router",
    "raw_loss_heldout": "Raw-loss, held out",
    "hmm": "HMM router",
    "hmm_heldout": "HMM, held out",
    "hmm_heldout_own": "HMM, held out, in-domain context",
    "equal": "Equal weights",
    "generalist": "Generalist",
    "generalist_2x": "Generalist, 2x compute",
    "generalist_3x": "Generalist, 3x compute",
    "shuffled_within": "Shuffled within windows",
    "shuffled_across": "Shuffled across windows",
    "local_bayes_memory": "Ours, with memory",
    "memory_alone": "Memory only",
    "single:prose": "Prose expert",
    "single:code": "Code expert",
    "single:config": "Config expert",
    "single:math": "Mathematics expert",
}
COMPARISON = [
    Column("accuracy_documents", "accuracy", 3),
    Column("difference", "ours minus method [95 %]", 3),
    Column("p", "p", 4),
    Column("d_z", "d_z", 2),
]
QUALITY = [
    Column("accuracy_windows", "window-weighted", 3),
    Column("log_likelihood", "log-likelihood", 3),
    Column("calibration_error", "calibration error", 3),
    Column("field_accuracy", "field accuracy", 3),
]
COST = [
    Column("windows", "windows", 0),
    Column("documents", "documents", 0),
    Column("evaluations", "evaluations per window", 0),
    Column("seconds", "seconds per window", 2),
]


PAIRED_TITLE = "Restoration accuracy, mean over documents; differences on the same windows"


def comparison_tables(
    source: str = "", quality_source: str = "", title: str = "Restoration accuracy, mean over documents"
) -> list[TableSpec]:
    """Make the tables of a comparison: accuracy, quality and cost; the sources are labels of the paper's tables."""
    return [
        TableSpec(title, COMPARISON, source),
        TableSpec("Quality", QUALITY, quality_source),
        TableSpec("Cost", COST),
    ]


def region_table(domains: Iterable[str]) -> TableSpec:
    """Make the table of the accuracy in the true regions of each domain."""
    return TableSpec("Accuracy in each true region", [Column(f"accuracy_{name}", name, 3) for name in domains])


@dataclass(frozen=True)
class ByteConfig:
    """Configuration of a byte study (table "settings").

    Attributes:
        windows: number of windows.
        domains: domains that the windows mix; the experts have the same names.
        length: bytes per window.
        least: minimum segment length in bytes.
        rate: fraction of bytes that are lost.
        particles: name of the settings of Algorithm 1 and of baselines that draw particles.
        particle_windows: number of windows on which Algorithm 1 runs.
    """

    windows: int = 256
    domains: tuple[str, ...] = ("prose", "code", "config")
    length: int = 256
    least: int = 64
    rate: float = 0.2
    particles: str = "reduced"
    particle_windows: int = 0


def with_paper_particles(config: ByteConfig) -> ByteConfig:
    """Run Algorithm 1 as in the paper: with its settings, on all windows."""
    return replace(config, particles="byte", particle_windows=config.windows)


@dataclass(frozen=True)
class Trial:
    """Windows with their clean text, and the input of every baseline for them."""

    mixed: Mixtures
    setting: Setting

    def first(self, count: int) -> "Trial":
        """Keep the first ``count`` windows."""
        return Trial(self.mixed.first(count), self.setting.first(count))

    def restore(self, composed: Composed) -> Restored:
        """Decode the composition of a baseline in one step."""
        return restore_windows(
            composed.team, self.mixed, self.setting.observation, composed.inferred, composed.context_policy
        )


def prepare(config: ByteConfig, seed: int, resources: Resources, corruption: int | None = None) -> Trial:
    """Build windows from evaluation documents and erase a fraction of their bytes.

    ``corruption`` is the seed of the erasures; by default ``seed``.
    """
    texts = {name: resources.evaluation[name] for name in config.domains}
    mixed = mix(texts, config.windows, length=config.length, min_segment=config.least, seed=seed)
    return corrupt(mixed, config, seed if corruption is None else corruption, resources)


def corrupt(mixed: Mixtures, config: ByteConfig, seed: int, resources: Resources) -> Trial:
    """Erase a fraction of the bytes of windows."""
    observation = MaskChannel(BYTES.size, config.rate).corrupt(mixed.tokens, torch.Generator().manual_seed(seed))
    setting = Setting(
        Team(resources.choose(config.domains)),
        observation,
        mixed.labels,
        seed + 1,  # differs from the seed of the erasures
        particles=PARTICLES[config.particles],
        generalists=resources.generalists(),
    )
    return Trial(mixed, setting)


def restore_all(trial: Trial, names: Iterable[str], track: Track, title: str) -> dict[str, Restored]:
    """Restore the windows with each of the baselines."""
    return {name: trial.restore(find_baseline(name)(trial.setting)) for name in track(names, title)}


def tabulate(
    restorations: Mapping[str, Restored], mixed: Mixtures, paper: Mapping[str, Metrics], ours: str = OURS
) -> list[Row]:
    """Make one row per method, compared with ``ours`` on the same windows; a method may restore only the first ones."""
    rows: list[Row] = []
    for name, restored in restorations.items():
        labels = mixed.unambiguous_labels[: len(restored.regions)]
        row = describe(name, restored, labels, restorations[ours])
        rows.append(row | by_region(restored, mixed.names) | {"paper": dict(paper.get(name, {}))})
    return rows


def interval(row: Row, metric: str = "difference") -> str:
    """Format a signed difference and its 95 % interval."""
    return f"{row[metric]:+.3f} [{row[f'{metric}_low']:+.3f}, {row[f'{metric}_high']:+.3f}]"
