"""Adapters for prose and code of one base model with a uniform source, on mixed windows of tokens: table "scale".

The study also has the paper's other results on these experts: corruption rates, decoders and smoothing strengths.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from conservator.experts import Expert
from conservator.reference import PRESETS as PARTICLES
from conservator.reference import PerColumn
from conservator_studies.byte import NAMES, OURS, PAIRED_TITLE, comparison_tables, interval, region_table, tabulate
from conservator_studies.byte3 import draw
from conservator_studies.corpora import read_domain, read_domains
from conservator_studies.expert_training import text_corpus
from conservator_studies.resources import Resources
from conservator_studies.restoration import Restored
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.study import Track
from conservator_studies.token_experts import adapter_study, load_or_train_adapters
from conservator_studies.tokens import (
    DECODER_STEPS,
    Method,
    TokenConfig,
    by_field,
    by_name,
    by_names,
    by_noise_decoding,
    damage_windows,
    mixed_windows,
    restore_trials,
)

DOMAINS, GENERALISTS = ("prose", "code"), ("generalist", "generalist_2x")


@dataclass(frozen=True)
class Config(TokenConfig):
    """Configuration of the study.

    Attributes:
        rates: additional fractions of lost tokens.
        rate_windows: number of windows for each of ``rates``.
        taus: smoothing strengths, measured on calibration windows.
        calibration: number of calibration windows, from texts that no other table uses.
    """

    rates: tuple[float, ...] = (0.5, 0.7)
    rate_windows: int = 64
    taus: tuple[float, ...] = (0.0, 0.1, 0.2, 0.4, 0.6, 1.0, 2.0)
    calibration: int = 32


PRESETS = {
    "laptop": Config(windows=128, particles="1.3B, reduced"),
    "paper": Config(rate_windows=128, particle_windows=256, training=None),
}
BASELINES = (
    *(OURS, "hard_label", "generalist", "generalist_2x", "packllm_opt", "packllm_sim", "global", "field_average"),
    *("best_single_marginal", "equal", "shuffled_within", "single:prose", "single:code"),
    *("demix", "demix_heldout", "raw_loss", "raw_loss_heldout", "hmm", "hmm_heldout"),
)
PARTICLE_METHODS = ("local_particles", "global_particles", "best_single_posterior")
RATE_METHODS = (OURS, "hard_label", "best_single_marginal", "global", "equal")
DECODER_METHODS = (OURS, "hard_label", "best_single_marginal", "equal")
PAPER_EVALUATIONS = PARTICLES["1.3B"].evaluations(len(DOMAINS))
RATES, DECODERS, TAUS = "rate_", "decoder_", "tau_"  # prefixes of metrics
TABLES = [
    *comparison_tables("tab:scale", "tab:scale, tab:routers (column 1.3B)", PAIRED_TITLE),
    region_table(DOMAINS),
    TableSpec(
        "Accuracy by fraction of lost tokens, mean over windows",
        [Column(RATES + name, NAMES[name], 3) for name in RATE_METHODS],
        "tab:rate, rows 1.3B",
    ),
    TableSpec(
        "Accuracy by decoder, mean over windows",
        [Column(DECODERS + name, NAMES[name], 3) for name in DECODER_METHODS],
        "tab:decoder, rows 1.3B",
    ),
    TableSpec(
        "Accuracy by smoothing strength, on calibration windows",
        [Column(f"{TAUS}accuracy", "accuracy", 3), Column(f"{TAUS}field", "field accuracy", 3)],
        "tab:tv, columns 1.3B",
    ),
]
LABELS = NAMES | {
    "generalist": "Generalist (union), same steps",
    "generalist_2x": "Generalist, same compute",
    "The paper's, one-step": "The paper's decoder, one-step",
    "The paper's, iterative": "The paper's decoder, iterative",
    "Ours": "Our decoder",
}
PAPER = {
    OURS: {"accuracy_windows": 0.653, "accuracy_documents": 0.653, "field_accuracy": 0.995},
    "hard_label": {"accuracy_documents": 0.655, "difference": -0.002},
    "generalist": {"accuracy_documents": 0.636, "difference": 0.017},
    "packllm_opt": {"accuracy_documents": 0.616, "difference": 0.037},
    "global": {"accuracy_documents": 0.611, "difference": 0.042, "d_z": 1.47},
    "global_particles": {"accuracy_documents": 0.611, "difference": 0.042, "d_z": 1.47},
    "field_average": {"accuracy_documents": 0.610},
    "packllm_sim": {"accuracy_documents": 0.605, "difference": 0.048},
    "best_single_posterior": {"accuracy_documents": 0.599, "difference": 0.054},
    "best_single_marginal": {"accuracy_documents": 0.599, "difference": 0.055},
    "equal": {"accuracy_documents": 0.599, "difference": 0.054},
    "shuffled_within": {"accuracy_documents": 0.570, "difference": 0.083},
    "single:prose": {"accuracy_documents": 0.511, "difference": 0.142},
    "demix": {"accuracy_documents": 0.60, "field_accuracy": 0.80},
    "raw_loss": {"accuracy_documents": 0.60, "field_accuracy": 0.81},
    "hmm": {"accuracy_documents": 0.568, "field_accuracy": 0.72},
    "local_particles": {"accuracy_documents": 0.653, "field_accuracy": 0.995},
}
PAPER_RATES = {
    0.3: (0.653, 0.655, 0.599, 0.612, 0.599),
    0.5: (0.527, 0.534, 0.475, 0.489, 0.471),
    0.7: (0.369, 0.381, 0.332, 0.344, 0.322),
}
PAPER_DECODERS = {"one-step": (0.653, 0.655, 0.599, 0.599), "iterative": (0.656, 0.656, 0.602, 0.602)}
PAPER_TAUS = {0.0: (0.659, 0.912), 0.4: (0.679, 0.993), 2.0: (0.676, 0.993)}


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Train or load the experts, and measure all methods on the same windows."""
    experts = find_experts(config, resources, track)
    team = [experts[name] for name in DOMAINS]
    generalists = [experts[name] for name in GENERALISTS]
    texts = {name: resources.evaluation[name] for name in DOMAINS}
    mixed = mixed_windows(texts, team[0].spec.vocabulary, config, seed)
    methods = by_names(*BASELINES, *PARTICLE_METHODS)
    for decoder, steps in (("one-step", 1), ("iterative", DECODER_STEPS)):
        methods |= {f"{decoder} {name}": by_noise_decoding(name, steps) for name in DECODER_METHODS}
    trials = damage_windows(mixed, team, config, seed, generalists)
    restorations = restore_trials(trials, methods, track, "scale", PARTICLE_METHODS, config.particle_windows)
    main = {name: restored for name, restored in restorations.items() if name in (*BASELINES, *PARTICLE_METHODS)}
    rows = tabulate(main, mixed, PAPER)
    rows += [rate_row(config.rate, restorations, config.windows)]
    for rate in config.rates:
        rate_trials = damage_windows(mixed.first(config.rate_windows), team, replace(config, rate=rate), seed)
        by_rate = restore_trials(rate_trials, by_names(*RATE_METHODS), track, f"scale, rate {rate:g}")
        rows.append(rate_row(rate, by_rate, config.rate_windows))
    for decoder, paper in PAPER_DECODERS.items():
        ours = {DECODERS + name: restorations[f"{decoder} {name}"].window_accuracy for name in DECODER_METHODS}
        paper_row = dict(zip(ours, paper, strict=True))
        rows.append({"method": f"The paper's, {decoder}", "count": config.windows, **ours, "paper": paper_row})
    ours = {DECODERS + name: restorations[name].window_accuracy for name in DECODER_METHODS}
    rows.append({"method": "Ours", **ours, "paper": {}})
    rows += calibrate(config, seed, track, resources, team)
    return Findings(rows, {"scale": draw(rows, LABELS)})


