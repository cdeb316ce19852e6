"""Two masked models, neither of which is a specialist by the check: table "sevenb".

By default they are adapters of one base: a general one, tuned on prose and code, and one tuned on code, which both find
easier. With ``--experts prose=hf:Dream-org/Dream-v0-Base-7B --experts code=hf:Dream-org/Dream-Coder-v0-Base-7B
--trust-remote-code`` they are the paper's.
"""

from dataclasses import dataclass, field

from conservator.training import Check, check_specialisation
from conservator_studies.byte import COMPARISON, COST, NAMES, OURS, QUALITY, interval
from conservator_studies.corpora import read_domain
from conservator_studies.resources import Resources
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.study import TextStudy, Track
from conservator_studies.token_experts import AdapterTraining, lacks_adapters, load_or_train_adapters
from conservator_studies.tokens import (
    TokenConfig,
    by_name,
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
        checked: windows of each domain for the specialisation check.
        training: of the experts; None if they are named.
    """

    windows: int = 64
    rate: float = 0.6
    particles: str = "7B"
    checked: int = 32
    training: AdapterTraining | None = field(default_factory=lambda: AdapterTraining(source="mask"))


PRESETS = {"laptop": Config(), "paper": Config(particle_windows=64, training=None)}
BASELINES = (
    *(OURS, "hard_label", "demix", "demix_heldout", "shuffled_within", "equal", "field_average", "global"),
    *("packllm_opt", "packllm_sim", "best_single_marginal", "raw_loss", "hmm", "single:prose", "single:code"),
)
FEW = ("local_particles", "best_single_posterior")  # these draw particles
TABLES = [
    TableSpec("Restoration; differences on the same windows", COMPARISON, "tab:sevenb"),
    TableSpec("Quality", QUALITY, "tab:sevenb"),
    TableSpec("Cost", COST),
    TableSpec(
        "The specialisation check: energy in nats per byte (the paper's: per token)",
        [Column(f"energy_{name}", f"{name} expert", 3) for name in DOMAINS],
        'appendix "The specialization check"',
    ),
]
LABELS = NAMES | {"single:prose": "General expert", "single:code": "Code expert"}
LABELS |= {f"check {name}": f"Energy of {name}" for name in DOMAINS}
PAPER = {
    OURS: {"accuracy_documents": 0.605, "field_accuracy": 0.954},
    "local_particles": {"accuracy_documents": 0.605, "field_accuracy": 0.954},
    "hard_label": {"accuracy_documents": 0.606, "difference": 0.000},
    "demix": {"accuracy_documents": 0.605, "difference": 0.001},
    "shuffled_within": {"accuracy_documents": 0.602, "difference": 0.004},
    "equal": {"accuracy_documents": 0.600, "difference": 0.006},
    "field_average": {"accuracy_documents": 0.599, "difference": 0.006},
    "packllm_opt": {"accuracy_documents": 0.597, "difference": 0.009},
    "best_single_posterior": {"accuracy_documents": 0.594, "difference": 0.011},
    "packllm_sim": {"accuracy_documents": 0.593, "difference": 0.012},
    "best_single_marginal": {"accuracy_documents": 0.592, "difference": 0.013},
    "single:prose": {"accuracy_documents": 0.581, "difference": 0.024},
}
PAPER_CHECK = {"prose": (0.888, 1.078), "code": (0.514, 0.337)}


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Check the pair, then restore windows by every method."""
    code = read_domain(resources.corpora, "code", "train")
    both = [*read_domain(resources.corpora, "prose", "train").documents, *code.documents]
    texts = {"prose": text_corpus(both), "code": code}
    team = list(load_or_train_adapters(resources, config.training, config.windows, texts, track).values())
    held = {name: resources.evaluation[name] for name in DOMAINS}
    check = check_specialisation(team, held, windows=config.checked, length=config.length, seed=seed)
    mixed = mixed_windows(held, team[0].spec.vocabulary, config, seed)
    methods = {name: by_name(name) for name in (*BASELINES, *FEW)}
    trials = damage_windows(mixed, team, config, seed)
    found = restore_trials(trials, methods, track, "sevenb", FEW, config.particle_windows)
    return Findings(tabulate_trials(found, mixed, PAPER, OURS) + energies(check), {})


def energies(check: Check) -> list[Row]:
    """A row for each domain: what its text costs each expert, and what the check says of the pair."""
    names = [f"energy_{name}" for name in DOMAINS]
    rows: list[Row] = []
    for domain in DOMAINS:
        ours = {name: check.energy(domain, expert) for name, expert in zip(names, DOMAINS, strict=True)}
        verdict = {"row_wise": int(check.row_wise), "column_wise": int(check.column_wise)}
        paper = dict(zip(names, PAPER_CHECK[domain], strict=True))
        rows.append({"method": f"check {domain}", **ours, **verdict, "paper": paper})
    return rows


def conclude(rows: list[Row]) -> str:
    """What the check says, and whether local weights help in spite of it."""
    found = {row["method"]: row for row in rows}
    ours, shared, check = found[OURS], found["global"], found["check prose"]
    said = {True: "yes", False: "no"}
    return (
        f"Does each expert find its own domain easiest? {said[bool(check['row_wise'])]}. Is each domain served best by "
        f"its own expert? {said[bool(check['column_wise'])]}. (The paper's pair: no, and yes.) Local evidence restores "
        f"{ours['accuracy_documents']:.3f}, a global weight {shared['accuracy_documents']:.3f} (difference "
        f"{interval(shared)}, p = {shared['p']:.4f})."
    )


STUDY = TextStudy(
    presets=PRESETS,
    unit="windows",
    tables=TABLES,
    labels=LABELS,
    run=run,
    conclude=conclude,
    domain="arxiv",
    lacks=lacks_adapters(*DOMAINS),
)
