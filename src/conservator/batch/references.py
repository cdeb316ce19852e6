"""Texts like the documents, in an index that is built once, on disk, and shared by workers without copies."""

import hashlib
import json
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from conservator.batch.items import InputFile
from conservator.documents import read_damaged, read_input
from conservator.errors import ConservatorError
from conservator.experts import References
from conservator.experts.memory import LARGEST, make_references
from conservator.experts.memory.index import UNKNOWN, Index
from conservator.options import RestoreOptions
from conservator.system.files import make_folder
from conservator.training import read_texts
from conservator.vocabularies import BYTES

ARRAYS = ("text", "offsets", "sizes", "starts", "places")
ABOUT = "about.json"
Texts = dict[str, tuple[str, bytes]]  # hash of the text -> its name and its UTF-8


@dataclass(frozen=True)
class SharedReferences:
    """An index on disk, mapped into memory: all workers share its pages.

    The mapping is private, so that a worker may hide a text in it for a while; that copies only the pages of that text.

    Attributes:
        texts: the references.
        numbers: the hash of each text -> its place among them.
    """

    texts: References
    numbers: dict[str, int]

    @classmethod
    def open(cls, folder: Path) -> "SharedReferences":
        """Map the index that ``build_references`` wrote."""
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        text, offsets, sizes, starts, places = (
            np.asarray(np.load(folder / f"{name}.npy", mmap_mode="c")) for name in ARRAYS
        )
        index = Index(text, offsets, sizes, about["bits"], starts, places)
        numbers = {key: number for number, key in enumerate(about["hashes"])}
        begins = np.array(about["begins"], dtype=np.int64)
        return cls(References(tuple(about["names"]), begins, index), numbers)

    @contextmanager
    def without(self, own: str) -> Iterator[None]:
        """Hide the text with the hash ``own``, if it is one of them: a document is no reference of itself."""
        number = self.numbers.get(own)
        if number is None:
            yield
            return
        begins, text = self.texts.begins, self.texts.index.text
        stop = begins[number + 1] if number + 1 < len(begins) else len(text)
        hidden = text[begins[number] : stop]
        kept = hidden.copy()
        hidden[:] = UNKNOWN
        try:
            yield
        finally:
            hidden[:] = kept


def gather_texts(references: Iterable[Path], input_files: Iterable[InputFile], options: RestoreOptions) -> Texts:
    """The texts of files and folders, and the documents of a corpus; those that are the same count once.

    They are sorted by their hashes, so that nothing depends on the order in which they were given.
    """
    found: Texts = {}
    total = 0
    for name, data in _texts(references, input_files, options):
        key = hashlib.sha256(data).hexdigest()
        if data and key not in found:
            found[key] = name, data
            total += len(data)
        if total > LARGEST:
            raise ConservatorError(
                f"the texts like the documents have more than {LARGEST:,} bytes, with {name}; give fewer"
            )
    return dict(sorted(found.items()))


def _texts(
    references: Iterable[Path], input_files: Iterable[InputFile], options: RestoreOptions
) -> Iterator[tuple[str, bytes]]:
    for path in references:
        yield from ((name, text.encode()) for name, text in read_texts(path))
    for input_file in input_files:
        try:
            for item in input_file.items():
                if item.data is None:
                    continue
                try:
                    signs = (options.mark, options.gap)
                    source = read_input(
                        item.data, options.encoding, markers=signs, allow_invalid_utf8=options.allow_invalid_utf8
                    )
                except ConservatorError:
                    continue  # it is no text, so it is copied later
                yield item.name, source.data.removeprefix(BOM_UTF8)
        except ConservatorError:
            continue  # a damaged archive is copied later


def build_references(texts: Texts, mark: str, folder: Path) -> None:
    """Index texts into a folder. What tells that it is whole is written last."""
    tokens = [
        np.where((one := read_damaged(data, mark=mark).tokens) == BYTES.mask, UNKNOWN, one)
        for _, data in texts.values()
    ]
    kept = [number for number, one in enumerate(tokens) if len(one)]
    names, hashes = [name for name, _ in texts.values()], list(texts)
    references = make_references((names[number], tokens[number].astype(np.int16)) for number in kept)
    if references is None:
        raise ConservatorError("there is no text like the documents: all are empty")
    make_folder(folder)
    for name in ARRAYS:
        np.save(folder / f"{name}.npy", getattr(references.index, name))
    about = {
        "names": list(references.names),
        "hashes": [hashes[number] for number in kept],
        "begins": references.begins.tolist(),
        "bits": references.index.bits,
    }
    (folder / ABOUT).write_text(json.dumps(about), encoding="utf-8")
