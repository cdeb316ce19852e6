"""Read documents from files, for training and evaluation."""

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
MAX_BYTES = 4 * 2**30  # bytes: decompressed size of a corpus [safety limit]


@dataclass(frozen=True)
class Corpus:
    """Documents of a corpus.

    Attributes:
        documents: the texts in UTF-8.
        left_out: number of documents that were excluded: blank, rejected by the filter, or duplicates.
        fingerprint: SHA-256 hash of the documents.
    """

    documents: tuple[bytes, ...]
    left_out: int
    fingerprint: str

    @property
    def size(self) -> int:
        """Total size in bytes."""
        return sum(map(len, self.documents))


def read_corpus(paths: Sequence[Path], strip: Mapping[Path, Filter] | None = None) -> Corpus:
    """Read the documents of text files, folders, and ``.jsonl`` and ``.jsonl.gz`` files with a ``text`` field.

    In a folder, empty files and files without a text suffix are skipped; as an argument, such a file is an error. A
    file that is not UTF-8 is always an error. Texts from a path in ``strip`` are filtered; a text is excluded if the
    filter returns None.
    """
    documents: list[bytes] = []
    left_out = total = 0
    digest, hashes = hashlib.sha256(), set()
    for source, text in ((path, text) for path in paths for _, text in read_texts(path, strict=True)):
        filtered = strip[source](text) if strip and source in strip else text
        if not filtered or not filtered.strip():
            left_out += 1
            continue
        document = filtered.encode()
        document_hash = hashlib.sha256(document).digest()
        if document_hash in hashes:  # a duplicate could be in the training data and held out
            left_out += 1
            continue
        hashes.add(document_hash)
        total += len(document)
        if total > MAX_BYTES:
            raise ConservatorError(
                f"the corpus {', '.join(map(str, paths))} has more than {MAX_BYTES} bytes of text; use fewer files"
            )
        digest.update(len(document).to_bytes(8, "big") + document)
        documents.append(document)
    if not documents:
        reason = f" ({left_out} documents were blank, or rejected by the filter)" if left_out else ""
        raise ConservatorError(f"no text in {', '.join(map(str, paths))}{reason}")
    return Corpus(tuple(documents), left_out, digest.hexdigest())


