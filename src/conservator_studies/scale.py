"""Adapters for prose and code of one base with a uniform source, on mixed windows of tokens: table "scale".

The rest of the paper's results on these experts comes with it: corruption rates, decoders, smoothing strengths.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from conservator.experts import Expert
from conservator.field import Inferred
from conservator.reference import PRESETS as PARTICLES
from conservator.reference import PerColumn
from conservator_studies.baselines import UniformSetting
from conservator_studies.byte import COMPARISON, COST, NAMES, OURS, QUALITY, interval
from conservator_studies.byte3 import draw
from conservator_studies.corpora import read_domain, read_domains
from conservator_studies.metrics import per_group
from conservator_studies.resources import Resources
from conservator_studies.restoration import Restored
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.study import TextStudy, Track
from conservator_studies.token_experts import AdapterTraining, lacks_adapters, load_or_train_adapters
from conservator_studies.tokens import (
    ROUNDS,
    Method,
    TokenConfig,
    by_field,
    by_name,
    by_source,
    damage_windows,
    mixed_windows,
    restore_trials,
    tabulate_trials,
)
from conservator_studies.trained import text_corpus

DOMAINS = ("prose", "code")


@dataclass(frozen=True)
class Config(TokenConfig):
    """The sizes of the study.

    Attributes:
        rates: more shares that are lost, each on the first windows.
        rate_windows: how many of them.
        taus: the smoothing strengths, on windows of texts that nothing else is measured on.
        calibration: how many of these.
        training: of the experts; None if they are named.
    """

    rates: tuple[float, ...] = (0.5, 0.7)
    rate_windows: int = 64
    taus: tuple[float, ...] = (0.0, 0.1, 0.2, 0.4, 0.6, 1.0, 2.0)
    calibration: int = 32
    training: AdapterTraining | None = field(default_factory=AdapterTraining)


PRESETS = {
    "laptop": Config(windows=128, particles="1.3B, reduced"),
    "paper": Config(rate_windows=128, particle_windows=256, training=None),
}
BASELINES = (
    *(OURS, "hard_label", "generalist", "generalist_2x", "packllm_opt", "packllm_sim", "global", "field_average"),
    *("best_single_marginal", "equal", "shuffled_within", "single:prose", "single:code"),
    *("demix", "demix_heldout", "raw_loss", "raw_loss_heldout", "hmm", "hmm_heldout"),
)
FEW = ("local_particles", "global_particles", "best_single_posterior")  # these draw particles
SWEPT = (OURS, "hard_label", "best_single_marginal", "global", "equal")
DECODED = (OURS, "hard_label", "best_single_marginal", "equal")
FULL = PARTICLES["1.3B"].evaluations(len(DOMAINS))
RATES, DECODERS, TAUS = "rate_", "decoder_", "tau_"  # how the metrics of further tables begin
TABLES = [
    TableSpec("Restoration; differences on the same windows", COMPARISON, "tab:scale"),
    TableSpec("Quality", QUALITY, "tab:scale, tab:routers (column 1.3B)"),
    TableSpec("Cost", COST),
    TableSpec("Accuracy in each true region", [Column(f"accuracy_{name}", name, 3) for name in DOMAINS]),
    TableSpec(
        "Accuracy against the share that is lost, each window counted alike",
        [Column(RATES + name, NAMES[name], 3) for name in SWEPT],
        "tab:rate, rows 1.3B",
    ),
    TableSpec(
        "Decoders, each window counted alike",
        [Column(DECODERS + name, NAMES[name], 3) for name in DECODED],
        "tab:decoder, rows 1.3B",
    ),
    TableSpec(
        "Smoothing strength, on calibration windows",
        [
            Column(f"{TAUS}accuracy", "accuracy", 3),
            Column(f"{TAUS}field", "field accuracy", 3),
        ],
        "tab:tv, columns 1.3B",
    ),
]
LABELS = NAMES | {"generalist": "Generalist (union), same steps", "generalist_2x": "Generalist, same compute"}
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
    """Train the experts, or take those that are named, and measure everything on the same windows."""
    experts = find_experts(config, resources, track)
    team, others = [experts[name] for name in DOMAINS], [experts[name] for name in ("generalist", "generalist_2x")]
    texts = {name: resources.evaluation[name] for name in DOMAINS}
    mixed = mixed_windows(texts, team[0].spec.vocabulary, config, seed)
    methods = {name: by_name(name) for name in (*BASELINES, *FEW)}
    for decoder, steps in (("one-step", 1), ("iterative", ROUNDS)):
        methods |= {f"{decoder} {name}": by_source(name, steps) for name in DECODED}
    trials = damage_windows(mixed, team, config, seed, others)
    found = restore_trials(trials, methods, track, "scale", FEW, config.particle_windows)
    main = {name: one for name, one in found.items() if name in (*BASELINES, *FEW)}
    rows = tabulate_trials(main, mixed, PAPER, OURS)
    rows += [rate_row(config.rate, found, config.windows)]
    for rate in config.rates:
        lossy = damage_windows(mixed.first(config.rate_windows), team, replace(config, rate=rate), seed)
        swept = restore_trials(lossy, {name: by_name(name) for name in SWEPT}, track, f"scale, rate {rate:g}")
        rows.append(rate_row(rate, swept, config.rate_windows))
    for decoder, paper in PAPER_DECODERS.items():
        ours = {DECODERS + name: by_window(found[f"{decoder} {name}"]) for name in DECODED}
        theirs = dict(zip((DECODERS + name for name in DECODED), paper, strict=True))
        rows.append({"method": f"The paper's, {decoder}", "count": config.windows, **ours, "paper": theirs})
    rows.append({"method": "Ours", **{DECODERS + name: by_window(found[name]) for name in DECODED}, "paper": {}})
    rows += calibrate(config, seed, track, resources, team)
    return Findings(rows, {"scale": draw(rows, LABELS)})


def find_experts(config: Config, resources: Resources, track: Track) -> dict[str, Expert]:
    """Adapters for prose, for code, and for both with the steps of one and of the two together."""
    texts = {name: read_domain(resources.corpora, name, "train") for name in DOMAINS}
    union = text_corpus([document for corpus in texts.values() for document in corpus.documents])
    every = {**texts, "generalist": union, "generalist_2x": union}
    return load_or_train_adapters(resources, config.training, config.windows, every, track, {"generalist_2x": 2})


def by_window(found: Restored) -> float:
    """The accuracy, each window counted alike."""
    return float(per_group(found.right, found.windows).mean())


def rate_row(rate: float, found: Mapping[str, Restored], windows: int) -> Row:
    """A line of the table of rates."""
    names = [RATES + name for name in SWEPT]
    ours = dict(zip(names, (by_window(found[name]) for name in SWEPT), strict=True))
    paper = dict(zip(names, PAPER_RATES[rate], strict=True)) if rate in PAPER_RATES else {}
    return {"method": f"r = {rate:g}", "count": windows, **ours, "paper": paper}


def calibrate(config: Config, seed: int, track: Track, resources: Resources, team: list[Expert]) -> list[Row]:
    """The paper's update with every smoothing strength, on windows of training documents that were held out."""
    texts = {name: read_domains(resources.corpora, "train", held_out=True)[name] for name in DOMAINS}
    mixed = mixed_windows(texts, team[0].spec.vocabulary, replace(config, windows=config.calibration), seed)
    methods: dict[str, Method] = {f"tau = {tau:g}": by_field(partial(swept, tau=tau)) for tau in config.taus}
    methods |= {"Ours, tau by evidence": by_name(OURS), NAMES["global"]: by_name("global")}
    methods |= {NAMES["best_single_marginal"]: by_name("best_single_marginal")}
    trials = damage_windows(mixed, team, config, seed)
    found = restore_trials(trials, methods, track, "scale, smoothing")
    papers = {f"tau = {tau:g}": values for tau, values in PAPER_TAUS.items()}
    names = (f"{TAUS}accuracy", f"{TAUS}field")
    rows: list[Row] = []
    for name, one in found.items():
        row: Row = {"method": name, "count": config.calibration, names[0]: by_window(one)}
        if one.attributes:
            row[names[1]] = float((one.regions == mixed.labels).double().mean())
        rows.append(row | {"paper": dict(zip(names, papers[name], strict=True)) if name in papers else {}})
    return rows


