"""Real README files with lost bytes: the product compared with single experts, constant weights and generalists.

The product is ``conservator.Restorer`` with its default options: experts chosen by evidence, and a memory. Each
document is cut to its first bytes, a share of them is lost, and every method fills them as valid UTF-8. The methods
differ in which experts they have, and in how they weight them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from conservator import RestoreOptions, Restorer
from conservator.channels import MaskChannel, Observation
from conservator.decoders import decode_text
from conservator.documents import MARK, damage, read_damaged
from conservator.evaluation.figures import new_figure
from conservator.experts import Expert, Memory, Team, make_references
from conservator.field import GLOBAL, Engine, Folds, Inferred
from conservator.options import EXPERTS
from conservator.vocabularies import BYTES
from conservator_studies.byte import NAMES, interval
from conservator_studies.corpora import find_file, read_domain
from conservator_studies.metrics import calibration_error
from conservator_studies.resources import Resources
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.statistics import compare, summarise
from conservator_studies.study import TextStudy, Track

PRODUCT, LIKE = "product", "product_like"
EDGES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of the reliability curve
SURE = 0.9


@dataclass(frozen=True)
class Config:
    """What is restored.

    Attributes:
        documents: how many.
        size: bytes of each, from its beginning.
        rate: the share that is lost.
        domains: the experts of the product.
    """

    documents: int = 64
    size: int = 4096
    rate: float = 0.1
    domains: tuple[str, ...] = EXPERTS


PRESETS = {"laptop": Config(), "paper": Config()}
TABLES = [
    TableSpec(
        "Lost bytes of README files that came back, each document counted alike",
        [
            Column("accuracy", "accuracy [95 %]", 3),
            Column("difference", "product minus it [95 %]", 3),
            Column("p", "p", 4),
        ],
    ),
    TableSpec("Calibration error of the product", [Column("calibration_error", "calibration error", 4)]),
    TableSpec(
        "Reliability of the product's confidence",
        [Column("confidence", "mean confidence", 3), Column("right", "right", 3), Column("share", "share of bytes", 3)],
    ),
]
LABELS = NAMES | {
    PRODUCT: "Product",
    LIKE: "Product, like training README files",
    "without_memory": "Product without memory",
    "memory_alone": "Memory alone",
    "memory_like_alone": "Memory alone, like training README files",
    "global_memory": "One weight for the networks, memory by certainty",
    "equal": "Equal weights, memory too",
    "global": "One weight for all, memory too",
    "generalist_memory": "Generalist, and memory",
    "generalist_3x_memory": "Generalist, 3x compute, and memory",
    "single:markdown": "Markdown expert",
    "single:math": "Math expert",
    "calibration": "All restored bytes",
}


@dataclass(frozen=True)
class Outcome:
    """The restored bytes of a document: whether each is right (n,), and its confidence (n,)."""

    right: NDArray[np.bool_]
    confidence: NDArray[np.float64]


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Restore every document by every method."""
    like = references(resources.corpora, "readme")
    methods = make_methods(resources.choose(config.domains), resources.generalists(), like)
    outcomes: dict[str, list[Outcome]] = {name: [] for name in methods}
    for number, document in enumerate(track(read_documents(resources.corpora, "readme", config), "readme")):
        damaged = damage(document, config.rate, seed=seed + number)
        for name, method in methods.items():
            outcomes[name] += outcome_of(method, document, damaged, seed + number)
    rows = [*accuracy_rows(outcomes), calibration_row(outcomes[PRODUCT])]
    reliability = reliability_rows(outcomes[PRODUCT])
    return Findings([*rows, *reliability], {"reliability": draw(reliability)})


Filled = tuple[NDArray[np.integer[Any]], NDArray[np.float64]]  # the bytes of a document, and their confidence
Method = Callable[[bytes, int], Filled]  # from a damaged document and a seed


def make_methods(
    experts: Sequence[Expert], generalists: Sequence[Expert], like: Sequence[tuple[str, str]]
) -> dict[str, Method]:
    """The methods by name. Without references, there are none that use them."""
    global_prior = replace(GLOBAL, resolution=4)  # with ten parts, a lattice of six experts has 3003 states
    methods = {
        PRODUCT: by_restorer(Restorer(experts, select=True)),
        "without_memory": by_restorer(Restorer(experts, RestoreOptions(memory=False), select=True)),
        "memory_alone": by_restorer(Restorer([Memory()])),
        "global_memory": by_restorer(Restorer(experts, engine=global_prior)),
        **{f"single:{expert.spec.name}": by(equally, [expert]) for expert in experts},
        "equal": by(equally, experts, memory=True),
        "global": by(replace(global_prior, folds=Folds(4)), experts, memory=True),
        **{expert.spec.name: by(equally, [expert]) for expert in generalists},
        **{f"{expert.spec.name}_memory": by_restorer(Restorer([expert])) for expert in generalists},
    }
    if like:
        texts = [(name, np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int16)) for name, text in like]
        methods[LIKE] = by_restorer(Restorer(experts, references=like, select=True))
        methods["memory_like_alone"] = by_restorer(Restorer([Memory(make_references(texts))]))
    return methods


def by_restorer(restorer: Restorer) -> Method:
    """Restore by the product."""

    def method(damaged: bytes, seed: int) -> Filled:
        found = restorer.restore(damaged, seed=seed)
        return found.tokens, found.confidence

    return method