def find_experts(config: Config, resources: Resources, track: Track) -> dict[str, Expert]:
    """Load or train adapters for prose, for code, and two generalists with the steps of one and of two adapters."""
    texts = {name: read_domain(resources.corpora, name, "train") for name in DOMAINS}
    union = text_corpus([document for corpus in texts.values() for document in corpus.documents])
    role_texts = texts | dict.fromkeys(GENERALISTS, union)
    return load_or_train_adapters(resources, config, role_texts, track, {"generalist_2x": 2})


def rate_row(rate: float, restorations: Mapping[str, Restored], windows: int) -> Row:
    """Make the row of a rate."""
    ours = {RATES + name: restorations[name].window_accuracy for name in RATE_METHODS}
    paper = dict(zip(ours, PAPER_RATES[rate], strict=True)) if rate in PAPER_RATES else {}
    return {"method": f"r = {rate:g}", "count": windows, **ours, "paper": paper}


def by_smoothing(tau: float) -> Method:
    """Make a method from the paper's update on cavity evidence, with total variation of strength ``tau``."""
    return by_field(lambda setting: setting.ascent(PerColumn(tau)))


def calibrate(config: Config, seed: int, track: Track, resources: Resources, team: list[Expert]) -> list[Row]:
    """Run the paper's update with every smoothing strength, on windows of held-out training documents."""
    texts = {name: read_domains(resources.corpora, "train", held_out=True)[name] for name in DOMAINS}
    mixed = mixed_windows(texts, team[0].spec.vocabulary, replace(config, windows=config.calibration), seed)
    methods = {f"tau = {tau:g}": by_smoothing(tau) for tau in config.taus}
    compared = {"Ours, tau by evidence": OURS} | {NAMES[name]: name for name in ("global", "best_single_marginal")}
    methods |= {label: by_name(name) for label, name in compared.items()}
    trials = damage_windows(mixed, team, config, seed)
    restorations = restore_trials(trials, methods, track, "scale, smoothing")
    paper = {f"tau = {tau:g}": values for tau, values in PAPER_TAUS.items()}
    names = (f"{TAUS}accuracy", f"{TAUS}field")
    rows: list[Row] = []
    for name, restored in restorations.items():
        row: Row = {"method": name, "count": config.calibration, names[0]: restored.window_accuracy}
        if restored.attributes:
            row[names[1]] = float((restored.regions == mixed.labels).double().mean())
        rows.append(row | {"paper": dict(zip(names, paper[name], strict=True)) if name in paper else {}})
    return rows


