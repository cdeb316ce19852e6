"""Common parts of the studies of natural documents: training texts, windows, methods and tables."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from conservator.experts import Expert
from conservator.reference import PRESETS as PARTICLES
from conservator.training import Corpus
from conservator_studies.byte import NAMES, OURS, comparison_tables, interval, region_table
from conservator_studies.corpora import read_domain
from conservator_studies.expert_training import text_corpus
from conservator_studies.natural import Span, draw_windows, split_by_kind
from conservator_studies.resources import Resources
from conservator_studies.result import Metrics, Row, TableSpec
from conservator_studies.study import Track
from conservator_studies.tokens import TokenConfig, by_names, compare_methods

Scanner = Callable[[bytes], Sequence[Span]]  # finds the spans of the second kind of text in a document
BASELINES = (
    *(OURS, "local_eg", "hard_label", "global", "packllm_opt", "packllm_sim", "field_average", "equal"),
    *("best_single_marginal", "demix", "demix_heldout", "raw_loss", "raw_loss_heldout", "hmm", "hmm_heldout"),
)
PARTICLE_METHODS = ("local_particles", "global_particles", "best_single_posterior")
PAPER_EVALUATIONS = PARTICLES["natural"].evaluations(2)
LABELS = NAMES | {
    "local_eg": "Ours, with the paper's update and moving average",
    "hard_label": "Hard label router (true labels)",
}


@dataclass(frozen=True)
class NaturalConfig(TokenConfig):
    """Configuration of a study of natural documents.

    Attributes:
        share: minimum fraction of each kind of text in a window.
        most: maximum number of windows per document.
    """

    particles: str = "natural"
    share: float = 0.25
    most: int = 8


@dataclass(frozen=True)
class NaturalDomain:
    """A domain whose documents mix two kinds of text.

    Attributes:
        domain: name of the domain in the corpora.
        names: names of the kinds outside and inside the spans.
        scan: finds the spans of the second kind.
    """

    domain: str
    names: tuple[str, str]
    scan: Scanner

    def texts(self, resources: Resources) -> dict[str, Corpus]:
        """Return the training texts of each kind."""
        documents = read_domain(resources.corpora, self.domain, "train").documents
        kind_texts = split_by_kind(documents, [self.scan(document) for document in documents])
        return {
            name: text_corpus([text for text in texts if text])
            for name, texts in zip(self.names, kind_texts, strict=True)
        }

    def tables(self, source: str = "") -> list[TableSpec]:
        """Make the tables of a study; ``source`` is the label of the paper's table."""
        return [*comparison_tables(source, source), region_table(self.names)]

    def restore(
        self,
        resources: Resources,
        experts: Sequence[Expert],
        config: NaturalConfig,
        seed: int,
        track: Track,
        title: str,
        paper: Mapping[str, Metrics],
    ) -> list[Row]:
        """Draw windows of evaluation documents and restore them with every method."""
        documents = read_domain(resources.corpora, self.domain, "eval").documents
        windows = draw_windows(
            documents,
            [self.scan(document) for document in documents],
            experts[0].spec.vocabulary,
            config.windows,
            names=self.names,
            length=config.length,
            min_fraction=config.share,
            max_per_document=config.most,
            seed=seed,
        )
        methods = by_names(*BASELINES, *(f"single:{name}" for name in self.names), *PARTICLE_METHODS)
        rows = compare_methods(
            windows, experts, methods, config, seed, track, title, particle_methods=PARTICLE_METHODS, paper=paper
        )
        for row in rows:
            row |= {"switch_rate": windows.switch_rate(), "inside": float(windows.labels.double().mean())}
        return rows

    def conclude(self, rows: list[Row]) -> str:
        """Describe the windows, and compare local weights with the global weight."""
        by_method = {row["method"]: row for row in rows}
        ours, global_row = by_method[OURS], by_method["global"]
        field_accuracy = f", field accuracy {ours['field_accuracy']:.3f}" if "field_accuracy" in ours else ""
        text = (
            f"{ours['windows']} windows of {ours['documents']} documents; fraction of {self.names[1]} tokens "
            f"{ours['inside']:.2f}, switch rate {ours['switch_rate']:.3f}. Accuracy with local evidence: "
            f"{ours['accuracy_documents']:.3f}{field_accuracy}; with a global weight: "
            f"{global_row['accuracy_documents']:.3f} (difference {interval(global_row)}, p = {global_row['p']:.4f})."
        )
        if "local_particles" in by_method:
            paper = by_method["local_particles"]
            text += (
                f" The paper's particles on {paper['windows']} windows: {paper['evaluations']:.0f} evaluations per "
                f"window (ours: {ours['evaluations']:.0f}) and {paper['seconds'] / ours['seconds']:.0f} times our "
                f"time. The paper's settings need {PAPER_EVALUATIONS} evaluations of complete windows."
            )
        return text