def swept(setting: UniformSetting, tau: float) -> Inferred:
    """The paper's update on cavity evidence, with total variation of this strength."""
    return setting.ascent(PerColumn(tau))


def conclude(rows: list[Row]) -> str:
    """The paper's claims about these experts, with our figures."""
    found = {row["method"]: row for row in rows if "accuracy_documents" in row}
    ours, shared = found[OURS], found["global"]
    sentences = [
        f"Local evidence restores {ours['accuracy_documents']:.3f} of the lost tokens, a global weight "
        f"{shared['accuracy_documents']:.3f} (difference {interval(shared)}, p = {shared['p']:.4f}; paper +0.042)."
    ]
    if "field_accuracy" in ours:
        sentences.append(f"Field accuracy {ours['field_accuracy']:.3f} (paper 0.995).")
    for name in ("generalist", "generalist_2x"):
        row = found[name]
        sentences.append(
            f"{LABELS[name]}: {row['accuracy_documents']:.3f} (ours minus it {interval(row)}, p = {row['p']:.4f})."
        )
    if "local_particles" in found:
        paper = found["local_particles"]
        sentences.append(
            f"The paper's particles on {paper['windows']} windows: {paper['accuracy_documents']:.3f}, "
            f"{paper['evaluations']:.0f} evaluations a window, {paper['seconds'] / ours['seconds']:.0f} times the time "
            f"of ours with {ours['evaluations']:.0f}; the paper's own settings are {FULL} evaluations of whole windows."
        )
    return " ".join(sentences)


STUDY = TextStudy(
    presets=PRESETS,
    unit="windows",
    tables=TABLES,
    labels=LABELS,
    run=run,
    conclude=conclude,
    domain="arxiv",
    lacks=lacks_adapters(*DOMAINS, "generalist", "generalist_2x"),
)
