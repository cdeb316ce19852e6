"""Where the texts of the byte studies come from: the user's folder, the demo in the package, or public data sets.

Each of these is a folder with files ``NAME.SPLIT.jsonl.gz`` (or ``.jsonl``) for prose, code and config, with a field
``text`` in each line. The splits ``train`` and ``eval`` share no document.
"""

import os
from pathlib import Path

from conservator.errors import ConservatorError
from conservator.training import FILTERS, Corpus, hold_out, read_corpus

DOMAINS = {"prose": None, "code": "python-comments", "config": "yaml-comments"}  # and the filter of each
VARIABLE = "CONSERVATOR_CORPORA"
DEMO = Path(__file__).parent / "demo"


def find_corpora(where: str | None, cache: Path) -> Path:
    """The folder of the corpora.

    Args:
        where: a folder; ``demo`` for the small one in the package; ``huggingface`` for the paper's public data sets;
            None for the value of the environment variable VARIABLE.
        cache: where public data sets are kept once they are fetched.
    """
    where = where or os.environ.get(VARIABLE)
    if where is None:
        raise ConservatorError(
            f"this study needs texts: give --corpora PATH or set {VARIABLE} to a folder with NAME.SPLIT.jsonl.gz files "
            f"(NAME: {', '.join(DOMAINS)}; SPLIT: train, eval; a field text in each line). --corpora huggingface "
            "fetches the paper's public data sets, --corpora demo takes the small one in the package, for a try"
        )
    if where == "demo":
        return DEMO
    if where == "huggingface":
        from conservator_studies.huggingface import fetch

        return fetch(cache)
    folder = Path(where)
    if not folder.is_dir():
        raise ConservatorError(f"there is no folder {folder}; --corpora takes a folder, demo or huggingface")
    return folder


def find_file(corpora: Path, name: str, split: str) -> Path | None:
    """The file of a domain, or None where there is none."""
    paths = [corpora / f"{name}.{split}.{kind}" for kind in ("jsonl.gz", "jsonl")]
    return next((path for path in paths if path.exists()), None)


def read_domain(corpora: Path, name: str, split: str, *, comments: bool = False) -> Corpus:
    """The documents of a domain; comments are stripped unless they are wanted."""
    path = find_file(corpora, name, split)
    if path is None:
        raise ConservatorError(
            f"there is no {name}.{split}.jsonl.gz in {corpora}; the corpora folder holds NAME.SPLIT.jsonl.gz files"
        )
    kind = None if comments else DOMAINS.get(name)
    return read_corpus([path], {path: FILTERS[kind]} if kind else {})


def read_domains(corpora: Path, split: str, *, least: int = 256, held_out: bool = False) -> dict[str, list[bytes]]:
    """The documents of prose, code and config that have at least ``least`` bytes, comments stripped.

    ``held_out`` keeps only the documents that the training of the built-in experts (seed 0) held out. Settings are
    tuned on these documents of the split ``train``.
    """
    found = {}
    for name in DOMAINS:
        corpus = read_domain(corpora, name, split)
        documents = hold_out(corpus, 0)[1] if held_out else corpus.documents
        found[name] = [document for document in documents if len(document) >= least]
    return found
