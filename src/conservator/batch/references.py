"""References of a batch: an index on disk that is built once and mapped into memory by all workers."""

import hashlib
import json
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from conservator.batch.items import InputFile
from conservator.documents import read_damaged, read_input, read_texts
from conservator.errors import ConservatorError
from conservator.experts import References
from conservator.experts.memory import MAX_REFERENCE_BYTES, make_references
from conservator.experts.memory.index import UNKNOWN, Index
from conservator.options import RestoreOptions
from conservator.system.files import make_folder
from conservator.vocabularies import BYTES

ARRAYS = tuple(name for name in Index._fields if name != "bits")
ABOUT = "about.json"
Texts = dict[str, tuple[str, bytes]]  # SHA-256 of the text -> its name and its UTF-8 bytes


@dataclass(frozen=True)
class SharedReferences:
    """An index on disk that is mapped into memory, so that all workers share its pages.

    The mapping is copy-on-write: a worker can hide a text temporarily, which copies only the pages of that text.

    Attributes:
        texts: the references.
        numbers: SHA-256 of each text -> its number in ``texts``.
    """

    texts: References
    numbers: dict[str, int]

    @classmethod
    def open(cls, folder: Path) -> "SharedReferences":
        """Map the index that ``build_references`` wrote."""
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        arrays = {name: np.asarray(np.load(folder / f"{name}.npy", mmap_mode="c")) for name in ARRAYS}
        index = Index(**arrays, bits=about["bits"])
        numbers = {sha256: number for number, sha256 in enumerate(about["hashes"])}
        begins = np.array(about["begins"], dtype=np.int64)
        return cls(References(tuple(about["names"]), begins, index), numbers)

    @contextmanager
    def without(self, sha256: str) -> Iterator[None]:
        """Hide the text with a hash, if there is one, so that a document is not its own reference."""
        number = self.numbers.get(sha256)
        if number is None:
            yield
            return
        begins, text = self.texts.begins, self.texts.index.text
        stop = begins[number + 1] if number + 1 < len(begins) else len(text)
        hidden = text[begins[number] : stop]
        original = hidden.copy()
        hidden[:] = UNKNOWN
        try:
            yield
        finally:
            hidden[:] = original


def gather_texts(references: Iterable[Path], input_files: Iterable[InputFile], options: RestoreOptions) -> Texts:
    """Read the reference files and folders, and the documents of the input files; duplicates count once.

    The texts are sorted by hash, so that the result does not depend on their order.
    """
    texts: Texts = {}
    total = 0
    for name, data in _read_all(references, input_files, options):
        key = hashlib.sha256(data).hexdigest()
        if data and key not in texts:
            texts[key] = name, data
            total += len(data)
        if total > MAX_REFERENCE_BYTES:
            raise ConservatorError(
                f"the references must have at most {MAX_REFERENCE_BYTES:,} bytes together, exceeded with {name}; "
                "pass fewer"
            )
    return dict(sorted(texts.items()))


def _read_all(
    references: Iterable[Path], input_files: Iterable[InputFile], options: RestoreOptions
) -> Iterator[tuple[str, bytes]]:
    for path in references:
        yield from ((name, text.encode()) for name, text in read_texts(path))
    marks = options.markers
    for input_file in input_files:
        with suppress(ConservatorError):  # a damaged archive: the driver copies it
            for item in input_file.read():
                with suppress(ConservatorError):  # not text: the driver copies it
                    source = read_input(
                        item.data or b"", options.encoding, markers=marks, allow_invalid_utf8=options.allow_invalid_utf8
                    )
                    yield item.name, source.data.removeprefix(BOM_UTF8)


def build_references(texts: Texts, mark: str, folder: Path) -> None:
    """Index texts into a folder; marks in them become unknown tokens. ``about.json`` is written last."""
    tokens = [
        np.where((observed := read_damaged(data, mark=mark).tokens) == BYTES.mask, UNKNOWN, observed)
        for _, data in texts.values()
    ]
    nonempty = [number for number, text in enumerate(tokens) if len(text)]
    names, hashes = [name for name, _ in texts.values()], list(texts)
    references = make_references((names[number], tokens[number].astype(np.int16)) for number in nonempty)
    if references is None:
        raise ConservatorError("all references are empty")
    make_folder(folder)
    index = references.index
    for name in ARRAYS:
        np.save(folder / f"{name}.npy", getattr(index, name))
    about = {
        "names": list(references.names),
        "hashes": [hashes[number] for number in nonempty],
        "begins": references.begins.tolist(),
        "bits": references.index.bits,
    }
    (folder / ABOUT).write_text(json.dumps(about), encoding="utf-8")