def hold_out(corpus: Corpus, seed: int, fraction: float = 0.05) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Split a corpus into training documents and held-out documents with about ``fraction`` of the bytes.

    If no set of complete documents has about this size, the end of the longest document is held out.
    """
    documents = corpus.documents
    order = torch.randperm(len(documents), generator=torch.Generator().manual_seed(seed)).tolist()
    held: set[int] = set()
    held_bytes, target_bytes = 0, fraction * corpus.size
    for index in order:
        if held_bytes < target_bytes and held_bytes + len(documents[index]) <= 2 * target_bytes:
            held.add(index)
            held_bytes += len(documents[index])
    if held_bytes >= target_bytes / 2:
        training = tuple(text for index, text in enumerate(documents) if index not in held)
        return training, tuple(documents[index] for index in sorted(held))
    longest = max(range(len(documents)), key=lambda index: len(documents[index]))
    split = len(documents[longest]) - max(1, round(target_bytes))
    training = (*documents[:longest], documents[longest][:split], *documents[longest + 1 :])
    return training, (documents[longest][split:],)


def as_stream(documents: Sequence[bytes], vocabulary: Vocabulary = BYTES) -> Tensor:
    """Concatenate documents with newlines, as tokens (N,)."""
    if not isinstance(vocabulary, Tokens):
        return torch.frombuffer(bytearray(b"\n".join(documents)), dtype=torch.uint8)
    separator = torch.tensor(tokenize_text(b"\n", vocabulary), dtype=torch.int32)
    parts = [torch.tensor(tokenize_text(document, vocabulary), dtype=torch.int32) for document in documents]
    return torch.cat([part for pair in zip(parts, [separator] * len(parts), strict=True) for part in pair][:-1])


def tokenize_text(text: bytes, vocabulary: Vocabulary) -> list[int]:
    """Tokenize a text; without a byte vocabulary, incomplete characters at the ends are dropped."""
    if not isinstance(vocabulary, Tokens):
        return list(text)
    return vocabulary.tokenize(text.decode(errors="ignore"))


def draw_blocks(stream: Tensor, count: int, length: int, seed: int) -> Tensor:
    """Draw at most ``count`` disjoint blocks of ``length`` tokens, in random order: (count * length,)."""
    blocks = stream[: len(stream) // length * length].view(-1, length)
    return blocks[torch.randperm(len(blocks), generator=torch.Generator().manual_seed(seed))[:count]].flatten()


def draw_windows(
    stream: Tensor, count: int, length: int, generator: torch.Generator, *, aligned: bool = False
) -> Tensor:
    """Draw windows (count, length) of the stream with replacement; ``aligned`` ones start at multiples of length."""
    if aligned:
        starts = length * torch.randint(len(stream) // length, (count, 1), generator=generator)
    else:
        starts = torch.randint(len(stream) - length + 1, (count, 1), generator=generator)
    return stream[starts + torch.arange(length)].long()


def read_texts(path: Path, exclude: Path | None = None, *, strict: bool = False) -> Iterator[tuple[str, str]]:
    """Read the texts of a file or folder, as in ``read_corpus``; yield pairs (name, text).

    Args:
        path: the file or folder.
        exclude: a file to skip.
        strict: whether a file must have a text suffix and be UTF-8; else any suffix is accepted, and the encoding is
            detected.
    """
    try:
        path.stat()
    except FileNotFoundError:
        pass  # reported below with a hint
    except OSError as error:  # a name that is too long, or missing permissions
        raise ConservatorError(f"cannot read {path}: {error.strerror}") from error
    if path.is_dir():
        files = sorted(file for file in _walk(path) if _kind(file) is not None and file.is_file())
        if not files:
            raise ConservatorError(f"the folder {path} contains no text files; {_accepted()}")
        for file in files:
            if file.stat().st_size and not _same(file, exclude):
                yield from _texts_of_file(file, strict=strict)
        return
    if not path.exists():
        hint = "; standard input is not read here" if str(path) == "-" else ""
        raise ConservatorError(f"the file or folder {path} does not exist{hint}")
    if strict and _kind(path) is None:
        raise ConservatorError(f"{path}: the suffix {path.suffix!r} is not supported; {_accepted()}")
    if path.is_file() and not path.stat().st_size:
        raise ConservatorError(f"{path} is empty")
    if not _same(path, exclude):
        yield from _texts_of_file(path, strict=strict)


def _same(file: Path, other: Path | None) -> bool:
    """Return whether two paths refer to the same existing file."""
    return other is not None and file.samefile(other)


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and its sub-folders, without hidden sub-folders (.git, .venv)."""
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(parent, name) for name in names)


def _kind(path: Path) -> str | None:
    """Return the format of a file: text, jsonl, jsonl.gz, or None if unsupported."""
    name = path.name.lower()
    for kind in ("jsonl", "jsonl.gz"):
        if name.endswith(f".{kind}"):
            return kind
    return "text" if path.suffix.lower() in TEXT_SUFFIXES else None


def _accepted() -> str:
    return f"accepted: folders, .jsonl, .jsonl.gz, {', '.join(TEXT_SUFFIXES)}"


def _texts_of_file(path: Path, *, strict: bool) -> Iterator[tuple[str, str]]:
    """Yield the texts of one file with their names; errors contain the file and the line or byte."""
    try:
        if _kind(path) in ("text", None):
            with open_file(path, pipes=True) as handle:
                yield str(path), _decode(handle.read(MAX_BYTES + 1), path, strict=strict)
            return
        compressed = path.suffix.lower() == ".gz"
        with open_file(path, pipes=True) as handle:
            lines: IO[bytes] = gzip.GzipFile(fileobj=handle) if compressed else handle  # type: ignore[assignment]
            number = 0
            while line := lines.readline(MAX_BYTES + 1):
                number += 1
                if len(line) > MAX_BYTES:
                    raise ConservatorError(f"{path}: line {number} has more than {MAX_BYTES} bytes")
                if line.strip():
                    yield f"{path}, line {number}", _record(line, path, number)
    except (OSError, EOFError, zlib.error) as error:  # gzip raises all three for a damaged file
        raise ConservatorError(f"cannot read {path}: {error}") from error


def _decode(data: bytes, path: Path, *, strict: bool) -> str:
    """Decode the text of a file, which must be UTF-8 if ``strict``."""
    source = read_input(data, "utf-8" if strict else None, name=str(path))
    if strict and b"\0" in data:
        raise ConservatorError(f"{path} is a binary file: byte {data.index(0)} is zero")
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
        raise ConservatorError(f'{path}, line {number}: the field "text" must be a string')
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConservatorError(f"{path}, line {number}: the text contains a lone surrogate") from error
    return text
