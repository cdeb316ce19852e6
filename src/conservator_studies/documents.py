"""Documents of several kinds and kinds of damage, restored by the product with and without memory."""

from collections.abc import Mapping
from dataclasses import dataclass

from conservator import RestoreOptions, Restorer
from conservator.experts import Memory
from conservator.options import EXPERTS
from conservator_studies.corpora import find_file
from conservator_studies.readme import CONFIDENT, read_documents, references
from conservator_studies.resources import Resources
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.scored_documents import Method, ScoredDocuments, by_restorer, score_all
from conservator_studies.statistics import compare
from conservator_studies.study import Study, Track

METHODS = {
    "product": "product [95 %]",
    "plain": "without memory",
    "like": "training texts as references",
    "alone": "memory only",
}


@dataclass(frozen=True)
class Config:
    """Configuration of the study.

    Attributes:
        documents: number of documents of each kind.
        size: bytes per document, from its start.
        kinds: kinds of documents that are damaged at the rate 0.1.
        damages: further damage, as (kind, rate, burst length).
    """

    documents: int = 16
    size: int = 4096
    kinds: tuple[str, ...] = ("prose", "code", "config", "arxiv", "readme")
    damages: tuple[tuple[str, float, int], ...] = tuple(
        (kind, rate, burst)
        for kind in ("readme", "code")
        for rate, burst in ((0.02, 1), (0.3, 1), (0.1, 4), (0.1, 8), (0.1, 16))
    )


PRESETS = {"laptop": Config(), "paper": Config()}
TABLES = [
    TableSpec(
        "Accuracy on lost bytes, mean over documents",
        [
            *(Column(f"accuracy_{name}", heading, 3) for name, heading in METHODS.items()),
            Column("difference", "gain of memory [95 %]", 3),
            Column("p", "p", 4),
        ],
    ),
    TableSpec(
        "Confidence of the product",
        [
            Column("calibration_error", "calibration error", 3),
            Column("sure_share", f"fraction of bytes with confidence >= {CONFIDENT}", 3),
            Column("sure_right", "accuracy of these", 3),
        ],
    ),
]


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Restore documents of all kinds at the rate 0.1, and of some kinds at other rates and in bursts."""
    experts = resources.choose(EXPERTS)
    methods = {
        "product": by_restorer(Restorer(experts, select=True)),
        "plain": by_restorer(Restorer(experts, RestoreOptions(memory=False), select=True)),
        "alone": by_restorer(Restorer([Memory()])),
    }
    rows = []
    for kind, rate, burst in [*((kind, 0.1, 1) for kind in config.kinds), *config.damages]:
        if find_file(resources.corpora, kind, "eval") is None:  # the demo corpora do not have all kinds
            continue
        kind_methods: dict[str, Method] = dict(methods)
        training_texts = references(resources.corpora, kind)
        if training_texts and (rate, burst) == (0.1, 1):
            kind_methods["like"] = by_restorer(Restorer(experts, references=training_texts, select=True))
        name = f"{kind}, {rate:.0%} lost" + (f" in bursts of {burst}" if burst > 1 else "")
        documents = read_documents(resources.corpora, kind, config.documents, config.size)
        rows.append(row_of(name, score_all(kind_methods, track(documents, name), rate, seed, burst=burst)))
    return Findings(rows, {})


def row_of(name: str, scored: Mapping[str, ScoredDocuments]) -> Row:
    """Make the row of a kind of document and damage."""
    product = scored["product"]
    row: Row = {"method": name, "count": len(product.restorations), "paper": {}}
    for method, restored in scored.items():
        row |= restored.summarise(f"accuracy_{method}")
    row |= compare(product.accuracies, scored["plain"].accuracies)
    confident = product.confidence >= CONFIDENT
    row |= {"calibration_error": product.calibration_error(), "sure_share": float(confident.mean())}
    if confident.any():
        row["sure_right"] = float(product.correct[confident].mean())
    return row


def conclude(rows: list[Row]) -> str:
    """State the smallest and the largest gain from memory."""
    gains = sorted(rows, key=lambda row: float(row["difference"]))
    return (
        f"The memory of the document itself increases the accuracy by between {gains[0]['difference']:.3f} "
        f"({gains[0]['method']}) and {gains[-1]['difference']:.3f} ({gains[-1]['method']})."
    )


STUDY = Study(presets=PRESETS, unit="documents", tables=TABLES, run=run, conclude=conclude, domain="readme")
