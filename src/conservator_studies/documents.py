"""Documents of every kind, damaged in several ways, restored by the product: with its memory, and without it."""

from dataclasses import dataclass

import numpy as np
import torch

from conservator import RestoreOptions, Restorer
from conservator.documents import damage
from conservator.experts import Memory
from conservator.options import EXPERTS
from conservator_studies.corpora import find_file
from conservator_studies.metrics import calibration_error
from conservator_studies.readme import (
    SURE,
    Method,
    Outcome,
    by_restorer,
    outcome_of,
    read_documents,
    references,
)
from conservator_studies.readme import Config as ReadmeConfig
from conservator_studies.resources import Resources
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.statistics import compare, summarise
from conservator_studies.study import TextStudy, Track

METHODS = {
    "product": "product [95 %]",
    "plain": "without memory",
    "like": "like training texts",
    "alone": "memory alone",
}


@dataclass(frozen=True)
class Config:
    """What is restored.

    Attributes:
        documents: how many of each kind.
        size: bytes of each, from its beginning.
        kinds: of documents, all damaged at the rate 0.1.
        damages: (kind, rate, burst) of other damage.
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
        "Lost bytes that came back, each document counted alike",
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
            Column("sure_share", f"share of bytes at {SURE} or more", 3),
            Column("sure_right", "of these right", 3),
        ],
    ),
]


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Restore documents of every kind at the rate 0.1, and of some kinds at other rates and in bursts."""
    experts = resources.choose(EXPERTS)
    methods = {
        "product": by_restorer(Restorer(experts, select=True)),
        "plain": by_restorer(Restorer(experts, RestoreOptions(memory=False), select=True)),
        "alone": by_restorer(Restorer([Memory()])),
    }
    rows = []
    for kind, rate, burst in [*((kind, 0.1, 1) for kind in config.kinds), *config.damages]:
        if find_file(resources.corpora, kind, "eval") is None:  # the demo has not all kinds
            continue
        used: dict[str, Method] = dict(methods)
        like = references(resources.corpora, kind)
        if like and (rate, burst) == (0.1, 1):
            used["like"] = by_restorer(Restorer(experts, references=like, select=True))
        name = f"{kind}, {rate:.0%} lost" + (f" in bursts of {burst}" if burst > 1 else "")
        documents = read_documents(resources.corpora, kind, ReadmeConfig(config.documents, config.size))
        outcomes: dict[str, list[Outcome]] = {method: [] for method in used}
        for number, document in enumerate(track(documents, name)):
            damaged = damage(document, rate, burst=burst, seed=seed + number)
            for method, restore in used.items():
                outcomes[method] += outcome_of(restore, document, damaged, seed + number)
        rows.append(row_of(name, outcomes))
    return Findings(rows, {})


def row_of(name: str, outcomes: dict[str, list[Outcome]]) -> Row:
    """The row of one kind of document and damage."""
    shares = {method: [float(one.right.mean()) for one in found] for method, found in outcomes.items()}
    row: Row = {"method": name, "count": len(shares["product"]), "paper": {}}
    for method, values in shares.items():
        row |= summarise(f"accuracy_{method}", values)
        row.pop(f"accuracy_{method}_sd", None)  # the interval says more
    row |= compare(shares["product"], shares["plain"]).as_row()
    confidence = np.concatenate([one.confidence for one in outcomes["product"]])
    right = np.concatenate([one.right for one in outcomes["product"]])
    row["calibration_error"] = calibration_error(torch.from_numpy(confidence), torch.from_numpy(right))
    row["sure_share"] = float((confidence >= SURE).mean())
    if (confidence >= SURE).any():
        row["sure_right"] = float(right[confidence >= SURE].mean())
    return row


def conclude(rows: list[Row]) -> str:
    """What the memory brings, from least to most."""
    gains = sorted(rows, key=lambda row: float(row["difference"]))
    return (
        f"The memory of the document itself brings between {gains[0]['difference']:.3f} ({gains[0]['method']}) and "
        f"{gains[-1]['difference']:.3f} ({gains[-1]['method']})."
    )


STUDY = TextStudy(
    presets=PRESETS, unit="documents", tables=TABLES, labels={}, run=run, conclude=conclude, domain="readme"
)
