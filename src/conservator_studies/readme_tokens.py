"""Prose and code of README files, with adapters of one base model: fine-tuned on README files, or on other texts.

Reproduces section "Naturally mixed documents" and the column README of table "routers".
"""

from dataclasses import dataclass

from conservator_studies.byte import OURS, interval
from conservator_studies.corpora import read_domain
from conservator_studies.fences import code_spans
from conservator_studies.natural_studies import LABELS as METHOD_LABELS
from conservator_studies.natural_studies import NaturalConfig, NaturalDomain
from conservator_studies.resources import Resources
from conservator_studies.result import Findings, Metrics, Row
from conservator_studies.study import Track
from conservator_studies.token_experts import adapter_study, load_or_train_adapters

README = NaturalDomain("readme", ("prose", "code"), code_spans)
MATCHED, DISTINCT = "matched", "distinct"


@dataclass(frozen=True)
class Config(NaturalConfig):
    """Configuration of the study. Few README files are long, so a document may have many windows."""

    most: int = 32


PRESETS = {
    "laptop": Config(windows=96, particles="natural, reduced"),
    "paper": Config(particle_windows=256, training=None),
}
LABELS = {f"{pair} {name}": f"{label}, {pair}" for name, label in METHOD_LABELS.items() for pair in (MATCHED, DISTINCT)}
TABLES = README.tables('tab:routers (column README), section "Naturally mixed documents"')
PAPER: dict[str, Metrics] = {
    OURS: {"accuracy_documents": 0.709, "field_accuracy": 0.765},
    "local_particles": {"accuracy_documents": 0.709, "field_accuracy": 0.765},
    "global": {"accuracy_documents": 0.708},
    "global_particles": {"accuracy_documents": 0.708},
    "packllm_opt": {"accuracy_documents": 0.71},
    "equal": {"accuracy_documents": 0.71},
    "demix": {"accuracy_documents": 0.69, "field_accuracy": 0.56},
    "raw_loss": {"accuracy_documents": 0.69, "field_accuracy": 0.56},
    "hmm": {"accuracy_documents": 0.684, "field_accuracy": 0.51},
}


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Restore the same windows with both pairs of experts; named experts are the only pair."""
    distinct = {name: read_domain(resources.corpora, name, "train") for name in README.names}
    pairs = {MATCHED: README.texts(resources), DISTINCT: distinct}
    rows: list[Row] = []
    for pair, texts in pairs.items():
        experts = list(load_or_train_adapters(resources, config, texts, track).values())
        title, paper = f"readme-tokens, {pair}", PAPER if pair == MATCHED else {}
        pair_rows = README.restore(resources, experts, config, seed, track, title, paper)
        rows += [row | {"method": f"{pair} {row['method']}"} for row in pair_rows]
        if config.training is None:
            break
    return Findings(rows, {})


def conclude(rows: list[Row]) -> str:
    """Compare local weights with the global weight, for each pair of experts."""
    by_method, sentences = {row["method"]: row for row in rows}, []
    for pair in (MATCHED, DISTINCT):
        if f"{pair} {OURS}" not in by_method:
            continue
        ours, global_row = by_method[f"{pair} {OURS}"], by_method[f"{pair} global"]
        field = f", field accuracy {ours['field_accuracy']:.3f}" if "field_accuracy" in ours else ""
        sentences.append(
            f"Experts fine-tuned on {pair} texts: local evidence {ours['accuracy_documents']:.3f}{field}; global "
            f"weight {global_row['accuracy_documents']:.3f} (difference {interval(global_row)}, "
            f"p = {global_row['p']:.4f})."
        )
    return " ".join(sentences) + " The paper: 0.709 and 0.708 with matched texts, field accuracy 0.765."


STUDY = adapter_study(
    README.names, presets=PRESETS, tables=TABLES, labels=LABELS, run=run, conclude=conclude, domain=README.domain
)
