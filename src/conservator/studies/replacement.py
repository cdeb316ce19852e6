"""Bytes that are overwritten, and nothing shows where: appendix "A setting where the composition does not matter"."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure

from conservator.channels import Observation, ReplacementChannel
from conservator.decoders.overturn import decode_with_channel
from conservator.experts.expert import Expert
from conservator.field.cost import Cost
from conservator.field.infer import Inferred, infer_globally, infer_with_bayes
from conservator.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, new_figure
from conservator.studies.byte import NAMES, OURS, VOCABULARY, ByteConfig, interval
from conservator.studies.materials import Materials
from conservator.studies.mixtures import Mixtures, mix
from conservator.studies.restoration import Restored, describe, given, judge
from conservator.studies.result import Column, Findings, Row, TableSpec, Track


@dataclass(frozen=True)
class Config(ByteConfig):
    """The sizes of the study.

    Attributes:
        rates: the shares of bytes that are overwritten.
        folds: into how many parts a window is hidden while it is decoded.
    """

    windows: int = 64
    rates: tuple[float, ...] = (0.1, 0.2, 0.3)
    folds: int = 6


PRESETS = {"laptop": Config(), "paper": Config(windows=256)}
UNIT = "windows"
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


def run(config: Config, seed: int, track: Track[float], materials: Materials) -> Findings:
    """Let each composition decide which bytes to overturn; the doubt about contexts is the same for all of them."""
    experts = materials.choose(config.domains)
    texts = {name: materials.evaluation[name] for name in config.domains}
    mixed = mix(texts, config.windows, length=config.length, least=config.least, seed=seed)
    rows: list[Row] = []
    for rate in track(config.rates, "replacement"):
        channel = ReplacementChannel(VOCABULARY, rate)
        observation = channel.corrupt(mixed.tokens, torch.Generator().manual_seed(seed))
        beliefs = infer_all(experts, observation, mixed, seed)
        found = {
            name: overturn(experts, mixed, observation, belief, config.folds, seed) for name, belief in beliefs.items()
        }
        found[COPIED] = copied(mixed, observation, beliefs["equal"])
        for name, restored in found.items():
            row: Row = describe(f"{name} r={rate:g}", restored, mixed.labels, found[OURS])
            struck = (observation.tokens != mixed.tokens).flatten()
            row |= {
                "name": name,
                "rate": rate,
                "repaired": float(restored.right[struck].double().mean()),
                "spoiled": 1 - float(restored.right[~struck].double().mean()),
                "paper": {"accuracy_documents": 1 - rate},
            }
            rows.append(row)
    return Findings(rows, {"replacement": draw(rows)})


def infer_all(experts: Sequence[Expert], observation: Observation, mixed: Mixtures, seed: int) -> dict[str, Inferred]:
    """What each method believes of the field."""

    def generator() -> torch.Generator:
        return torch.Generator().manual_seed(seed + 1)  # not the draws that decided what is overwritten

    ours = infer_with_bayes(experts, observation, generator())
    corners, count = torch.eye(len(experts), dtype=torch.float64), len(experts)
    shared = infer_globally(experts, observation, generator())
    fields = {
        "global": shared.field,
        "equal": torch.full_like(shared.field, 1 / count),
        "single:code": corners[mixed.names.index("code")].expand_as(shared.field).contiguous(),
        "hard_label": corners[mixed.labels],
    }
    return {OURS: ours} | {name: given(field, doubt=ours.doubt) for name, field in fields.items()}


def overturn(
    experts: Sequence[Expert], mixed: Mixtures, observation: Observation, belief: Inferred, folds: int, seed: int
) -> Restored:
    """Decode with the channel, every position while it is hidden itself."""
    decoded = decode_with_channel(experts, observation, belief, folds, torch.Generator().manual_seed(seed + 2))
    everywhere = torch.ones_like(observation.hidden)
    return judge(
        decoded.tokens == mixed.tokens, decoded.confidence, mixed, everywhere, belief, decoded.cost.add(belief.cost)
    )


def copied(mixed: Mixtures, observation: Observation, belief: Inferred) -> Restored:
    """What the paper's one-step decoder comes to: what was observed, as it is."""
    everywhere = torch.ones_like(observation.hidden)
    sure = torch.ones(everywhere.shape, dtype=torch.float64)
    return judge(observation.tokens == mixed.tokens, sure, mixed, everywhere, belief, Cost())


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
    """Whether overturning helps, and whether the composition matters then."""
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
