"""The paper's public data sets, through Hugging Face ``datasets`` (an extra: ``pip install conservator[datasets]``)."""

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conservator.errors import ConservatorError
from conservator.system.files import make_folder, write_atomically

CHARACTERS = 5_000_000  # of each corpus, as in the paper; a tenth of that for evaluation
EVERY = 20  # if a data set has a single split, every 20th document is for evaluation

Rows = Iterable[dict[str, Any]]


def articles(rows: Rows) -> Iterator[str]:
    """WikiText comes line by line; a heading `` = Title = `` opens an article, `` = = Section = = `` does not."""
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
    """One document per row, in the column ``name``."""
    return lambda rows: (row[name] for row in rows)


@dataclass(frozen=True)
class Source:
    """A public data set.

    Attributes:
        path: its name.
        subset: its configuration, or None.
        texts: extracts the documents from its rows.
        evaluation: the split that is for evaluation; None where there is only ``train``.
    """

    path: str
    subset: str | None
    texts: Callable[[Rows], Iterator[str]]
    evaluation: str | None


SOURCES = {
    "prose": Source("Salesforce/wikitext", "wikitext-103-raw-v1", articles, "test"),
    "code": Source("code-search-net/code_search_net", "python", column("whole_func_string"), "test"),
    "config": Source("substratusai/the-stack-yaml-k8s", None, column("content"), None),
}


def fetch(folder: Path) -> Path:
    """Fetch what ``folder`` does not hold yet, as ``NAME.SPLIT.jsonl.gz``, and return it."""
    wanted = {(name, split): folder / f"{name}.{split}.jsonl.gz" for name in SOURCES for split in ("train", "eval")}
    missing = {key: path for key, path in wanted.items() if not path.exists()}
    if not missing:
        return folder
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise ConservatorError("the public data sets need an extra: pip install 'conservator[datasets]'") from error
    make_folder(folder)
    for (name, split), path in missing.items():
        texts = documents(SOURCES[name], split, load_dataset)
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        write_atomically(path, gzip.compress(lines.encode(), mtime=0))
    return folder


def documents(source: Source, split: str, load: Callable[..., Any]) -> Iterator[str]:
    """The first documents of a split, up to its share of characters; ``load`` is ``datasets.load_dataset``."""
    held_out = split == "eval"
    theirs = source.evaluation if held_out and source.evaluation else "train"
    try:
        texts: Iterator[str] = source.texts(load(source.path, source.subset, split=theirs, streaming=True))
        if source.evaluation is None:
            texts = (text for place, text in enumerate(texts) if (place % EVERY == 0) == held_out)
        left = CHARACTERS // 10 if held_out else CHARACTERS
        for text in texts:
            if left <= 0:
                return
            yield text[:left]
            left -= len(text)
    except (OSError, ValueError) as error:  # no network, no such data set
        raise ConservatorError(f"cannot fetch {source.path}: {error}") from error
