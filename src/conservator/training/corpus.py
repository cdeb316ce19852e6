"""Corpora for training and evaluation."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from conservator.documents.texts import MAX_TEXT_BYTES, read_texts
from conservator.errors import ConservatorError
from conservator.training.strip import Filter
from conservator.vocabularies import BYTES, Tokens, Vocabulary


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
        if total > MAX_TEXT_BYTES:
            raise ConservatorError(
                f"the corpus {', '.join(map(str, paths))} has more than {MAX_TEXT_BYTES} bytes of text; use fewer files"
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
