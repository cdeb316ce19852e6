"""Real README files with lost bytes: the product compared with single experts, constant weights and generalists.

The product is ``conservator.Restorer`` with its default options: experts selected by evidence, and a memory. Each
document is truncated to its first bytes, a fraction of the bytes is erased, and every method fills them as valid UTF-8.
The methods differ in their experts and in the weights of the experts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from conservator import RestoreOptions, Restorer
from conservator.channels import MaskChannel, Observation
from conservator.decoders import decode_text
from conservator.documents import MARK, read_damaged
from conservator.evaluation.figures import new_figure
from conservator.experts import Expert, Memory, Team, make_references
from conservator.field import GLOBAL, Engine, Folds, Inferred
from conservator.options import EXPERTS
from conservator.vocabularies import BYTES
from conservator_studies.byte import NAMES, interval
from conservator_studies.corpora import find_file, read_domain
from conservator_studies.resources import Resources
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.scored_documents import Filled, Method, ScoredDocuments, by_restorer, score_all
from conservator_studies.statistics import compare
from conservator_studies.study import Study, Track

PRODUCT, WITH_REFERENCES = "product", "product_like"
EDGES = [tenths / 10 for tenths in range(11)]  # confidence: bin edges of the reliability curve [untuned]
CONFIDENT = 0.9  # probability: bytes with at least this confidence are confident [definition]


@dataclass(frozen=True)
class Config:
    """Configuration of the study.

    Attributes:
        documents: number of documents.
        size: maximum number of bytes per document; the rest is removed.
        rate: fraction of bytes that are lost.
        domains: roles of the experts of the product.
    """

    documents: int = 64
    size: int = 4096
    rate: float = 0.1
    domains: tuple[str, ...] = EXPERTS


PRESETS = {"laptop": Config(), "paper": Config()}
TABLES = [
    TableSpec(
        "Accuracy on lost bytes of README files, mean over documents",
        [
            Column("accuracy", "accuracy [95 %]", 3),
            Column("difference", "product minus method [95 %]", 3),
            Column("p", "p", 4),
        ],
    ),
    TableSpec("Calibration error of the product", [Column("calibration_error", "calibration error", 4)]),
    TableSpec(
        "Reliability of the product's confidence",
        [
            Column("confidence", "mean confidence", 3),
            Column("right", "accuracy", 3),
            Column("share", "fraction of bytes", 3),
        ],
    ),
]
LABELS = NAMES | {
    PRODUCT: "Product",
    WITH_REFERENCES: "Product, training README files as references",
    "without_memory": "Product without memory",
    "memory_alone": "Memory only",
    "memory_like_alone": "Memory only, training README files as references",
    "global_memory": "Global weight for the networks, gated memory",
    "equal": "Equal weights, memory included",
    "global": "Global weight, memory included",
    "generalist_memory": "Generalist with memory",
    "generalist_3x_memory": "Generalist, 3x compute, with memory",
    "single:markdown": "Markdown expert",
    "single:math": "Mathematics expert",
    "calibration": "All restored bytes",
}


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Restore every document with every method."""
    training_texts = references(resources.corpora, "readme")
    methods = make_methods(resources.choose(config.domains), resources.generalists(), training_texts)
    documents = read_documents(resources.corpora, "readme", config.documents, config.size)
    scored = score_all(methods, track(documents, "readme"), config.rate, seed)
    product = scored[PRODUCT]
    calibration: Row = {"method": "calibration", "count": len(product.correct), "paper": {}}
    calibration["calibration_error"] = product.calibration_error()
    reliability = reliability_rows(product)
    return Findings([*accuracy_rows(scored), calibration, *reliability], {"reliability": draw(reliability)})


def make_methods(
    experts: Sequence[Expert], generalists: Sequence[Expert], training_texts: Sequence[tuple[str, str]]
) -> dict[str, Method]:
    """Make the methods by name; methods with references only if there are ``training_texts``."""
    global_prior = replace(GLOBAL, resolution=4)  # with ten parts, the grid of six experts has 3003 states
    methods = {
        PRODUCT: by_restorer(Restorer(experts, select=True)),
        "without_memory": by_restorer(Restorer(experts, RestoreOptions(memory=False), select=True)),
        "memory_alone": by_restorer(Restorer([Memory()], RestoreOptions(memory=False))),
        "global_memory": by_restorer(Restorer(experts, engine=global_prior)),
        **{f"single:{expert.spec.name}": with_engine(equal_weights, [expert]) for expert in experts},
        "equal": with_engine(equal_weights, experts, memory=True),
        "global": with_engine(replace(global_prior, folds=Folds(4)), experts, memory=True),
        **{expert.spec.name: with_engine(equal_weights, [expert]) for expert in generalists},
        **{f"{expert.spec.name}_memory": by_restorer(Restorer([expert])) for expert in generalists},
    }
    if training_texts:
        reference_bytes = [
            (name, np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int16)) for name, text in training_texts
        ]
        methods[WITH_REFERENCES] = by_restorer(Restorer(experts, references=training_texts, select=True))
        methods["memory_like_alone"] = by_restorer(
            Restorer([Memory(make_references(reference_bytes))], RestoreOptions(memory=False))
        )
    return methods


