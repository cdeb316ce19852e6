"""Python code and its comments and docstrings, interleaved line by line: appendix "A second real domain"."""

from dataclasses import dataclass

import torch
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.training import find_python_comments
from conservator_studies.byte import COMPARISON, NAMES, QUALITY, ByteConfig, corrupt, interval, restore_all, tabulate
from conservator_studies.corpora import read_domain
from conservator_studies.mixtures import Mixtures
from conservator_studies.resources import Resources
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.study import Study, Track

ATTEMPTS_PER_WINDOW = 1000  # windows: maximum number of draws per accepted window [safety limit]


@dataclass(frozen=True)
class Config(ByteConfig):
    """Configuration of the study; each region has at least the fraction ``share`` of the bytes of a window."""

    windows: int = 128
    domains: tuple[str, ...] = ("prose", "code")
    share: float = 0.25


PRESETS = {"laptop": Config(), "paper": Config()}
TABLES = [
    TableSpec("Restoration accuracy, mean over documents", COMPARISON, "section A second real domain"),
    TableSpec("Quality", QUALITY),
    TableSpec(
        "Accuracy in each true region", [Column("accuracy_prose", "comments", 3), Column("accuracy_code", "code", 3)]
    ),
]
BASELINES = ("local_bayes", "hard_label", "global", "equal", "hmm_heldout", "single:code", "single:prose")
PAPER = {
    "local_bayes": {"accuracy_documents": 0.227},
    "hard_label": {"accuracy_documents": 0.227},
    "single:code": {"accuracy_documents": 0.222},
    "global": {"accuracy_documents": 0.212},
    "equal": {"accuracy_documents": 0.188},
}


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Restore real files; the prose expert substitutes the paper's expert for comments."""
    documents = read_domain(resources.corpora, "code", "eval", comments=True).documents
    trial = corrupt(draw_windows(documents, config, seed), config, seed, resources)
    restorations = restore_all(trial, BASELINES, track, "comments")
    return Findings(tabulate(restorations, trial.mixed, PAPER), {})


def conclude(rows: list[Row]) -> str:
    """State which expert replaces the paper's expert for comments, and the differences from other methods."""
    by_method = {row["method"]: row for row in rows}
    return (
        "The paper trains an expert on comments and docstrings. Here the prose expert replaces it. Its training data "
        "has no comments, and all comments were removed from the training data of the code expert. Local evidence "
        f"minus code expert: {interval(by_method['single:code'])}; minus global weight: "
        f"{interval(by_method['global'])}; minus label router: {interval(by_method['hard_label'])}."
    )


def draw_windows(documents: tuple[bytes, ...], config: Config, seed: int) -> Mixtures:
    """Draw windows of Python files with at least the fraction ``share`` of bytes in comments and in code."""
    labelled = []
    for document in documents:
        labels = label_bytes(document.decode())
        if labels is not None and len(labels) >= config.length and 0 < labels.double().mean() < 1:
            labelled.append((torch.tensor(list(document)), labels))
    generator = torch.Generator().manual_seed(seed)
    tokens, regions, numbers = [], [], []
    for _ in range(ATTEMPTS_PER_WINDOW * config.windows if labelled else 0):
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
        f"expected {config.windows} windows of {config.length} bytes with at least {config.share:.0%} comments and "
        f"{config.share:.0%} code, found {len(tokens)}; use corpora with more comments or fewer windows (--limit)"
    )


def label_bytes(text: str) -> Tensor | None:
    """Label each byte of a Python file (L,): 0 in comments and docstrings, else 1; None if parsing fails."""
    if "\r" in text:
        return None
    comments = find_python_comments(text)
    if comments is None:
        return None
    labels = torch.ones(len(text.encode()), dtype=torch.long)
    for start, stop, _ in comments:
        labels[len(text[:start].encode()) : len(text[:stop].encode())] = 0
    return labels


STUDY = Study(presets=PRESETS, tables=TABLES, labels=NAMES, run=run, conclude=conclude)
