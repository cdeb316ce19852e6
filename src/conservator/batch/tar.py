"""Tar archives: every regular file is a document. Nothing is extracted to disk."""

import bz2
import copy
import gzip
import hashlib
import json
import lzma
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from io import BufferedReader, BytesIO
from itertools import zip_longest
from tempfile import TemporaryFile
from typing import Any, BinaryIO, NamedTuple, cast

from conservator.batch.items import (
    CHUNK_BYTES,
    DamagedInputError,
    InputFile,
    Item,
    Lookup,
    OutputFile,
    as_damaged_input,
    content_key,
    gzip_writer,
    oversize_problem,
)
from conservator.errors import ConservatorError

SPARSE_PREFIX = "GNU.sparse."  # pax records of sparse files; a restored file is written without holes
MAX_SPARSE_BYTES = 2**28  # bytes: total size of the sparse documents of an archive, with holes [safety limit]
MAX_HEADER_BYTES = 2**20  # bytes: a pax header or a long name, which tarfile reads into memory [safety limit]
EXTENDED_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
USTAR_MAGIC = b"ustar\0"  # only headers with this magic number have a prefix field
Opener = Callable[..., Any]
# magic number of a compressed file -> function that opens it
OPENERS: dict[bytes, Opener] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}


class StrictHeader(tarfile.TarInfo):
    """A tar header with stricter checks than ``tarfile.TarInfo``.

    A damaged header is an error, not the end of the archive. The time stamps of old GNU headers are not read as a
    prefix of the name. The size of an extended header is limited.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "StrictHeader":
        """Parse one block."""
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if bytes(buf).strip(b"\0"):  # a block of zeros is the end of the archive
                raise tarfile.ReadError(f"a header is damaged or truncated: {error}") from error
            raise
        if buf[257:263] != USTAR_MAGIC and header.type not in tarfile.GNU_TYPES:
            name = bytes(buf[:100]).partition(b"\0")[0].decode(encoding, errors)
            header.name = name.rstrip("/") if header.isdir() else name
        if header.type in EXTENDED_HEADERS and header.size > MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"a header has {header.size:,} bytes; the limit is {MAX_HEADER_BYTES:,}")
        return header


class Member(NamedTuple):
    """A member of an archive that is read as a stream.

    Attributes:
        info: its header.
        content: its content; None if it is not a regular file.
        start: offset of its first header in the uncompressed archive.
        stop: offset of the end of its content, with padding.
    """

    info: tarfile.TarInfo
    content: BufferedReader | None
    start: int
    stop: int


@dataclass(frozen=True)
class TarFile(InputFile):
    """A ``.tar``, ``.tar.gz`` or ``.tgz`` file; see ``InputFile``. Only restored members change."""

    def inspect(self) -> int | None:
        """Read the archive up to the first regular file."""
        with as_damaged_input(self.path), self.path.open("rb") as source, open_archive(source) as archive:
            return None if any(member.content is not None for member in self._members(archive)) else 0

    def items(self, source: BufferedReader) -> Iterator[Item]:
        """Yield the regular files."""
        with as_damaged_input(self.path), open_archive(source) as archive:
            for member in self._members(archive):
                if member.content is not None:
                    yield self._item(member.info, member.content)
            self._check_end(archive)

    def write(self, source: BufferedReader, output: OutputFile, restored: Lookup) -> None:
        """Write the archive with restored files; then compare every member of the result with the expected one."""
        with as_damaged_input(self.path), TemporaryFile("w+", dir=output.path.parent, encoding="utf-8") as expected:
            with compressed_like(source, output) as out, decompressed(source) as original:
                copier = Copier(original, out)
                with tarfile.open(fileobj=cast(Any, copier), mode="r|", tarinfo=StrictHeader) as archive:
                    for member in self._members(archive):
                        print(self._write_member(member, copier, restored), file=expected)
                    copier.pass_up_to(sys.maxsize)
                    self._check_end(archive)
            output.flush()
            expected.seek(0)
            with output.path.open("rb") as written, open_archive(written) as archive:
                for line, member in zip_longest(expected, self._members(archive)):
                    actual = member and describe(info := member.info, info.type, info.size, self._key(member))
                    if line is None or line.rstrip("\n") != actual:
                        raise ConservatorError(
                            f"cannot write {self.path} with restored files: the member "
                            f"{json.loads(line or actual or '')[0]!r} would be damaged"
                        )
                self._check_end(archive)

    def _write_member(self, member: Member, copier: "Copier", restored: Lookup) -> str:
        """Write a member; return its description."""
        is_large = member.info.size > self.max_bytes
        if is_large:
            copier.pass_up_to(member.stop)  # before it is read, because it may not fit into memory
        key = self._key(member)
        data = None if key is None or is_large else restored(key)
        if data is None:
            copier.pass_up_to(member.stop)
            return describe(member.info, member.info.type, member.info.size, key)
        copier.pass_up_to(member.start)  # global headers, which also apply to later members
        copier.out.write(header_of(member.info, len(data)))
        copier.out.write(data + bytes(-len(data) % tarfile.BLOCKSIZE))
        copier.pass_up_to(member.stop, is_copied=False)
        return describe(member.info, tarfile.REGTYPE, len(data), content_key(data))

    def _key(self, member: Member) -> str | None:
        """Key of a regular file; None for other members."""
        return None if member.content is None else self._item(member.info, member.content).key

    def _item(self, info: tarfile.TarInfo, content: BufferedReader) -> Item:
        name = f"{self.path}!{info.name}"
        if info.size > self.max_bytes:
            # The holes of a sparse file may be larger than any disk, so they are not read.
            hashed = BytesIO(name.encode(errors="surrogateescape")) if info.issparse() else content
            key = hashlib.file_digest(hashed, "sha256").hexdigest()
            return Item(name, info.size, key, None, problem=oversize_problem(info.size, self.max_bytes))
        data = content.read()
        return Item(name, len(data), content_key(data), data)

    def _members(self, archive: tarfile.TarFile) -> Iterator[Member]:
        """Yield the members; raise an error if the archive is damaged."""
        sparse_bytes = 0
        for info in archive:
            if info.issparse() and info.size <= self.max_bytes:
                sparse_bytes += info.size
            if sparse_bytes > MAX_SPARSE_BYTES:
                raise DamagedInputError(
                    f"cannot read {self.path}: its sparse files have more than {MAX_SPARSE_BYTES:,} bytes with "
                    "their holes; extract the archive and restore the folder"
                )
            content = cast(BufferedReader, archive.extractfile(info)) if info.isfile() else None
            yield Member(info, content, info.offset, archive.offset)
            archive.members.clear()  # type: ignore[attr-defined]  # the list would grow with the archive

    def _check_end(self, archive: tarfile.TarFile) -> None:
        """Read the rest of an archive, which verifies its checksum; raise a DamagedInputError if it has data."""
        while chunk := cast(BinaryIO, archive.fileobj).read(CHUNK_BYTES):
            if chunk.count(0) < len(chunk):  # a second archive, or an overwritten header
                raise DamagedInputError(
                    f"cannot read {self.path}: data after the end of the archive; extract it and restore the folder"
                )


class Copier:
    """Reads an archive for ``tarfile``, and copies it to an output, except for skipped parts.

    Bytes that have been read are held until ``pass_up_to`` is called for their offset.
    """

    def __init__(self, original: BinaryIO, out: BinaryIO) -> None:
        """Copy from one uncompressed archive to another."""
        self.original, self.out = original, out
        self._held, self._offset = bytearray(), 0  # the offset is that of the first byte that is held
        self._stop, self._is_copied = 0, True

    def read(self, size: int) -> bytes:
        """Read bytes of the archive."""
        data = self.original.read(size)
        self._held += data
        self.pass_up_to(self._stop, is_copied=self._is_copied)
        return data

    def pass_up_to(self, stop: int, *, is_copied: bool = True) -> None:
        """Copy or skip the bytes up to an offset, including those that will be read later."""
        self._stop, self._is_copied = max(stop, self._offset), is_copied
        size = min(len(self._held), self._stop - self._offset)
        if is_copied:
            self.out.write(self._held[:size])
        del self._held[:size]
        self._offset += size


def opener_of(source: BufferedReader) -> Opener:
    """The function that opens files with the compression of an archive."""
    start = source.peek(max(map(len, OPENERS)))
    return next((opener for magic, opener in OPENERS.items() if start.startswith(magic)), open)


@contextmanager
def open_archive(source: BufferedReader) -> Iterator[tarfile.TarFile]:
    """Read an archive as a stream."""
    with (
        decompressed(source) as original,
        tarfile.open(fileobj=original, mode="r|", tarinfo=StrictHeader) as archive,
    ):
        yield archive


def decompressed(source: BufferedReader) -> AbstractContextManager[BinaryIO]:
    """Read the uncompressed content of an archive."""
    opener = opener_of(source)
    return nullcontext(source) if opener is open else cast(BinaryIO, opener(source, "rb"))


def compressed_like(source: BufferedReader, output: OutputFile) -> AbstractContextManager[BinaryIO]:
    """Wrap an output so that its content is compressed like an archive."""
    opener = opener_of(source)
    if opener in (open, gzip.open):
        return gzip_writer(cast(BinaryIO, output), compress=opener is gzip.open)
    return cast(BinaryIO, opener(output, "wb"))


def describe(info: tarfile.TarInfo, kind: bytes, size: int, key: str | None) -> str:
    """Describe a member on one line, for a comparison."""
    return json.dumps([info.name, info.linkname, kind.decode("latin-1"), size, key])


def header_of(member: tarfile.TarInfo, size: int) -> bytes:
    """Build the header of a member as a regular file of another size."""
    info = copy.copy(member)
    info.type, info.size = tarfile.REGTYPE, size
    info.pax_headers = {
        name: value
        for name, value in member.pax_headers.items()
        if name not in ("size", "path") and not name.startswith(SPARSE_PREFIX)
    }
    return info.tobuf(tarfile.PAX_FORMAT, tarfile.ENCODING, "surrogateescape")
