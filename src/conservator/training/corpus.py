"""Texts from files: documents for training and for evaluation."""

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import torch
from torch import Tensor

from conservator.documents import read_input
from conservator.errors import ConservatorError
from conservator.system.files import open_file
from conservator.training.strip import Filter
from conservator.vocabularies import BYTES, Tokens, Vocabulary

TEXT_SUFFIXES = (
    *(".bib", ".c", ".cfg", ".conf", ".cpp", ".css", ".csv", ".go", ".h", ".html", ".ini", ".java", ".js", ".json"),
    *(".log", ".markdown", ".md", ".org", ".py", ".pyi", ".r", ".rb", ".rs", ".rst", ".sh", ".sql", ".tex", ".text"),
    *(".toml", ".ts", ".tsv", ".txt", ".xml", ".yaml", ".yml"),
)
LIMIT = 4 * 2**30  # bytes of text, after decompression, that are read at most


@dataclass(frozen=True)
class Corpus:
    """Documents, and where they came from.

    Attributes:
        documents: the texts, as bytes of UTF-8.
        left_out: how many documents were blank, not accepted by the filter, or the same as one before.
        fingerprint: SHA-256 over the documents.
    """

    documents: tuple[bytes, ...]
    left_out: int
    fingerprint: str

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(map(len, self.documents))


def read_corpus(paths: Sequence[Path], strip: Mapping[Path, Filter] | None = None) -> Corpus:
    """Read the documents of text files, folders of them, ``.jsonl`` and ``.jsonl.gz`` files with a ``text`` field.

    In a folder, empty files and files without the suffix of a text are skipped; given by name, such a file is an error.
    A file that is not UTF-8 is always an error. Texts from a path in ``strip`` pass through its filter; a text for
    which the filter returns None is left out.
    """
    documents: list[bytes] = []
    left_out = total = 0
    digest, known = hashlib.sha256(), set()
    for source, text in ((path, text) for path in paths for _, text in read_texts(path, known=True)):
        kept = strip[source](text) if strip and source in strip else text
        if not kept or not kept.strip():
            left_out += 1
            continue
        document = kept.encode()
        own = hashlib.sha256(document).digest()
        if own in known:  # a duplicate could be both trained on and held out
            left_out += 1
            continue
        known.add(own)
        total += len(document)
        if total > LIMIT:
            raise ConservatorError(f"more than {LIMIT} bytes of text in {', '.join(map(str, paths))}; give less")
        digest.update(len(document).to_bytes(8, "big") + document)
        documents.append(document)
    if not documents:
        refused = f" ({left_out} left out: blank, or not accepted by the filter)" if left_out else ""
        raise ConservatorError(f"no text in {', '.join(map(str, paths))}{refused}")
    return Corpus(tuple(documents), left_out, digest.hexdigest())


