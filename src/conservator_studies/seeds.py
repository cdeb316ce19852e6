"""Two retrained pairs of experts, one without specialisation: table "seeds"."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from conservator.experts import CONFIG, ByteExpert, load_expert, save_expert
from conservator.training import PRESETS as TRAINING
from conservator.training import Check, Corpus, Trainer, TrainingConfig, as_stream, check_specialisation
from conservator_studies.byte import NAMES, OURS, ByteConfig, prepare, restore_all
from conservator_studies.corpora import read_domain
from conservator_studies.resources import Resources
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.study import Study, Track


@dataclass(frozen=True)
class Config(ByteConfig):
    """Configuration of the study.

    Attributes:
        training: training configuration of an expert.
        steps_per_window: training steps per window, so that a quick trial on few windows trains quickly.
        checked: number of windows of each domain for the specialisation check.
    """

    windows: int = 64
    domains: tuple[str, ...] = ("prose", "code")
    training: TrainingConfig = field(default_factory=lambda: TRAINING["small"])
    steps_per_window: float = 3.0
    checked: int = 64

    @property
    def steps(self) -> int:
        """Number of training steps of an expert."""
        return round(self.steps_per_window * self.windows)


PRESETS = {
    "laptop": Config(),
    "paper": Config(
        windows=128, particles="byte", training=TRAINING["paper"], steps_per_window=20_000 / 128, checked=512
    ),
}
BASELINES = ("local_bayes", "hard_label", "best_single_posterior", "global", "equal")
TABLES = [
    TableSpec(
        "Accuracy, mean over documents; compare within a row",
        [Column("field_accuracy", "field accuracy", 2), *(Column(name, NAMES[name], 3) for name in BASELINES)],
        "tab:seeds",
    ),
    TableSpec(
        "Specialisation check: margin of the expert of each domain, nats per byte",
        [
            Column("margin_prose", "prose", 2),
            Column("margin_code", "code", 2),
            Column("passed", "passed (1) or failed (0)", 0),
        ],
    ),
]
LABELS = {"specialised": "Pair 1, each expert on its domain", "unspecialised": "Pair 2, both experts on the union"}
PAPER = {
    "specialised": dict(zip(("field_accuracy", *BASELINES), (0.92, 0.362, 0.361, 0.339, 0.306, 0.290), strict=True)),
    "unspecialised": dict(zip(("field_accuracy", *BASELINES), (0.51, 0.449, 0.326, 0.447, 0.446, 0.410), strict=True)),
}


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Train both pairs, check their specialisation, and restore with each."""
    rows: list[Row] = []
    texts = {role: read_domain(resources.corpora, role, "train") for role in config.domains}
    for number, pair in enumerate(LABELS):
        experts = {}
        for index, role in enumerate(config.domains):
            training_texts = [texts[role]] if pair == "specialised" else list(texts.values())
            cache = resources.folder / "experts" / pair
            expert_seed = 10 * seed + 2 * number + index
            experts[role] = load_or_train_expert(role, training_texts, config, expert_seed, cache, track)
        held_out = {role: resources.evaluation[role] for role in config.domains}
        check = check_specialisation(
            list(experts.values()), held_out, windows=config.checked, length=config.length, seed=seed
        )
        trial = prepare(config, seed, Resources(resources.corpora, experts, resources.folder))
        restorations = restore_all(trial, BASELINES, track, f"seeds, {pair}")
        accuracy = {name: restored.document_accuracy for name, restored in restorations.items()}
        regions = trial.setting.bayes.regions.argmax(-1)
        field_accuracy = float((regions == trial.mixed.labels).double().mean())
        row: Row = {"method": pair, "windows": config.windows, "field_accuracy": field_accuracy, **accuracy}
        rows.append(row | check_metrics(check) | {"paper": PAPER[pair]})
    return Findings(rows, {})


def check_metrics(check: Check) -> Row:
    """Return the margins and the outcome of the check, and a warning if it failed."""
    margins = {f"margin_{domain}": margin.value for domain, margin in check.margins.items()}
    warnings = {
        "an expert has a lower loss on another domain": not check.row_wise,
        "the expert of another domain has a lower loss": not check.column_wise,
    }
    warning = "; ".join(text for text, applies in warnings.items() if applies)
    return {**margins, "passed": int(check.passed), "warning": warning}


def load_or_train_expert(
    role: str, corpora: Sequence[Corpus], config: Config, seed: int, cache: Path, track: Track
) -> ByteExpert:
    """Train an expert on texts, or load it from ``cache``."""
    recipe = hashlib.sha256(json.dumps(asdict(config.training), sort_keys=True).encode()).hexdigest()
    texts = (corpus.fingerprint for corpus in corpora)
    key = "-".join([f"{config.steps}-steps", f"seed-{seed}", *(digest[:8] for digest in (recipe, *texts))])
    folder = cache / key / role
    if not (folder / CONFIG).is_file():
        stream = as_stream([document for corpus in corpora for document in corpus.documents])
        trainer = Trainer(config.training, seed, torch.device("cpu"))
        for step in track(range(config.steps), f"seeds, training {role} ({cache.name})"):
            trainer.step(stream, step / config.steps)
        save_expert(folder, trainer.network, role, {"seed": seed, "steps": config.steps})
    return load_expert(folder)


def conclude(rows: list[Row]) -> str:
    """State the outcome of the check for each pair, and the gain of its composition."""
    sentences = []
    for row in rows:
        outcome = "passes the check" if row["passed"] else f"fails the check: {row['warning']}"
        gain = row[OURS] - row["best_single_posterior"]
        sentences.append(
            f"{LABELS[row['method']]}: {outcome}. Field accuracy {row['field_accuracy']:.2f}. Accuracy of local "
            f"evidence minus best single expert: {gain:+.3f}; minus equal weights: {row[OURS] - row['equal']:+.3f}."
        )
    return " ".join(sentences)


STUDY = Study(presets=PRESETS, tables=TABLES, labels=LABELS, run=run, conclude=conclude)
