"""Bytes replaced at unknown positions: appendix "A setting where the composition does not matter"."""

from dataclasses import dataclass

import torch
from matplotlib.figure import Figure

from conservator.channels import Observation, ReplacementChannel
from conservator.evaluation.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, new_figure
from conservator.experts import Cost, Team
from conservator.field import GLOBAL, Bayes, Inferred
from conservator.reference import decode_with_channel
from conservator.vocabularies import BYTES
from conservator_studies.byte import NAMES, OURS, ByteConfig, interval
from conservator_studies.mixtures import Mixtures, mix
from conservator_studies.resources import Resources
from conservator_studies.restoration import Restored, describe, select_positions
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.study import Study, Track


@dataclass(frozen=True)
class Config(ByteConfig):
    """Configuration of the study.

    Attributes:
        rates: fractions of bytes that are replaced.
        folds: number of folds of a window; the decoder hides one fold at a time.
    """

    windows: int = 64
    rates: tuple[float, ...] = (0.1, 0.2, 0.3)
    folds: int = 6


PRESETS = {"laptop": Config(), "paper": Config(windows=256)}
METHODS = (OURS, "global", "equal", "single:code", "hard_label")
COPIED = "copied"
TABLES = [
    TableSpec(
        "Accuracy over all positions, mean over documents; the paper reports values within 0.015 of 1 - r",
        [
            Column("accuracy_documents", "accuracy", 3),
            Column("difference", "ours minus method [95 %]", 3),
            Column("p", "p", 4),
        ],
        "section A setting where the composition does not matter",
    ),
    TableSpec(
        "Corrections and false corrections",
        [Column("repaired", "replaced bytes corrected", 3), Column("spoiled", "unchanged bytes harmed", 4)],
    ),
]
LABELS = {
    f"{name} r={rate:g}": f"r = {rate:g}: {text}"
    for rate in Config().rates
    for name, text in (
        {COPIED: "Copy of the observation (the paper's decoder)"} | {name: NAMES[name] for name in METHODS}
    ).items()
}


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Decode with the composition of each method; all methods use the uncertainty of ours."""
    team = Team(resources.choose(config.domains))
    texts = {name: resources.evaluation[name] for name in config.domains}
    mixed = mix(texts, config.windows, length=config.length, min_segment=config.least, seed=seed)
    rows: list[Row] = []
    for rate in track(config.rates, "replacement"):
        channel = ReplacementChannel(BYTES.size, rate)
        observation = channel.corrupt(mixed.tokens, torch.Generator().manual_seed(seed))
        compositions = infer_all(team, observation, mixed, seed)
        restorations = {
            name: correct_bytes(team, mixed, observation, inferred, config.folds, seed)
            for name, inferred in compositions.items()
        }
        restorations[COPIED] = copy_observation(mixed, observation, compositions["equal"])
        replaced = (observation.tokens != mixed.tokens).flatten()
        for name, restored in restorations.items():
            row: Row = describe(f"{name} r={rate:g}", restored, mixed.labels, restorations[OURS])
            row |= {
                "name": name,
                "rate": rate,
                "repaired": float(restored.correct[replaced].double().mean()),
                "spoiled": 1 - float(restored.correct[~replaced].double().mean()),
                "paper": {"accuracy_documents": 1 - rate},
            }
            rows.append(row)
    return Findings(rows, {"replacement": draw(rows)})


def infer_all(team: Team, observation: Observation, mixed: Mixtures, seed: int) -> dict[str, Inferred]:
    """Infer the composition of each method."""

    def generator() -> torch.Generator:
        return torch.Generator().manual_seed(seed + 1)  # differs from the seed of the replacements

    ours = Bayes()(team, observation, generator())
    global_weight = GLOBAL(team, observation, generator())
    vertices = torch.eye(len(team), dtype=torch.float64)
    fields = {
        "global": global_weight.field,
        "equal": torch.full_like(global_weight.field, 1 / len(team)),
        "single:code": vertices[mixed.names.index("code")].expand_as(global_weight.field).contiguous(),
        "hard_label": vertices[mixed.labels],
    }
    return {OURS: ours} | {name: Inferred.given(field, error_probs=ours.error_probs) for name, field in fields.items()}


def correct_bytes(
    team: Team, mixed: Mixtures, observation: Observation, inferred: Inferred, folds: int, seed: int
) -> Restored:
    """Decode with the channel; each position is hidden when it is predicted."""
    decoded = decode_with_channel(team, observation, inferred, folds, torch.Generator().manual_seed(seed + 2))
    all_positions = torch.ones_like(observation.lost)
    cost = decoded.cost + inferred.cost
    return select_positions(decoded.tokens == mixed.tokens, decoded.confidence, mixed, all_positions, inferred, cost)


def copy_observation(mixed: Mixtures, observation: Observation, inferred: Inferred) -> Restored:
    """Return the result of the paper's one-step decoder, which copies the observed bytes."""
    all_positions = torch.ones_like(observation.lost)
    confidence = torch.ones(all_positions.shape, dtype=torch.float64)
    return select_positions(observation.tokens == mixed.tokens, confidence, mixed, all_positions, inferred, Cost())


def draw(rows: list[Row]) -> Figure:
    """Plot the gain of each composition over copying, as a function of the rate."""
    figure = new_figure(6.5, 3.6)
    axes = figure.subplots()
    rates = sorted({row["rate"] for row in rows})
    by_method = {row["method"]: row for row in rows}
    for name, colour in zip(METHODS, (BLUE, ORANGE, GREY, PURPLE, GREEN), strict=True):
        gains = [
            by_method[f"{name} r={rate:g}"]["accuracy_documents"]
            - by_method[f"{COPIED} r={rate:g}"]["accuracy_documents"]
            for rate in rates
        ]
        axes.plot(rates, gains, "o-", color=colour, ms=4, label=NAMES[name])
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set(xlabel="fraction of replaced bytes", ylabel="accuracy gain over copying", xticks=rates)
    axes.grid(axis="y", color="0.92")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def conclude(rows: list[Row]) -> str:
    """State the gain of correcting uncertain bytes, and its dependence on the composition."""
    by_method = {row["method"]: row for row in rows}
    sentences = []
    for rate in sorted({row["rate"] for row in rows}):
        ours, copied, equal = (by_method[f"{name} r={rate:g}"] for name in (OURS, COPIED, "equal"))
        sentences.append(
            f"At r = {rate:g} the accuracy is {ours['accuracy_documents']:.3f} with local evidence and "
            f"{copied['accuracy_documents']:.3f} with copying (difference {interval(copied)}). Local evidence corrects "
            f"{ours['repaired']:.1%} of the replaced bytes and harms {ours['spoiled']:.2%} of the unchanged bytes. "
            f"Ours minus equal weights: {interval(equal)}."
        )
    return "**Correction under replacement, and its dependence on the composition.** " + " ".join(sentences)


STUDY = Study(presets=PRESETS, tables=TABLES, labels=LABELS, run=run, conclude=conclude)
