"""Bytes overwritten at unknown positions: appendix "A setting where the composition does not matter"."""

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
from conservator_studies.restoration import Restored, describe, judge
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.study import TextStudy, Track


@dataclass(frozen=True)
class Config(ByteConfig):
    """The sizes of the study.

    Attributes:
        rates: the shares of bytes that are overwritten.
        folds: the number of folds of a window, which are hidden in turn while it is decoded.
    """

    windows: int = 64
    rates: tuple[float, ...] = (0.1, 0.2, 0.3)
    folds: int = 6


PRESETS = {"laptop": Config(), "paper": Config(windows=256)}
METHODS = (OURS, "global", "equal", "single:code", "hard_label")
COPIED = "copied"
TABLES = [
    TableSpec(
        "Accuracy over all positions, each document counted alike; the paper's is within 0.015 of 1 - r",
        [
            Column("accuracy_documents", "accuracy", 3),
            Column("difference", "ours minus it [95 %]", 3),
            Column("p", "p", 4),
        ],
        "section A setting where the composition does not matter",
    ),
    TableSpec(
        "What overturning does",
        [Column("repaired", "overwritten bytes restored", 3), Column("spoiled", "sound bytes spoiled", 4)],
    ),
]
LABELS = {
    f"{name} r={rate:g}": f"r = {rate:g}: {text}"
    for rate in Config().rates
    for name, text in ({COPIED: "copied (the paper's decoder)"} | {name: NAMES[name] for name in METHODS}).items()
}


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Decode with each composition, which decides which bytes are changed; all methods share the doubt of ours."""
    team = Team(resources.choose(config.domains))
    texts = {name: resources.evaluation[name] for name in config.domains}
    mixed = mix(texts, config.windows, length=config.length, min_segment=config.least, seed=seed)
    rows: list[Row] = []
    for rate in track(config.rates, "replacement"):
        channel = ReplacementChannel(BYTES.size, rate)
        observation = channel.corrupt(mixed.tokens, torch.Generator().manual_seed(seed))
        compositions = infer_all(team, observation, mixed, seed)
        found = {
            name: overturn(team, mixed, observation, inferred, config.folds, seed)
            for name, inferred in compositions.items()
        }
        found[COPIED] = copied(mixed, observation, compositions["equal"])
        overwritten = (observation.tokens != mixed.tokens).flatten()
        for name, restored in found.items():
            row: Row = describe(f"{name} r={rate:g}", restored, mixed.labels, found[OURS])
            row |= {
                "name": name,
                "rate": rate,
                "repaired": float(restored.right[overwritten].double().mean()),
                "spoiled": 1 - float(restored.right[~overwritten].double().mean()),
                "paper": {"accuracy_documents": 1 - rate},
            }
            rows.append(row)
    return Findings(rows, {"replacement": draw(rows)})


def infer_all(team: Team, observation: Observation, mixed: Mixtures, seed: int) -> dict[str, Inferred]:
    """The composition of each method."""

    def generator() -> torch.Generator:
        return torch.Generator().manual_seed(seed + 1)  # not the seed that decided what is overwritten

    ours = Bayes()(team, observation, generator())
    shared = GLOBAL(team, observation, generator())
    corners = torch.eye(len(team), dtype=torch.float64)
    fields = {
        "global": shared.field,
        "equal": torch.full_like(shared.field, 1 / len(team)),
        "single:code": corners[mixed.names.index("code")].expand_as(shared.field).contiguous(),
        "hard_label": corners[mixed.labels],
    }
    return {OURS: ours} | {name: Inferred.given(field, doubt=ours.doubt) for name, field in fields.items()}


def overturn(
    team: Team, mixed: Mixtures, observation: Observation, inferred: Inferred, folds: int, seed: int
) -> Restored:
    """Decode with the channel; every position is hidden while it is predicted."""
    decoded = decode_with_channel(team, observation, inferred, folds, torch.Generator().manual_seed(seed + 2))
    everywhere = torch.ones_like(observation.lost)
    cost = decoded.cost + inferred.cost
    return judge(decoded.tokens == mixed.tokens, decoded.confidence, mixed, everywhere, inferred, cost)


def copied(mixed: Mixtures, observation: Observation, inferred: Inferred) -> Restored:
    """The result of the paper's one-step decoder, which copies the observed bytes."""
    everywhere = torch.ones_like(observation.lost)
    sure = torch.ones(everywhere.shape, dtype=torch.float64)
    return judge(observation.tokens == mixed.tokens, sure, mixed, everywhere, inferred, Cost())


def draw(rows: list[Row]) -> Figure:
    """What each composition gains over copying, against the rate."""
    figure = new_figure(6.5, 3.6)
    axes = figure.subplots()
    rates = sorted({row["rate"] for row in rows})
    by_name = {row["method"]: row for row in rows}
    for name, colour in zip(METHODS, (BLUE, ORANGE, GREY, PURPLE, GREEN), strict=True):
        gains = [
            by_name[f"{name} r={rate:g}"]["accuracy_documents"] - by_name[f"{COPIED} r={rate:g}"]["accuracy_documents"]
            for rate in rates
        ]
        axes.plot(rates, gains, "o-", color=colour, ms=4, label=NAMES[name])
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set(xlabel="share of bytes that is overwritten", ylabel="accuracy gained over copying", xticks=rates)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.92")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def conclude(rows: list[Row]) -> str:
    """Whether changing doubtful bytes helps, and whether the composition matters for it."""
    found = {row["method"]: row for row in rows}
    sentences = []
    for rate in sorted({row["rate"] for row in rows}):
        ours, plain, equal = (found[f"{name} r={rate:g}"] for name in (OURS, COPIED, "equal"))
        sentences.append(
            f"At r = {rate:g} local evidence has {ours['accuracy_documents']:.3f} of all bytes right, copying "
            f"{plain['accuracy_documents']:.3f} ({interval(plain)}): it restores {ours['repaired']:.1%} of the "
            f"overwritten bytes and spoils {ours['spoiled']:.2%} of the sound ones; ours minus equal weights is "
            f"{interval(equal)}."
        )
    return "**Does overturning help under replacement, and does the composition matter then?** " + " ".join(sentences)


STUDY = TextStudy(presets=PRESETS, unit="windows", tables=TABLES, labels=LABELS, run=run, conclude=conclude)