def hold_out(corpus: Corpus, seed: int, share: float = 0.05) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Split a corpus into documents to train on, and documents to hold out with about ``share`` of the bytes.

    If no choice of whole documents has about that size, the end of the longest document is held out.
    """
    documents = corpus.documents
    order = torch.randperm(len(documents), generator=torch.Generator().manual_seed(seed)).tolist()
    held: set[int] = set()
    taken, wanted = 0, share * corpus.size
    for place in order:
        if taken < wanted and taken + len(documents[place]) <= 2 * wanted:
            held.add(place)
            taken += len(documents[place])
    if taken >= wanted / 2:
        kept = tuple(text for place, text in enumerate(documents) if place not in held)
        return kept, tuple(documents[place] for place in sorted(held))
    longest = max(range(len(documents)), key=lambda place: len(documents[place]))
    cut = len(documents[longest]) - max(1, round(wanted))
    kept = (*documents[:longest], documents[longest][:cut], *documents[longest + 1 :])
    return kept, (documents[longest][cut:],)


def as_stream(documents: Sequence[bytes], vocabulary: Vocabulary = BYTES) -> Tensor:
    """The documents one after the other, a newline between: (N,) tokens, to cut windows from."""
    if not isinstance(vocabulary, Tokens):
        return torch.frombuffer(bytearray(b"\n".join(documents)), dtype=torch.uint8)
    between = torch.tensor(tokenise(b"\n", vocabulary), dtype=torch.int32)
    parts = [torch.tensor(tokenise(document, vocabulary), dtype=torch.int32) for document in documents]
    return torch.cat([part for pair in zip(parts, [between] * len(parts), strict=True) for part in pair][:-1])


def tokenise(text: bytes, vocabulary: Vocabulary) -> list[int]:
    """The tokens of a text; of a character that is cut off at either end, only bytes can say something."""
    if not isinstance(vocabulary, Tokens):
        return list(text)
    return vocabulary.tokenize(text.decode(errors="ignore"))


def draw_blocks(stream: Tensor, count: int, length: int, seed: int) -> Tensor:
    """At most ``count`` blocks of ``length`` tokens that do not overlap, in random order: (count * length,)."""
    blocks = stream[: len(stream) // length * length].view(-1, length)
    return blocks[torch.randperm(len(blocks), generator=torch.Generator().manual_seed(seed))[:count]].flatten()


def draw_windows(
    stream: Tensor, count: int, length: int, generator: torch.Generator, *, aligned: bool = False
) -> Tensor:
    """Draw ``count`` windows (count, length) of the stream, with replacement; ``aligned`` ones are whole blocks."""
    if aligned:
        starts = length * torch.randint(len(stream) // length, (count, 1), generator=generator)
    else:
        starts = torch.randint(len(stream) - length + 1, (count, 1), generator=generator)
    return stream[starts + torch.arange(length)].long()


def read_texts(path: Path, but: Path | None = None, *, known: bool = False) -> Iterator[tuple[str, str]]:
    """The texts of a file or folder, as ``read_corpus`` reads them: the name of each, and the text.

    The file ``but`` is passed over. If the files have to be ``known``, one that is named must have the suffix of a
    text, and all are UTF-8; else it may have any suffix, and the encoding of each is told by its bytes.
    """
    try:
        path.stat()
    except FileNotFoundError:
        pass  # reported below, with a hint
    except OSError as error:  # a name that is too long, a folder that may not be entered
        raise ConservatorError(f"cannot read {path}: {error.strerror}") from error
    if path.is_dir():
        files = sorted(file for file in _walk(path) if _kind(file) is not None and file.is_file())
        if not files:
            raise ConservatorError(f"the folder {path} holds no text files; {_accepted()}")
        for file in files:
            if file.stat().st_size and not _same(file, but):
                yield from _texts_of_file(file, known=known)
        return
    if not path.exists():
        hint = "; standard input is not read here" if str(path) == "-" else ""
        raise ConservatorError(f"there is no file or folder {path}{hint}")
    if known and _kind(path) is None:
        raise ConservatorError(f"{path}: a text file with the suffix {path.suffix!r} is not known; {_accepted()}")
    if path.is_file() and not path.stat().st_size:
        raise ConservatorError(f"{path} is empty")
    if not _same(path, but):
        yield from _texts_of_file(path, known=known)


def _same(file: Path, other: Path | None) -> bool:
    """Whether two paths name the same file, which exists."""
    return other is not None and file.samefile(other)


def _walk(folder: Path) -> Iterator[Path]:
    """The files of a folder and its sub-folders; hidden sub-folders (.git, .venv) are passed over."""
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(where, name) for name in names)


def _kind(path: Path) -> str | None:
    """How a file is read: text, jsonl, jsonl.gz, or None for not at all."""
    name = path.name.lower()
    for kind in ("jsonl", "jsonl.gz"):
        if name.endswith(f".{kind}"):
            return kind
    return "text" if path.suffix.lower() in TEXT_SUFFIXES else None


def _accepted() -> str:
    return f"accepted are folders, .jsonl, .jsonl.gz, {', '.join(TEXT_SUFFIXES)}"


def _texts_of_file(path: Path, *, known: bool) -> Iterator[tuple[str, str]]:
    """The texts of one file, with their names; errors name it, and the line or the byte."""
    try:
        if _kind(path) in ("text", None):
            with open_file(path, pipes=True) as handle:
                yield str(path), _decode(handle.read(LIMIT + 1), path, strict=known)
            return
        packed = path.suffix.lower() == ".gz"
        with open_file(path, pipes=True) as handle:
            lines: IO[bytes] = gzip.GzipFile(fileobj=handle) if packed else handle  # type: ignore[assignment]
            number = 0
            while line := lines.readline(LIMIT + 1):
                number += 1
                if len(line) > LIMIT:
                    raise ConservatorError(f"{path}, line {number} is longer than {LIMIT} bytes")
                if line.strip():
                    yield f"{path}, line {number}", _record(line, path, number)
    except (OSError, EOFError, zlib.error) as error:  # gzip raises all three for a damaged file
        raise ConservatorError(f"cannot read {path}: {error}") from error


def _decode(data: bytes, path: Path, *, strict: bool) -> str:
    """The text of a file, which has to be UTF-8 if ``strict``."""
    source = read_input(data, "utf-8" if strict else None, name=str(path))
    if strict and b"\0" in data:
        raise ConservatorError(f"{path} is a binary file: it holds a zero byte at {data.index(0)}")
    try:
        return source.data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConservatorError(f"{path} is not UTF-8 text: byte {error.start} is {data[error.start]:#04x}") from error


def _record(line: bytes, path: Path, number: int) -> str:
    try:
        text = json.loads(line)["text"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConservatorError(f'{path}, line {number}: expected a JSON object with a field "text"') from error
    if not isinstance(text, str):
        raise ConservatorError(f'{path}, line {number}: the field "text" is not a string')
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConservatorError(f"{path}, line {number}: the text holds a lone surrogate") from error
    return text
