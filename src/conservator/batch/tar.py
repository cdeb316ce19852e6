"""Tar archives: every regular file in one is a document. Nothing is ever extracted to a file."""

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
    CHUNK,
    DamagedInputError,
    InputFile,
    Item,
    Lookup,
    hash_handle,
    key_of,
    packing,
    reading,
    too_large,
)
from conservator.errors import ConservatorError

SPARSE = "GNU.sparse."  # pax records of sparse files; a restored file is written without holes
LARGEST_SPARSE = 2**28  # bytes that the sparse documents of one archive may have in all
LARGEST_HEADER = 2**20  # bytes of a pax header or a long name, which tarfile reads into memory
HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
USTAR = b"ustar\0"  # the only magic number whose headers have a prefix of the name
Opener = Callable[..., Any]
COMPRESSED: dict[bytes, Opener] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}  # by first bytes


class Header(tarfile.TarInfo):
    """A header that is read more strictly than ``tarfile`` does.

    A damaged header is an error, not the end of the archive. The time stamps in old GNU headers are not a prefix of the
    name. The size of a header is limited.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "Header":
        """Read one block."""
        try:
            found = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if bytes(buf).strip(b"\0"):  # else it is the end of the archive
                raise tarfile.ReadError(f"a header is damaged or cut off: {error}") from error
            raise
        if buf[257:263] != USTAR and found.type not in tarfile.GNU_TYPES:
            name = bytes(buf[:100]).partition(b"\0")[0].decode(encoding, errors)
            found.name = name.rstrip("/") if found.isdir() else name
        if found.type in HEADERS and found.size > LARGEST_HEADER:
            raise tarfile.ReadError(f"a header has {found.size:,} bytes; at most {LARGEST_HEADER:,} are read")
        return found


class Member(NamedTuple):
    """A member of an archive as it is streamed.

    Attributes:
        info: its header.
        opened: its content if it is a regular file.
        start: where its first header begins, in the uncompressed archive.
        stop: where its content ends, with padding.
    """

    info: tarfile.TarInfo
    opened: BinaryIO | None
    start: int
    stop: int


@dataclass(frozen=True)
class Archive(InputFile):
    """A ``.tar``, ``.tar.gz`` or ``.tgz`` file; see ``InputFile``. All but restored files is copied byte for byte."""

    def count(self) -> int:
        """Its regular files."""
        return sum(member.info.isfile() for member in self._members())

    def items(self) -> Iterator[Item]:
        """Its regular files."""
        with reading(self.path):
            for member in self._members():
                if member.opened is not None:
                    yield self._item(member.info, member.opened)

    def write(self, handle: BinaryIO, restored: Lookup) -> None:
        """The archive with restored files."""
        with reading(self.path), self._unpacked() as original, self._packed(handle) as out:
            for member in self._members():
                data = self._restored(member, restored)
                if data is None:
                    copy_up_to(member.stop, original, out)
                    continue
                copy_up_to(member.start, original, out)  # global headers, which hold for later members, too
                copy_up_to(member.stop, original, None)
                out.write(header_of(member.info, len(data)))
                out.write(data + bytes(-len(data) % tarfile.BLOCKSIZE))
            while rest := original.read(CHUNK):
                out.write(rest)

    def check(self, written: Path, restored: Lookup) -> None:
        """Compare every member of a written archive with what it should be."""
        made = replace(self, path=written)
        with reading(self.path):
            for old, new in zip_longest(self._members(), made._members()):
                if old is None or new is None or not self._is_same(old, new, restored):
                    name = (old or new).info.name
                    raise ConservatorError(f"cannot write {self.path} with restored files: {name!r} would be changed")

    def _is_same(self, old: Member, new: Member, restored: Lookup) -> bool:
        """Whether a written member is the one of the input, or its restoration."""
        before, after = old.info, new.info
        if (before.name, before.linkname) != (after.name, after.linkname):
            return False
        data = self._restored(old, restored)
        if data is not None and new.opened is not None:
            return after.type == tarfile.REGTYPE and new.opened.read() == data
        return (before.type, before.size) == (after.type, after.size)

    def _restored(self, member: Member, restored: Lookup) -> bytes | None:
        """The new content of a member; None if it stays as it was."""
        if member.opened is None or member.info.size > self.largest:
            return None
        return restored(self._item(member.info, member.opened).key)

    def _item(self, info: tarfile.TarInfo, opened: BinaryIO) -> Item:
        name = f"{self.path}!{info.name}"
        if info.size > self.largest:
            # The holes of a sparse file can be larger than any disk: they are not read.
            key = key_of(name.encode(errors="surrogateescape")) if info.issparse() else hash_handle(opened)
            return Item(name, info.size, key, None, problem=too_large(info.size, self.largest))
        data = opened.read()
        return Item(name, len(data), key_of(data), data)

    def _members(self) -> Iterator[Member]:
        """The members as they are streamed; raise a DamagedInputError if the archive is not whole."""
        sparse = 0
        with self._unpacked() as handle, tarfile.open(fileobj=handle, mode="r|", tarinfo=Header) as archive:
            for info in archive:
                if info.issparse() and info.size <= self.largest:
                    sparse += info.size
                if sparse > LARGEST_SPARSE:
                    raise DamagedInputError(
                        f"cannot read {self.path}: its sparse files have more than {LARGEST_SPARSE:,} bytes with their "
                        "holes; extract the archive and restore the folder"
                    )
                content = cast(BinaryIO, archive.extractfile(info)) if info.isfile() else None
                yield Member(info, content, info.offset, archive.offset)
                archive.members.clear()  # type: ignore[attr-defined]  # a stream needs no list of what it has passed
            while chunk := cast(BinaryIO, archive.fileobj).read(CHUNK):  # to the checksum at the end of compressed data
                if chunk.count(0) < len(chunk):  # another archive, or a header was overwritten with zeros
                    raise DamagedInputError(
                        f"cannot read {self.path}: data follows its end; extract it and restore the folder"
                    )

    @contextmanager
    def _unpacked(self) -> Iterator[BinaryIO]:
        """The uncompressed archive."""
        with reading(self.path), self._opener()(self.path, "rb") as handle:
            yield handle

    def _packed(self, handle: BinaryIO) -> AbstractContextManager[BinaryIO]:
        """Where to write, so that it is compressed as this archive is."""
        opener = self._opener()
        if opener in (open, gzip.open):
            return packing(handle, packed=opener is gzip.open)
        return cast(BinaryIO, opener(handle, "wb"))

    def _opener(self) -> Opener:
        """What opens an archive that is compressed as this one is."""
        with reading(self.path), self.path.open("rb") as handle:
            first = handle.read(max(map(len, COMPRESSED)))
        return next((one for magic, one in COMPRESSED.items() if first.startswith(magic)), open)


def copy_up_to(stop: int, original: BinaryIO, out: BinaryIO | None) -> None:
    """Copy bytes of an archive up to a place in it, or skip them; raise a ReadError if it ends before."""
    while left := stop - original.tell():
        if left < 0:
            raise tarfile.ReadError("its members overlap")
        chunk = original.read(min(CHUNK, left))
        if not chunk:
            raise tarfile.ReadError("unexpected end of data")
        if out is not None:
            out.write(chunk)


def header_of(member: tarfile.TarInfo, size: int) -> bytes:
    """The header of a regular file with another size."""
    info = copy.copy(member)
    info.type, info.size = tarfile.REGTYPE, size
    info.pax_headers = {
        name: value
        for name, value in member.pax_headers.items()
        if name not in ("size", "path") and not name.startswith(SPARSE)
    }
    return info.tobuf(tarfile.PAX_FORMAT, tarfile.ENCODING, "surrogateescape")
