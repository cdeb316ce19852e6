"""Python code against its comments and docstrings, which interleave line by line: appendix "A second real domain"."""

from dataclasses import dataclass

import torch
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.training import find_python_comments
from conservator_studies.byte import (
    COMPARISON,
    NAMES,
    OURS,
    QUALITY,
    ByteConfig,
    damage,
    interval,
    restore_all,
    tabulate,
)
from conservator_studies.corpora import read_domain
from conservator_studies.mixtures import Mixtures
from conservator_studies.resources import Resources
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.study import TextStudy, Track

ATTEMPTS = 1000  # the largest number of windows that are drawn for each one that is needed


@dataclass(frozen=True)
class Config(ByteConfig):
    """The sizes of the study: windows of whole files, in which each region has at least ``share`` of the bytes."""

    windows: int = 128
    domains: tuple[str, ...] = ("prose", "code")
    share: float = 0.25


PRESETS = {"laptop": Config(), "paper": Config()}
TABLES = [
    TableSpec("Restoration, each document counted alike", COMPARISON, "section A second real domain"),
    TableSpec("Quality", QUALITY),
    TableSpec(
        "Accuracy in each true region", [Column("accuracy_prose", "comments", 3), Column("accuracy_code", "code", 3)]
    ),
]
LABELS = NAMES
BASELINES = ("local_bayes", "hard_label", "global", "equal", "hmm_heldout", "single:code", "single:prose")
PAPER = {
    "local_bayes": {"accuracy_documents": 0.227},
    "hard_label": {"accuracy_documents": 0.227},
    "single:code": {"accuracy_documents": 0.222},
    "global": {"accuracy_documents": 0.212},
    "equal": {"accuracy_documents": 0.188},
}


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Restore files as they are; the prose expert stands for comments, which no expert here was trained on."""
    documents = read_domain(resources.corpora, "code", "eval", comments=True).documents
    trial = damage(cut(documents, config, seed), config, seed, resources)
    found = restore_all(trial, BASELINES, track, "comments")
    return Findings(tabulate(found, trial, PAPER, found[OURS]), {})


def conclude(rows: list[Row]) -> str:
    """Which expert replaces the paper's expert of comments, and the differences to other methods."""
    found = {row["method"]: row for row in rows}
    return (
        "The paper trains an expert on comments and docstrings; here the prose expert stands for it, which never read "
        "one, and the texts of the code expert had all of them taken out. Local evidence minus the code expert alone: "
        f"{interval(found['single:code'])}; minus the global weight: {interval(found['global'])}; minus the label "
        f"router: {interval(found['hard_label'])}."
    )


def cut(documents: tuple[bytes, ...], config: Config, seed: int) -> Mixtures:
    """Draw windows of Python files in which comments and code both have at least ``share`` of the bytes."""
    labelled = []
    for document in documents:
        labels = label(document.decode())
        if labels is not None and len(labels) >= config.length and 0 < labels.double().mean() < 1:
            labelled.append((torch.tensor(list(document)), labels))
    generator = torch.Generator().manual_seed(seed)
    tokens, regions, numbers = [], [], []
    for _ in range(ATTEMPTS * config.windows if labelled else 0):
        number = int(torch.randint(len(labelled), (1,), generator=generator))
        text, labels = labelled[number]
        start = int(torch.randint(len(text) - config.length + 1, (1,), generator=generator))
        span = slice(start, start + config.length)
        if config.share <= float(labels[span].double().mean()) <= 1 - config.share:
            tokens.append(text[span])
            regions.append(labels[span])
            numbers.append(torch.full((config.length,), number))
        if len(tokens) == config.windows:
            return Mixtures(torch.stack(tokens), torch.stack(regions), torch.stack(numbers), config.domains)
    raise ConservatorError(
        f"the code of these corpora has too few comments: {len(tokens)} of {config.windows} windows of {config.length} "
        f"bytes with {config.share:.0%} of comments and of code at least"
    )


def label(text: str) -> Tensor | None:
    """(L,) for every byte of a Python file 0 in a comment or docstring, else 1; None if it is not Python."""
    if "\r" in text:
        return None
    comments = find_python_comments(text)
    if comments is None:
        return None
    labels = torch.ones(len(text.encode()), dtype=torch.long)
    for start, stop, _ in comments:
        labels[len(text[:start].encode()) : len(text[:stop].encode())] = 0
    return labels


STUDY = TextStudy(presets=PRESETS, unit="windows", tables=TABLES, labels=LABELS, run=run, conclude=conclude)
