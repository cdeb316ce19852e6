"""Prose and mathematics of LaTeX documents, with adapters of one base: table "arxiv"."""

from conservator_studies.byte import OURS
from conservator_studies.latex import math_spans
from conservator_studies.natural_studies import LABELS, NaturalConfig, NaturalDomain
from conservator_studies.resources import Resources
from conservator_studies.result import Findings, Row
from conservator_studies.study import Track
from conservator_studies.token_experts import adapter_study, load_or_train_adapters
from conservator_studies.tokens import AdapterTraining

LATEX = NaturalDomain("arxiv", ("prose", "math"), math_spans)
PRESETS = {
    "laptop": NaturalConfig(windows=128, particles="natural, reduced", training=AdapterTraining(general=("readme",))),
    "paper": NaturalConfig(particle_windows=256, training=None),
}
TABLES = LATEX.tables("tab:arxiv")
PAPER = {
    OURS: {"accuracy_documents": 0.691, "field_accuracy": 0.852},
    "local_particles": {"accuracy_documents": 0.691, "field_accuracy": 0.852},
    "hard_label": {"accuracy_documents": 0.702, "difference": -0.011},
    "global": {"accuracy_documents": 0.682, "difference": 0.010, "d_z": 0.56},
    "global_particles": {"accuracy_documents": 0.682, "difference": 0.010, "d_z": 0.56},
    "packllm_opt": {"accuracy_documents": 0.679, "difference": 0.012},
    "packllm_sim": {"accuracy_documents": 0.676, "difference": 0.015},
    "equal": {"accuracy_documents": 0.673, "difference": 0.018},
    "best_single_posterior": {"accuracy_documents": 0.669, "difference": 0.022},
    "best_single_marginal": {"accuracy_documents": 0.666, "difference": 0.024},
    "demix": {"accuracy_documents": 0.653, "field_accuracy": 0.621, "difference": 0.038},
    "raw_loss": {"accuracy_documents": 0.650, "field_accuracy": 0.623, "difference": 0.041},
    "hmm": {"accuracy_documents": 0.644, "field_accuracy": 0.555, "difference": 0.049},
}


def run(config: NaturalConfig, seed: int, track: Track, resources: Resources) -> Findings:
    """Train or load an expert for each kind of text, and restore documents that have both."""
    experts = list(load_or_train_adapters(resources, config, LATEX.texts(resources), track).values())
    return Findings(LATEX.restore(resources, experts, config, seed, track, "arxiv", PAPER), {})


def conclude(rows: list[Row]) -> str:
    """Compare local weights with the global weight."""
    return LATEX.conclude(rows) + " The paper: 0.691 and 0.682 (+0.010, p < 0.001), field accuracy 0.852."


STUDY = adapter_study(
    LATEX.names, presets=PRESETS, tables=TABLES, labels=LABELS, run=run, conclude=conclude, domain=LATEX.domain
)