def with_engine(engine: Engine, experts: Sequence[Expert], *, memory: bool = False) -> Method:
    """Make a method from the composition that ``engine`` infers, and the decoder of the product.

    With ``memory``, the memory is one more expert, weighted like the others and without the memory gate.
    """

    def method(damaged: bytes, seed: int) -> Filled:
        generator = torch.Generator().manual_seed(seed)
        tokens = torch.from_numpy(read_damaged(damaged).tokens)[None]
        observation = MaskChannel(BYTES.size, 0.5).observe(tokens)
        members = list(experts)
        if memory:
            retrieval = Memory().condition(observation)
            members.append(replace(retrieval, spec=replace(retrieval.spec, gate_prior=None)))
        team = Team(members)
        decoded = decode_text(team, observation, engine(team, observation, generator))
        return decoded.tokens, decoded.confidence

    return method


def equal_weights(team: Team, observation: Observation, generator: torch.Generator) -> Inferred:
    """Assign the same weight to all experts, at no cost."""
    return Inferred.given(torch.full((*observation.tokens.shape, len(team)), 1 / len(team), dtype=torch.float64))


def references(corpora: Path, domain: str) -> list[tuple[str, str]]:
    """Read the training texts of a domain, with names and comments; empty if the domain has no training texts."""
    if find_file(corpora, domain, "train") is None:
        return []
    documents = read_domain(corpora, domain, "train", comments=True).documents
    return [(f"{domain} {number}", text.decode()) for number, text in enumerate(documents)]


def read_documents(corpora: Path, domain: str, count: int, size: int) -> list[bytes]:
    """Read documents, truncated to ``size`` bytes between characters; documents that contain the mark are excluded."""
    documents = read_domain(corpora, domain, "eval", comments=True).documents
    unmarked = [text for text in documents if MARK.encode() not in text]
    return [text[:size].decode(errors="ignore").encode() for text in unmarked[:count]]


def accuracy_rows(scored: Mapping[str, ScoredDocuments]) -> list[Row]:
    """Make rows of the mean accuracy over documents, and of the paired difference of the product and each method."""
    rows: list[Row] = []
    for name, restored in scored.items():
        count = len(restored.restorations)
        row: Row = {"method": name, "count": count, **restored.summarise("accuracy"), "paper": {}}
        if name != PRODUCT:
            row |= compare(scored[PRODUCT].accuracies, restored.accuracies)
        rows.append(row)
    return rows


def reliability_rows(restored: ScoredDocuments) -> list[Row]:
    """Make one row per confidence bin; the last row has all bytes with a confidence of at least CONFIDENT."""
    confidence, correct = restored.confidence, restored.correct
    bins = [(f"{low:.1f} to {high:.1f}", (confidence >= low) & (confidence < high)) for low, high in pairwise(EDGES)]
    bins[-1] = (f"at least {CONFIDENT}", confidence >= CONFIDENT)
    rows: list[Row] = []
    for name, in_bin in bins:
        if in_bin.any():
            rows.append(
                {
                    "method": name,
                    "count": int(in_bin.sum()),
                    "confidence": float(confidence[in_bin].mean()),
                    "right": float(correct[in_bin].mean()),
                    "share": float(in_bin.mean()),
                    "paper": {},
                }
            )
    return rows


def draw(rows: list[Row]) -> Figure:
    """Plot the reliability curve: accuracy as a function of confidence."""
    figure = new_figure(4.2, 4.0)
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="grey", linewidth=1, linestyle="--")
    sizes = [20 + 400 * row["share"] for row in rows]
    axes.scatter([row["confidence"] for row in rows], [row["right"] for row in rows], s=sizes)
    axes.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1.03), ylim=(0, 1.03), aspect="equal")
    return figure


def conclude(rows: list[Row]) -> str:
    """Compare the product with the best other method, and state the accuracy of its confident bytes."""
    by_method = {row["method"]: row for row in rows}
    ranking = sorted((row for row in rows if "accuracy" in row), key=lambda row: float(-row["accuracy"]))
    best_other = next(row for row in ranking if row["method"] not in (PRODUCT, WITH_REFERENCES))
    rank = "first" if by_method[PRODUCT]["accuracy"] > best_other["accuracy"] else "not first"
    text = (
        f"On {by_method[PRODUCT]['count']} real README files the product is {rank}, with an accuracy of "
        f"{by_method[PRODUCT]['accuracy']:.3f}. The best other method, {LABELS[best_other['method']]}, has "
        f"{best_other['accuracy']:.3f} (difference {interval(best_other)}, p = {best_other['p']:.4f})."
    )
    if WITH_REFERENCES in by_method:
        accuracy = by_method[WITH_REFERENCES]["accuracy"]
        text += f" With the training README files as references, the accuracy is {accuracy:.3f}."
    confident = by_method.get(f"at least {CONFIDENT}")
    if confident:
        text += (
            f" {confident['count']} bytes have a confidence of at least {CONFIDENT}; {confident['right']:.1%} of these "
            "are correct."
        )
    return text


STUDY = Study(
    presets=PRESETS, unit="documents", tables=TABLES, labels=LABELS, run=run, conclude=conclude, domain="readme"
)