def conclude(rows: list[Row]) -> str:
    """Compare our numbers with the paper's claims about these experts."""
    by_method = {row["method"]: row for row in rows if "accuracy_documents" in row}
    ours, global_row = by_method[OURS], by_method["global"]
    sentences = [
        f"Accuracy with local evidence: {ours['accuracy_documents']:.3f}; with a global weight: "
        f"{global_row['accuracy_documents']:.3f} (difference {interval(global_row)}, p = {global_row['p']:.4f}; paper "
        "+0.042)."
    ]
    if "field_accuracy" in ours:
        sentences.append(f"Field accuracy {ours['field_accuracy']:.3f} (paper 0.995).")
    for name in GENERALISTS:
        row = by_method[name]
        sentences.append(
            f"{LABELS[name]}: {row['accuracy_documents']:.3f} (ours minus generalist {interval(row)}, "
            f"p = {row['p']:.4f})."
        )
    if "local_particles" in by_method:
        paper = by_method["local_particles"]
        sentences.append(
            f"The paper's particles on {paper['windows']} windows: accuracy {paper['accuracy_documents']:.3f}, "
            f"{paper['evaluations']:.0f} evaluations per window (ours: {ours['evaluations']:.0f}) and "
            f"{paper['seconds'] / ours['seconds']:.0f} times our time. The paper's settings need {PAPER_EVALUATIONS} "
            "evaluations of complete windows."
        )
    return " ".join(sentences)


STUDY = adapter_study(
    (*DOMAINS, *GENERALISTS), presets=PRESETS, tables=TABLES, labels=LABELS, run=run, conclude=conclude, domain="arxiv"
)