def by(engine: Engine, experts: Sequence[Expert], *, memory: bool = False) -> Method:
    """Restore with the composition that ``engine`` infers, and the product's decoder.

    With ``memory``, there is one more expert, whose weight does not depend on how sure it is: it is an expert like the
    others.
    """

    def method(damaged: bytes, seed: int) -> Filled:
        generator = torch.Generator().manual_seed(seed)
        tokens = torch.from_numpy(read_damaged(damaged).tokens)[None]
        observation = MaskChannel(BYTES.size, 0.5).observe(tokens)
        members = list(experts)
        if memory:
            recollection = Memory().condition(observation)
            members.append(replace(recollection, spec=replace(recollection.spec, is_retrieval=False)))
        team = Team(members)
        decoded = decode_text(team, observation, engine(team, observation, generator), generator)
        return decoded.tokens, decoded.confidence

    return method


def equally(team: Team, observation: Observation, generator: torch.Generator) -> Inferred:
    """The same weight for all experts, at no cost."""
    return Inferred.given(torch.full((*observation.tokens.shape, len(team)), 1 / len(team), dtype=torch.float64))


def outcome_of(method: Method, document: bytes, damaged: bytes, seed: int) -> list[Outcome]:
    """The outcome for one document, as a list; none if nothing was lost."""
    truth, lost = np.frombuffer(document, dtype=np.uint8), read_damaged(damaged).lost
    if not len(lost):
        return []
    tokens, confidence = method(damaged, seed)
    return [Outcome(tokens[lost] == truth[lost], confidence[lost])]


def references(corpora: Path, domain: str) -> list[tuple[str, str]]:
    """The training texts of a domain by name, as they stand; none if there are none."""
    if find_file(corpora, domain, "train") is None:
        return []
    documents = read_domain(corpora, domain, "train", comments=True).documents
    return [(f"{domain} {number}", text.decode()) for number, text in enumerate(documents)]


def read_documents(corpora: Path, domain: str, config: Config) -> list[bytes]:
    """The beginnings of documents as they stand, cut between characters; those that contain the mark are left out."""
    found = read_domain(corpora, domain, "eval", comments=True).documents
    whole = [text for text in found if MARK.encode() not in text]
    return [text[: config.size].decode(errors="ignore").encode() for text in whole[: config.documents]]


def accuracy_rows(outcomes: dict[str, list[Outcome]]) -> list[Row]:
    """The mean accuracy over documents, with intervals, and the product's paired difference to each other method."""
    shares = {name: [float(one.right.mean()) for one in found] for name, found in outcomes.items()}
    rows: list[Row] = []
    for name, values in shares.items():
        row: Row = {"method": name, "count": len(values), **summarise("accuracy", values), "paper": {}}
        row.pop("accuracy_sd", None)  # the interval says more
        if name != PRODUCT:
            row |= compare(shares[PRODUCT], values).as_row()
        rows.append(row)
    return rows


def calibration_row(outcomes: list[Outcome]) -> Row:
    """The calibration error over all restored bytes."""
    confidence = torch.from_numpy(np.concatenate([one.confidence for one in outcomes]))
    right = torch.from_numpy(np.concatenate([one.right for one in outcomes]))
    error = calibration_error(confidence, right)
    return {"method": "calibration", "count": len(right), "calibration_error": error, "paper": {}}


def reliability_rows(outcomes: list[Outcome]) -> list[Row]:
    """The share of right bytes in each bin of confidence; the last row has all bytes with a confidence from SURE on."""
    confidence = np.concatenate([one.confidence for one in outcomes])
    right = np.concatenate([one.right for one in outcomes])
    bins = [(f"{low:.1f} to {high:.1f}", (confidence >= low) & (confidence < high)) for low, high in pairwise(EDGES)]
    bins[-1] = (f"at least {SURE}", confidence >= SURE)
    rows: list[Row] = []
    for name, chosen in bins:
        if chosen.any():
            rows.append(
                {
                    "method": name,
                    "count": int(chosen.sum()),
                    "confidence": float(confidence[chosen].mean()),
                    "right": float(right[chosen].mean()),
                    "share": float(chosen.mean()),
                    "paper": {},
                }
            )
    return rows


def draw(rows: list[Row]) -> Figure:
    """Share of right bytes against their confidence."""
    figure = new_figure(4.2, 4.0)
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="grey", linewidth=1, linestyle="--")
    sizes = [20 + 400 * row["share"] for row in rows]
    axes.scatter([row["confidence"] for row in rows], [row["right"] for row in rows], s=sizes)
    axes.set(xlabel="confidence", ylabel="share of right bytes", xlim=(0, 1.03), ylim=(0, 1.03), aspect="equal")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def conclude(rows: list[Row]) -> str:
    """Whether the product is first, and whether its confidence can be trusted."""
    found = {row["method"]: row for row in rows}
    order = sorted((row for row in rows if "accuracy" in row), key=lambda row: float(-row["accuracy"]))
    rival = next(row for row in order if row["method"] not in (PRODUCT, LIKE))
    place = "first" if found[PRODUCT]["accuracy"] > rival["accuracy"] else "not first"
    text = (
        f"On {found[PRODUCT]['count']} real README files the product is {place} with "
        f"{found[PRODUCT]['accuracy']:.3f}; the best other, {LABELS[rival['method']]}, has {rival['accuracy']:.3f} "
        f"({interval(rival)}, p = {rival['p']:.4f})."
    )
    if LIKE in found:
        text += f" With the training README files as references it has {found[LIKE]['accuracy']:.3f}."
    sure = found.get(f"at least {SURE}")
    if sure:
        text += (
            f" Of the {sure['count']} bytes restored at a confidence of {SURE} or more, {sure['right']:.1%} are right."
        )
    return text


STUDY = TextStudy(
    presets=PRESETS, unit="documents", tables=TABLES, labels=LABELS, run=run, conclude=conclude, domain="readme"
)
