"""Three byte-level experts on mixed windows, every baseline: table "byte3"."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from conservator.evaluation.figures import BLUE, GREY, ORANGE, new_figure
from conservator_studies.byte import (
    COMPARISON,
    COST,
    NAMES,
    OURS,
    OWN,
    QUALITY,
    ByteConfig,
    interval,
    prepare,
    restore_all,
    tabulate,
    with_the_papers_particles,
)
from conservator_studies.remembering import ALONE, WITH_MEMORY, restore_remembering
from conservator_studies.resources import Resources
from conservator_studies.restoration import difference
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.study import TextStudy, Track

PRESETS = {"laptop": ByteConfig(particle_windows=24), "paper": with_the_papers_particles(ByteConfig())}
TABLES = [
    TableSpec("Restoration, each document counted alike", COMPARISON, "tab:byte3"),
    TableSpec(
        "Ours with own context: an expert does not read what is surely another's",
        [Column("own_difference", "own context minus it [95 %]", 3), Column("own_p", "p", 4)],
    ),
    TableSpec("Quality", QUALITY, "tab:decoder, tab:fieldmetrics, tab:routers"),
    TableSpec("Cost", COST),
    TableSpec(
        "Accuracy in each true region",
        [Column(f"accuracy_{name}", name, 3) for name in ("prose", "code", "config")],
    ),
]
LABELS = NAMES
BASELINES = (
    *("local_bayes", "local_bayes_own", "local_map", "local_eg", "hard_label", "hard_label_own"),
    *("packllm_sim", "packllm_opt", "global", "field_average", "best_single_marginal", "best_single_posterior"),
    *("demix", "demix_heldout", "raw_loss", "raw_loss_heldout", "hmm", "hmm_heldout", "hmm_heldout_own"),
    *("equal", "single:prose", "single:code", "single:config", "shuffled_within", "shuffled_across"),
)
FEW = ("local_particles", "global_particles")
PAPER = {
    "local_bayes": {"accuracy_documents": 0.660, "accuracy_windows": 0.658, "field_accuracy": 0.976},
    "hard_label": {"accuracy_documents": 0.658, "accuracy_windows": 0.657, "difference": 0.001, "d_z": 0.05},
    "packllm_sim": {"accuracy_documents": 0.622, "difference": 0.038, "d_z": 0.99},
    "packllm_opt": {"accuracy_documents": 0.619, "difference": 0.041, "d_z": 1.13},
    "global": {"accuracy_documents": 0.618, "difference": 0.042, "d_z": 1.18},
    "best_single_marginal": {"accuracy_documents": 0.613, "difference": 0.047, "d_z": 1.20},
    "best_single_posterior": {
        "accuracy_documents": 0.613,
        "accuracy_windows": 0.612,
        "difference": 0.047,
        "d_z": 1.21,
    },
    "demix": {"accuracy_documents": 0.612, "difference": 0.047, "d_z": 1.09, "field_accuracy": 0.96},
    "raw_loss": {"accuracy_documents": 0.55, "field_accuracy": 0.57},
    "equal": {"accuracy_documents": 0.564, "accuracy_windows": 0.563, "difference": 0.096, "d_z": 1.82},
    "shuffled_within": {"accuracy_documents": 0.541, "difference": 0.119, "d_z": 2.02},
    "shuffled_across": {"difference": 0.181},
    "local_particles": {"accuracy_documents": 0.660},
    "global_particles": {"accuracy_documents": 0.618},
}


def run(config: ByteConfig, seed: int, track: Track, resources: Resources) -> Findings:
    """Restore the same windows by every baseline; only the first few by Algorithm 1, which is expensive."""
    trial = prepare(config, seed, resources)
    generalists = [expert.spec.name for expert in resources.generalists()]
    found = restore_all(trial, (*BASELINES, *generalists), track, "byte3")
    for name in track((WITH_MEMORY, ALONE), "byte3, memory"):
        found[name] = restore_remembering(trial, alone=name == ALONE)
    few = trial.first(min(config.particle_windows, config.windows))
    by_particles = restore_all(few, FEW, track, "byte3, particles")
    rows = tabulate(found, trial, PAPER, found[OURS]) + tabulate(by_particles, few, PAPER, found[OURS])
    every = found | by_particles
    for row in rows:
        if row["method"] != OWN:
            row |= difference(found[OWN].first(row["windows"]), every[row["method"]]).as_row("own_")
    return Findings(rows, {"byte3": draw(rows)})


def draw(rows: list[Row], labels: Mapping[str, str] = LABELS) -> Figure:
    """By how much ours is better than each baseline, with 95 % intervals, beside the paper's differences."""
    shown = sorted((row for row in rows if "difference" in row), key=lambda row: float(row["difference"]))
    figure = new_figure(8, 0.27 * len(shown) + 1.0)
    axes = figure.subplots()
    for place, row in enumerate(shown):
        span = [[row["difference"] - row["difference_low"]], [row["difference_high"] - row["difference"]]]
        label = "ours, 95 % interval" if place == 0 else None
        axes.errorbar(row["difference"], place, xerr=span, fmt="o", color=BLUE, ms=4, capsize=2, label=label)
    papers = [(row["paper"]["difference"], place) for place, row in enumerate(shown) if "difference" in row["paper"]]
    axes.plot(*zip(*papers, strict=True), "x", color=ORANGE, mew=2, ms=6, label="the paper's")
    axes.axvline(0, color=GREY, linewidth=1)
    axes.set_yticks(range(len(shown)), [f"{labels[row['method']]} ({row['windows']})" for row in shown], fontsize=8)
    axes.set(
        xlabel="accuracy of local evidence minus that of the method (windows in brackets)", ylim=(-0.7, len(shown))
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", color="0.92")
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    return figure


def conclude(rows: list[Row]) -> str:
    """Whether a generalist trained with the compute of all experts together is better."""
    found = {row["method"]: row for row in rows}
    if "generalist_3x" not in found:
        return ""
    best = found["generalist_3x"]
    ours = found[OURS]
    verdict = "does not win" if best["difference_low"] > 0 else "wins" if best["difference_high"] < 0 else "draws level"
    text = (
        "**Does the compute-matched generalist win?** One network of the same size that was trained on all three "
        f"domains with the compute of the three experts together {verdict}: it restores "
        f"{best['accuracy_documents']:.3f}, local evidence {ours['accuracy_documents']:.3f}, a difference of "
        f"{interval(best)}, p = {best['p']:.4f}. With the steps of one "
        f"expert it restores {found['generalist']['accuracy_documents']:.3f}. It takes one evaluation a window, local "
        f"evidence {ours['evaluations']:.0f}, and it says nothing of whose text a position is."
    )
    if WITH_MEMORY in found:  # results of old have none
        remembered = found[WITH_MEMORY]
        text += (
            "\n\n**What does memory bring?** A window is short, and remembers little of itself. With a memory of it "
            f"and of common phrases, which the paper does not have, {remembered['accuracy_documents']:.3f} come back, "
            f"without it {ours['accuracy_documents']:.3f} (without minus with: {interval(remembered)}), and by the "
            f"memory alone {found[ALONE]['accuracy_documents']:.3f}."
        )
    return text


STUDY = TextStudy(presets=PRESETS, unit="windows", tables=TABLES, labels=LABELS, run=run, conclude=conclude)
