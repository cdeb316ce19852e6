"""What the studies of natural documents share: the texts of two kinds in them, their windows, methods and tables."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from conservator.experts import Expert
from conservator.reference import PRESETS as PARTICLES
from conservator.training import Corpus
from conservator.vocabularies import Vocabulary
from conservator_studies.byte import COMPARISON, COST, NAMES, OURS, QUALITY, interval
from conservator_studies.corpora import read_domain
from conservator_studies.natural import NaturalWindows, Span, draw_windows, streams
from conservator_studies.resources import Resources
from conservator_studies.result import Column, Metrics, Row, TableSpec
from conservator_studies.study import Track
from conservator_studies.token_experts import AdapterTraining
from conservator_studies.tokens import TokenConfig, by_name, damage_windows, restore_trials, tabulate_trials
from conservator_studies.trained import text_corpus

Scanner = Callable[[bytes], Sequence[Span]]  # where the second kind of text stands in a document
BASELINES = (
    *(OURS, "local_eg", "hard_label", "global", "packllm_opt", "packllm_sim", "field_average", "equal"),
    *("best_single_marginal", "demix", "demix_heldout", "raw_loss", "raw_loss_heldout", "hmm", "hmm_heldout"),
)
FEW = ("local_particles", "global_particles", "best_single_posterior")  # these draw particles
FULL = PARTICLES["natural"].evaluations(2)
LABELS = NAMES | {"local_eg": "Ours, the paper's update and moving average", "hard_label": "Oracle labels"}


@dataclass(frozen=True)
class NaturalConfig(TokenConfig):
    """The sizes of a study of natural documents.

    Attributes:
        share: the least share of either kind of text in a window.
        most: the largest number of windows of one document.
        training: of the experts; None if they are named.
    """

    particles: str = "natural"
    share: float = 0.25
    most: int = 8
    training: AdapterTraining | None = field(default_factory=AdapterTraining)


@dataclass(frozen=True)
class Kinds:
    """A domain whose documents have two kinds of text.

    Attributes:
        domain: the texts.
        names: of the kinds outside and inside what the scanner finds.
        scan: finds the second kind.
    """

    domain: str
    names: tuple[str, str]
    scan: Scanner

    def texts(self, resources: Resources) -> dict[str, Corpus]:
        """The training texts of each kind."""
        documents = read_domain(resources.corpora, self.domain, "train").documents
        parts = streams(documents, [self.scan(document) for document in documents])
        return {
            name: text_corpus([text for text in part if text]) for name, part in zip(self.names, parts, strict=True)
        }

    def windows(self, resources: Resources, vocabulary: Vocabulary, config: NaturalConfig, seed: int) -> NaturalWindows:
        """Windows of evaluation documents."""
        documents = read_domain(resources.corpora, self.domain, "eval").documents
        return draw_windows(
            documents,
            [self.scan(document) for document in documents],
            vocabulary,
            config.windows,
            names=self.names,
            length=config.length,
            share=config.share,
            most=config.most,
            seed=seed,
        )


def make_tables(kinds: Kinds, source: str) -> list[TableSpec]:
    """The tables of a study; ``source`` is the label of the paper's."""
    return [
        TableSpec("Restoration, each document counted alike", COMPARISON, source),
        TableSpec("Quality", QUALITY, source),
        TableSpec("Cost", COST),
        TableSpec("Accuracy in each true region", [Column(f"accuracy_{name}", name, 3) for name in kinds.names]),
    ]


def restore_natural(
    windows: NaturalWindows,
    experts: Sequence[Expert],
    config: NaturalConfig,
    seed: int,
    track: Track,
    title: str,
    paper: Mapping[str, Metrics],
    generalists: Sequence[Expert] = (),
) -> list[Row]:
    """Restore windows by every method."""
    names = (*BASELINES, *(expert.spec.name for expert in generalists), *(f"single:{name}" for name in windows.names))
    trials = damage_windows(windows, experts, config, seed, generalists)
    methods = {name: by_name(name) for name in (*names, *FEW)}
    found = restore_trials(trials, methods, track, title, FEW, config.particle_windows)
    rows = tabulate_trials(found, windows, paper, OURS)
    for row in rows:
        row |= {"switch_rate": windows.switch_rate(), "inside": float(windows.labels.double().mean())}
    return rows


def conclude_natural(rows: list[Row], kinds: Kinds) -> str:
    """Local weights against one weight, the field, and what the windows are."""
    found = {row["method"]: row for row in rows}
    ours, shared = found[OURS], found["global"]
    attributed = f", field accuracy {ours['field_accuracy']:.3f}" if "field_accuracy" in ours else ""
    text = (
        f"{ours['windows']} windows of {ours['documents']} documents, {ours['inside']:.2f} of their tokens "
        f"{kinds.names[1]}, another kind of text begins at {ours['switch_rate']:.3f} of the tokens. Local evidence "
        f"restores {ours['accuracy_documents']:.3f}{attributed}; a global weight {shared['accuracy_documents']:.3f} "
        f"(difference {interval(shared)}, p = {shared['p']:.4f})."
    )
    if "local_particles" in found:
        paper = found["local_particles"]
        text += (
            f" The paper's particles on {paper['windows']} windows: {paper['evaluations']:.0f} evaluations a window, "
            f"{paper['seconds'] / ours['seconds']:.0f} times the time of ours with {ours['evaluations']:.0f}; the "
            f"paper's own settings are {FULL} evaluations of whole windows."
        )
    return text
