"""Three byte-level experts and all baselines on mixed windows: table "byte3"."""

from collections.abc import Mapping
from dataclasses import replace

from matplotlib.figure import Figure

from conservator.evaluation.figures import BLUE, GREY, ORANGE, new_figure
from conservator.experts import Memory, Team
from conservator.field import Bayes
from conservator_studies.byte import (
    NAMES,
    OURS,
    OURS_IN_DOMAIN,
    ByteConfig,
    Trial,
    comparison_tables,
    interval,
    prepare,
    region_table,
    restore_all,
    tabulate,
    with_paper_particles,
)
from conservator_studies.resources import Resources
from conservator_studies.restoration import Restored, difference, join, restore_windows
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.study import Study, Track

PRESETS = {"laptop": ByteConfig(particle_windows=24), "paper": with_paper_particles(ByteConfig())}
ACCURACY_TABLE, *QUALITY_TABLES = comparison_tables("tab:byte3", "tab:decoder, tab:fieldmetrics, tab:routers")
TABLES = [
    ACCURACY_TABLE,
    TableSpec(
        "Ours with in-domain context: text is hidden from an expert where its weight is below 0.05",
        [Column("own_difference", "in-domain context minus method [95 %]", 3), Column("own_p", "p", 4)],
    ),
    *QUALITY_TABLES,
    region_table(ByteConfig().domains),
]
BASELINES = (
    *("local_bayes", "local_bayes_own", "local_map", "local_eg", "hard_label", "hard_label_own"),
    *("packllm_sim", "packllm_opt", "global", "field_average", "best_single_marginal", "best_single_posterior"),
    *("demix", "demix_heldout", "raw_loss", "raw_loss_heldout", "hmm", "hmm_heldout", "hmm_heldout_own"),
    *("equal", "single:prose", "single:code", "single:config", "shuffled_within", "shuffled_across"),
)
WITH_MEMORY, MEMORY_ONLY = "local_bayes_memory", "memory_alone"
PARTICLE_METHODS = ("local_particles", "global_particles")
PAPER = {
    "local_bayes": {"accuracy_documents": 0.660, "accuracy_windows": 0.658, "field_accuracy": 0.976},
    "hard_label": {"accuracy_documents": 0.658, "accuracy_windows": 0.657, "difference": 0.001, "d_z": 0.05},
    "packllm_sim": {"accuracy_documents": 0.622, "difference": 0.038, "d_z": 0.99},
    "packllm_opt": {"accuracy_documents": 0.619, "difference": 0.041, "d_z": 1.13},
    "global": {"accuracy_documents": 0.618, "difference": 0.042, "d_z": 1.18},
    "best_single_marginal": {"accuracy_documents": 0.613, "difference": 0.047, "d_z": 1.20},
    "best_single_posterior": {"accuracy_documents": 0.613, "accuracy_windows": 0.612, "difference": 0.047, "d_z": 1.21},
    "demix": {"accuracy_documents": 0.612, "difference": 0.047, "d_z": 1.09, "field_accuracy": 0.96},
    "raw_loss": {"accuracy_documents": 0.55, "field_accuracy": 0.57},
    "equal": {"accuracy_documents": 0.564, "accuracy_windows": 0.563, "difference": 0.096, "d_z": 1.82},
    "shuffled_within": {"accuracy_documents": 0.541, "difference": 0.119, "d_z": 2.02},
    "shuffled_across": {"difference": 0.181},
    "local_particles": {"accuracy_documents": 0.660},
    "global_particles": {"accuracy_documents": 0.618},
}


def run(config: ByteConfig, seed: int, track: Track, resources: Resources) -> Findings:
    """Restore the same windows with every baseline; only the first ones with Algorithm 1, which is expensive."""
    trial = prepare(config, seed, resources)
    generalists = [expert.spec.name for expert in resources.generalists()]
    restorations = restore_all(trial, (*BASELINES, *generalists), track, "byte3")
    for name in track((WITH_MEMORY, MEMORY_ONLY), "byte3, memory"):
        restorations[name] = restore_with_memory(trial, memory_only=name == MEMORY_ONLY)
    particle_trial = trial.first(min(config.particle_windows, config.windows))
    restorations |= restore_all(particle_trial, PARTICLE_METHODS, track, "byte3, particles")
    rows = tabulate(restorations, trial.mixed, PAPER)
    for row in rows:
        if row["method"] != OURS_IN_DOMAIN:
            in_domain = restorations[OURS_IN_DOMAIN].first(row["windows"])
            row |= difference(in_domain, restorations[row["method"]], "own_")
    return Findings(rows, {"byte3": draw(rows)})


