"""The paper's public data sets from Hugging Face ``datasets`` (needs ``pip install conservator[datasets]``)."""

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conservator.errors import ConservatorError
from conservator.system.files import make_folder, write_atomically

MAX_TRAIN_CHARACTERS = 5_000_000  # characters: of each training corpus; a tenth for evaluation [definition]
EVALUATION_INTERVAL = 20  # documents: of a single split, every 20th is used for evaluation [untuned]

Rows = Iterable[dict[str, Any]]


def articles(rows: Rows) -> Iterator[str]:
    """Join the lines of WikiText to articles; `` = Title = `` starts an article, `` = = Section = = `` does not."""
    lines: list[str] = []
    for row in rows:
        line = row["text"]
        if line.startswith(" = ") and not line.startswith(" = = ") and lines:
            yield "".join(lines)
            lines = []
        lines.append(line)
    if lines:
        yield "".join(lines)


def column(name: str) -> Callable[[Rows], Iterator[str]]:
    """Make an extractor that takes one document per row, from the column ``name``."""
    return lambda rows: (row[name] for row in rows)


@dataclass(frozen=True)
class PublicDataset:
    """A public data set.

    Attributes:
        path: name on the Hugging Face hub.
        subset: configuration of the data set, or None.
        texts: extracts the documents from its rows.
        evaluation: split for evaluation; None if the data set has only ``train``.
    """

    path: str
    subset: str | None
    texts: Callable[[Rows], Iterator[str]]
    evaluation: str | None


DATASETS = {
    "prose": PublicDataset("Salesforce/wikitext", "wikitext-103-raw-v1", articles, "test"),
    "code": PublicDataset("code-search-net/code_search_net", "python", column("whole_func_string"), "test"),
    "config": PublicDataset("substratusai/the-stack-yaml-k8s", None, column("content"), None),
}


def fetch(folder: Path) -> Path:
    """Download the data sets that ``folder`` does not have, as ``NAME.SPLIT.jsonl.gz``; return ``folder``."""
    paths = {(name, split): folder / f"{name}.{split}.jsonl.gz" for name in DATASETS for split in ("train", "eval")}
    missing = {key: path for key, path in paths.items() if not path.exists()}
    if not missing:
        return folder
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise ConservatorError(
            "the public data sets need an optional dependency: pip install 'conservator[datasets]'"
        ) from error
    make_folder(folder)
    for (name, split), path in missing.items():
        texts = documents(DATASETS[name], split, load_dataset)
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        write_atomically(path, gzip.compress(lines.encode(), mtime=0))
    return folder


def documents(dataset: PublicDataset, split: str, load: Callable[..., Any]) -> Iterator[str]:
    """Yield the first documents of a split, up to its number of characters; ``load`` is ``datasets.load_dataset``."""
    held_out = split == "eval"
    dataset_split = dataset.evaluation if held_out and dataset.evaluation else "train"
    try:
        texts: Iterator[str] = dataset.texts(load(dataset.path, dataset.subset, split=dataset_split, streaming=True))
        if dataset.evaluation is None:
            texts = (text for number, text in enumerate(texts) if (number % EVALUATION_INTERVAL == 0) == held_out)
        remaining = MAX_TRAIN_CHARACTERS // 10 if held_out else MAX_TRAIN_CHARACTERS
        for text in texts:
            if remaining <= 0:
                return
            yield text[:remaining]
            remaining -= len(text)
    except (OSError, ValueError) as error:  # no network connection, or no such data set
        raise ConservatorError(f"cannot download {dataset.path}: {error}") from error
