"""Corpora of the byte studies: a folder of the user, the demo in the package, or public data sets.

A corpus folder has files ``NAME.SPLIT.jsonl.gz`` (or ``.jsonl``) for prose, code and config, with a field ``text`` in
each line. The splits ``train`` and ``eval`` have no document in common.
"""

import os
from pathlib import Path

from conservator.errors import ConservatorError
from conservator.training import FILTERS, Corpus, hold_out, read_corpus

# domain -> filter that removes its comments
DOMAINS = {"prose": None, "code": "python-comments", "config": "yaml-comments"}
CORPORA_VARIABLE = "CONSERVATOR_CORPORA"
DEMO = Path(__file__).parent / "demo"


def find_corpora(where: str | None, cache: Path) -> Path:
    """Find the folder of the corpora.

    Args:
        where: a folder; ``demo`` for the demo corpora of the package; ``huggingface`` for the paper's public data sets;
            None for the value of the environment variable CORPORA_VARIABLE.
        cache: folder for downloaded public data sets.
    """
    where = where or os.environ.get(CORPORA_VARIABLE)
    if where is None:
        raise ConservatorError(
            f"this study needs texts: give --corpora PATH or set {CORPORA_VARIABLE} to a folder with "
            f"NAME.SPLIT.jsonl.gz files (NAME: {', '.join(DOMAINS)}; SPLIT: train, eval; a field text in each line). "
            "--corpora huggingface downloads the paper's public data sets, --corpora demo uses the demo corpora of "
            "the package"
        )
    if where == "demo":
        return DEMO
    if where == "huggingface":
        from conservator_studies.huggingface import fetch

        return fetch(cache)
    folder = Path(where)
    if not folder.is_dir():
        raise ConservatorError(f"there is no folder {folder}; --corpora accepts a folder, demo or huggingface")
    return folder


def find_file(corpora: Path, name: str, split: str) -> Path | None:
    """Find the file of a domain; None if it does not exist."""
    paths = [corpora / f"{name}.{split}.{kind}" for kind in ("jsonl.gz", "jsonl")]
    return next((path for path in paths if path.exists()), None)


def read_domain(corpora: Path, name: str, split: str, *, comments: bool = False) -> Corpus:
    """Read the documents of a domain; comments are removed unless ``comments`` is True."""
    path = find_file(corpora, name, split)
    if path is None:
        raise ConservatorError(
            f"there is no {name}.{split}.jsonl.gz in {corpora}; a corpora folder needs NAME.SPLIT.jsonl.gz files"
        )
    comment_filter = None if comments else DOMAINS.get(name)
    return read_corpus([path], {path: FILTERS[comment_filter]} if comment_filter else {})


def read_domains(corpora: Path, split: str, *, min_bytes: int = 256, held_out: bool = False) -> dict[str, list[bytes]]:
    """Read the documents of prose, code and config with at least ``min_bytes`` bytes, without comments.

    ``held_out`` keeps only documents that were held out when the built-in experts were trained (seed 0). Settings are
    tuned on these documents of the split ``train``.
    """
    domains = {}
    for name in DOMAINS:
        corpus = read_domain(corpora, name, split)
        documents = hold_out(corpus, 0)[1] if held_out else corpus.documents
        domains[name] = [document for document in documents if len(document) >= min_bytes]
    return domains
