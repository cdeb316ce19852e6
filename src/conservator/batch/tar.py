"""Tar archives: every regular file is a document. Nothing is extracted to disk."""

import bz2
import copy
import gzip
import lzma
import tarfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from conservator.batch.items import (
    CHUNK_BYTES,
    DamagedInputError,
    InputFile,
    Item,
    Lookup,
    as_damaged_input,
    content_key,
    gzip_writer,
    hash_handle,
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
    content: BinaryIO | None
    start: int
    stop: int


@dataclass(frozen=True)
class TarFile(InputFile):
    """A ``.tar``, ``.tar.gz`` or ``.tgz`` file; see ``InputFile``. Only restored members change."""

    def count(self) -> int:
        """Count the regular files."""
        return sum(member.info.isfile() for member in self._members())

    def items(self) -> Iterator[Item]:
        """Yield the regular files."""
        with as_damaged_input(self.path):
            for member in self._members():
                if member.content is not None:
                    yield self._item(member.info, member.content)

    def write(self, handle: BinaryIO, restored: Lookup) -> None:
        """Write the archive with restored files."""
        with as_damaged_input(self.path), self._open() as original, self._open_output(handle) as out:
            for member in self._members():
                data = self._restored(member, restored)
                if data is None:
                    copy_up_to(member.stop, original, out)
                    continue
                copy_up_to(member.start, original, out)  # global headers, which also apply to later members
                copy_up_to(member.stop, original, None)
                out.write(header_of(member.info, len(data)))
                out.write(data + bytes(-len(data) % tarfile.BLOCKSIZE))
            while rest := original.read(CHUNK_BYTES):
                out.write(rest)

    def check(self, written: Path, restored: Lookup) -> None:
        """Compare every member of a written archive with the expected one."""
        output = replace(self, path=written)
        with as_damaged_input(self.path):
            for old, new in zip_longest(self._members(), output._members()):
                if old is None or new is None or not self._is_same(old, new, restored):
                    name = (old or new).info.name
                    raise ConservatorError(
                        f"cannot write {self.path} with restored files: the member {name!r} would be damaged"
                    )

    def _is_same(self, old: Member, new: Member, restored: Lookup) -> bool:
        """Whether a written member equals the input member or its restored version."""
        before, after = old.info, new.info
        if (before.name, before.linkname) != (after.name, after.linkname):
            return False
        data = self._restored(old, restored)
        if data is not None and new.content is not None:
            return after.type == tarfile.REGTYPE and new.content.read() == data
        return (before.type, before.size) == (after.type, after.size)

    def _restored(self, member: Member, restored: Lookup) -> bytes | None:
        """The restored content of a member; None if it is unchanged."""
        if member.content is None or member.info.size > self.max_bytes:
            return None
        return restored(self._item(member.info, member.content).key)

    def _item(self, info: tarfile.TarInfo, content: BinaryIO) -> Item:
        name = f"{self.path}!{info.name}"
        if info.size > self.max_bytes:
            # The holes of a sparse file may be larger than any disk, so they are not read.
            key = content_key(name.encode(errors="surrogateescape")) if info.issparse() else hash_handle(content)
            return Item(name, info.size, key, None, problem=oversize_problem(info.size, self.max_bytes))
        data = content.read()
        return Item(name, len(data), content_key(data), data)

    def _members(self) -> Iterator[Member]:
        """Yield the members; raise a DamagedInputError if the archive is incomplete."""
        sparse_bytes = 0
        with self._open() as handle, tarfile.open(fileobj=handle, mode="r|", tarinfo=StrictHeader) as archive:
            for info in archive:
                if info.issparse() and info.size <= self.max_bytes:
                    sparse_bytes += info.size
                if sparse_bytes > MAX_SPARSE_BYTES:
                    raise DamagedInputError(
                        f"cannot read {self.path}: its sparse files have more than {MAX_SPARSE_BYTES:,} bytes with "
                        "their holes; extract the archive and restore the folder"
                    )
                content = cast(BinaryIO, archive.extractfile(info)) if info.isfile() else None
                yield Member(info, content, info.offset, archive.offset)
                archive.members.clear()  # type: ignore[attr-defined]  # the list would grow with the archive
            while chunk := cast(BinaryIO, archive.fileobj).read(CHUNK_BYTES):  # verifies the checksum
                if chunk.count(0) < len(chunk):  # a second archive, or an overwritten header
                    raise DamagedInputError(
                        f"cannot read {self.path}: data after the end of the archive; extract it and restore the folder"
                    )

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        """Open the archive for reading, uncompressed."""
        with as_damaged_input(self.path), self._opener()(self.path, "rb") as handle:
            yield handle

    def _open_output(self, handle: BinaryIO) -> AbstractContextManager[BinaryIO]:
        """Wrap a file so that its content is compressed like this archive."""
        opener = self._opener()
        if opener in (open, gzip.open):
            return gzip_writer(handle, compress=opener is gzip.open)
        return cast(BinaryIO, opener(handle, "wb"))

    def _opener(self) -> Opener:
        """The function that opens files with the compression of this archive."""
        with as_damaged_input(self.path), self.path.open("rb") as handle:
            start = handle.read(max(map(len, OPENERS)))
        return next((opener for magic, opener in OPENERS.items() if start.startswith(magic)), open)


def copy_up_to(stop: int, original: BinaryIO, out: BinaryIO | None) -> None:
    """Copy bytes of an archive up to an offset, or skip them if ``out`` is None; raise a ReadError at its end."""
    while remaining := stop - original.tell():
        if remaining < 0:
            raise tarfile.ReadError("members overlap")
        chunk = original.read(min(CHUNK_BYTES, remaining))
        if not chunk:
            raise tarfile.ReadError("unexpected end of data")
        if out is not None:
            out.write(chunk)


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
