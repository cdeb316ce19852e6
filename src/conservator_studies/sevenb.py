"""Two masked models that fail the specialisation check: table "sevenb".

By default they are adapters of one base model: a general adapter for prose and code, and an adapter for code. Both have
a lower loss on code. With
``--experts prose=hf:Dream-org/Dream-v0-Base-7B --experts code=hf:Dream-org/Dream-Coder-v0-Base-7B
--trust-remote-code`` they are the models of the paper.
"""

from dataclasses import dataclass, field

from conservator.training import Check, check_specialisation
from conservator_studies.byte import NAMES, OURS, PAIRED_TITLE, comparison_tables, interval
from conservator_studies.corpora import read_domain
from conservator_studies.expert_training import text_corpus
from conservator_studies.resources import Resources
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.study import Track
from conservator_studies.token_experts import adapter_study, load_or_train_adapters
from conservator_studies.tokens import AdapterTraining, TokenConfig, by_names, compare_methods, mixed_windows

DOMAINS = ("prose", "code")


@dataclass(frozen=True)
class Config(TokenConfig):
    """Configuration of the study.

    Attributes:
        checked: number of windows of each domain for the specialisation check.
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
PARTICLE_METHODS = ("local_particles", "best_single_posterior")
TABLES = [
    *comparison_tables("tab:sevenb", "tab:sevenb", PAIRED_TITLE),
    TableSpec(
        "Specialisation check: energy in nats per byte (paper: per token)",
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
    """Check the specialisation of the pair, then restore windows with every method."""
    code = read_domain(resources.corpora, "code", "train")
    union = [*read_domain(resources.corpora, "prose", "train").documents, *code.documents]
    texts = {"prose": text_corpus(union), "code": code}
    team = list(load_or_train_adapters(resources, config, texts, track).values())
    held_out = {name: resources.evaluation[name] for name in DOMAINS}
    check = check_specialisation(team, held_out, windows=config.checked, length=config.length, seed=seed)
    mixed = mixed_windows(held_out, team[0].spec.vocabulary, config, seed)
    methods = by_names(*BASELINES, *PARTICLE_METHODS)
    rows = compare_methods(
        mixed, team, methods, config, seed, track, "sevenb", particle_methods=PARTICLE_METHODS, paper=PAPER
    )
    return Findings(rows + check_rows(check), {})


def check_rows(check: Check) -> list[Row]:
    """Make one row per domain: the energy of its text for each expert, and the outcome of the check."""
    names = [f"energy_{name}" for name in DOMAINS]
    rows: list[Row] = []
    for domain in DOMAINS:
        ours = {name: check.energy(domain, expert) for name, expert in zip(names, DOMAINS, strict=True)}
        verdict = {"row_wise": int(check.row_wise), "column_wise": int(check.column_wise)}
        paper = dict(zip(names, PAPER_CHECK[domain], strict=True))
        rows.append({"method": f"check {domain}", **ours, **verdict, "paper": paper})
    return rows


def conclude(rows: list[Row]) -> str:
    """State the outcome of the check, and compare local weights with the global weight."""
    by_method = {row["method"]: row for row in rows}
    ours, global_row, check = by_method[OURS], by_method["global"], by_method["check prose"]
    answer = {True: "yes", False: "no"}
    return (
        f"Each expert has its lowest energy on its own domain: {answer[bool(check['row_wise'])]}. Each domain has its "
        f"lowest energy with its own expert: {answer[bool(check['column_wise'])]}. (The pair of the paper: no, yes.) "
        f"Accuracy with local evidence: {ours['accuracy_documents']:.3f}; with a global weight: "
        f"{global_row['accuracy_documents']:.3f} (difference {interval(global_row)}, p = {global_row['p']:.4f})."
    )


STUDY = adapter_study(
    DOMAINS, presets=PRESETS, tables=TABLES, labels=LABELS, run=run, conclude=conclude, domain="arxiv"
)