def restore_with_memory(trial: Trial, *, memory_only: bool) -> Restored:
    """Restore each window in one step, with the experts and the memory, or with the memory only.

    Each window is a document, and the memory also has common phrases.
    """
    setting, parts = trial.setting, []
    generator, meter = setting.generator(), setting.team.meter
    with meter.measure() as spent:
        for number in range(len(trial.mixed.tokens)):
            observation = setting.observation[number : number + 1]
            memory = Memory().condition(observation)
            team = Team([memory] if memory_only else [*setting.team.experts, memory], meter)
            inferred = Bayes()(team, observation, generator)
            parts.append(restore_windows(team, trial.mixed.between(number, number + 1), observation, inferred))
    return replace(join(parts), cost=spent.cost)


def draw(rows: list[Row], labels: Mapping[str, str] = NAMES) -> Figure:
    """Plot the accuracy of ours minus each baseline, with 95 % intervals, and the paper's differences."""
    shown = sorted((row for row in rows if "difference" in row), key=lambda row: float(row["difference"]))
    figure = new_figure(8, 0.27 * len(shown) + 1.0)
    axes = figure.subplots()
    for line, row in enumerate(shown):
        error = [[row["difference"] - row["difference_low"]], [row["difference_high"] - row["difference"]]]
        label = "ours, 95 % interval" if line == 0 else None
        axes.errorbar(row["difference"], line, xerr=error, fmt="o", color=BLUE, ms=4, capsize=2, label=label)
    papers = [(row["paper"]["difference"], line) for line, row in enumerate(shown) if "difference" in row["paper"]]
    axes.plot(*zip(*papers, strict=True), "x", color=ORANGE, mew=2, ms=6, label="paper")
    axes.axvline(0, color=GREY, linewidth=1)
    axes.set_yticks(range(len(shown)), [f"{labels[row['method']]} ({row['windows']})" for row in shown], fontsize=8)
    axes.set(
        xlabel="accuracy of local evidence minus accuracy of the method (windows in brackets)", ylim=(-0.7, len(shown))
    )
    axes.grid(axis="x", color="0.92")
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    return figure


def conclude(rows: list[Row]) -> str:
    """Compare with the compute-matched generalist, and report the effect of the memory."""
    by_method = {row["method"]: row for row in rows}
    if "generalist_3x" not in by_method:
        return ""
    matched = by_method["generalist_3x"]
    ours = by_method[OURS]
    if matched["difference_low"] > 0:
        verdict = "is worse"
    else:
        verdict = "is better" if matched["difference_high"] < 0 else "does not differ significantly"
    text = (
        "**Compute-matched generalist.** One network of the same size, trained on all three domains with the compute "
        f"of the three experts together, {verdict}: its accuracy is {matched['accuracy_documents']:.3f}, that of local "
        f"evidence {ours['accuracy_documents']:.3f}, a difference of {interval(matched)}, p = {matched['p']:.4f}. With "
        "the training steps of one expert, the accuracy of the generalist is "
        f"{by_method['generalist']['accuracy_documents']:.3f}. The generalist needs one evaluation per window, local "
        f"evidence {ours['evaluations']:.0f}; the generalist does not attribute positions to domains."
    )
    if WITH_MEMORY in by_method:  # older result files have no such row
        memory = by_method[WITH_MEMORY]
        text += (
            "\n\n**Memory.** The paper has no memory expert. A window is short and repeats little. With a memory of "
            f"the window and of common phrases, the accuracy is {memory['accuracy_documents']:.3f}; without it, "
            f"{ours['accuracy_documents']:.3f} (without minus with: {interval(memory)}); with the memory only, "
            f"{by_method[MEMORY_ONLY]['accuracy_documents']:.3f}."
        )
    return text


STUDY = Study(presets=PRESETS, tables=TABLES, labels=NAMES, run=run, conclude=conclude)
