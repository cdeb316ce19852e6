"""Two retrained pairs of experts, one of which does not specialise: table "seeds"."""

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
from conservator_studies.metrics import per_group
from conservator_studies.resources import Resources
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.study import TextStudy, Track


@dataclass(frozen=True)
class Config(ByteConfig):
    """The sizes of the study.

    Attributes:
        training: how an expert is trained.
        steps_per_window: training steps per window, so that a quick try on few windows also trains quickly.
        checked: windows of each domain for the specialisation check.
    """

    windows: int = 64
    domains: tuple[str, ...] = ("prose", "code")
    training: TrainingConfig = field(default_factory=lambda: TRAINING["small"])
    steps_per_window: float = 3.0
    checked: int = 64

    @property
    def steps(self) -> int:
        """The steps of each training."""
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
        "Accuracy, each document counted alike; read each row against itself",
        [Column("field_accuracy", "field accuracy", 2), *(Column(name, NAMES[name], 3) for name in BASELINES)],
        "tab:seeds",
    ),
    TableSpec(
        "The specialisation check: by how much each domain prefers its own expert, nats per byte",
        [
            Column("margin_prose", "prose", 2),
            Column("margin_code", "code", 2),
            Column("passed", "passed (1) or not (0)", 0),
        ],
    ),
]
LABELS = {"specialised": "Pair 1, each on its domain", "unspecialised": "Pair 2, both on the union"}
PAPER = {
    "specialised": dict(zip(("field_accuracy", *BASELINES), (0.92, 0.362, 0.361, 0.339, 0.306, 0.290), strict=True)),
    "unspecialised": dict(zip(("field_accuracy", *BASELINES), (0.51, 0.449, 0.326, 0.447, 0.446, 0.410), strict=True)),
}


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Train both pairs, check whether they specialise, and restore with each."""
    rows: list[Row] = []
    texts = {role: read_domain(resources.corpora, role, "train") for role in config.domains}
    for number, pair in enumerate(LABELS):
        experts = {}
        for place, role in enumerate(config.domains):
            own = [texts[role]] if pair == "specialised" else list(texts.values())
            home = resources.folder / "experts" / pair
            experts[role] = train_once(role, own, config, 10 * seed + 2 * number + place, home, track)
        held = {role: resources.evaluation[role] for role in config.domains}
        check = check_specialisation(
            list(experts.values()), held, windows=config.checked, length=config.length, seed=seed
        )
        trial = prepare(config, seed, Resources(resources.corpora, experts, resources.folder))
        found = restore_all(trial, BASELINES, track, f"seeds, {pair}")
        accuracy = {name: float(per_group(one.right, one.documents).mean()) for name, one in found.items()}
        regions = trial.setting.bayes.regions.argmax(-1)
        attributed = float((regions == trial.mixed.labels).double().mean())
        row: Row = {"method": pair, "windows": config.windows, "field_accuracy": attributed, **accuracy}
        rows.append(row | judged(check) | {"paper": PAPER[pair]})
    return Findings(rows, {})


def judged(check: Check) -> Row:
    """The margins and the verdict of the check, and its warning if it did not pass."""
    margins = {f"margin_{domain}": margin.value for domain, margin in check.margins.items()}
    warnings = {
        "an expert finds another domain easier than its own": not check.row_wise,
        "a domain is better served by the expert of another": not check.column_wise,
    }
    warning = "; ".join(text for text, applies in warnings.items() if applies)
    return {**margins, "passed": int(check.passed), "warning": warning}


def train_once(role: str, corpora: Sequence[Corpus], config: Config, seed: int, home: Path, track: Track) -> ByteExpert:
    """Train an expert on texts and keep it below ``home``, or load it from there."""
    recipe = hashlib.sha256(json.dumps(asdict(config.training), sort_keys=True).encode()).hexdigest()
    texts = (corpus.fingerprint for corpus in corpora)
    key = "-".join([f"{config.steps}-steps", f"seed-{seed}", *(one[:8] for one in (recipe, *texts))])
    folder = home / key / role
    if not (folder / CONFIG).is_file():
        stream = as_stream([document for corpus in corpora for document in corpus.documents])
        trainer = Trainer(config.training, seed, torch.device("cpu"))
        for step in track(range(config.steps), f"seeds, training {role} ({home.name})"):
            trainer.step(stream, step / config.steps)
        save_expert(folder, trainer.network, role, {"seed": seed, "steps": config.steps})
    return load_expert(folder)


def conclude(rows: list[Row]) -> str:
    """The verdict of the check on each pair, and how well its composition restores."""
    sentences = []
    for row in rows:
        verdict = "passes the check" if row["passed"] else f"fails it: {row['warning']}"
        gain = row[OURS] - row["best_single_posterior"]
        sentences.append(
            f"{LABELS[row['method']]}: {verdict}. Field accuracy {row['field_accuracy']:.2f}; local evidence is "
            f"{gain:+.3f} from the best single expert and {row[OURS] - row['equal']:+.3f} from equal weights."
        )
    return " ".join(sentences)


STUDY = TextStudy(presets=PRESETS, unit="windows", tables=TABLES, labels=LABELS, run=run, conclude=conclude)
