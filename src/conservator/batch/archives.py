"""Tar archives: every regular file in one is a document. Nothing is ever extracted to a file."""

import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import BinaryIO, cast

from conservator.batch.items import Holder, Item, Lookup, hash_handle, key_of, packing, too_large
from conservator.errors import ConservatorError

SPARSE = "GNU.sparse."  # headers of files with holes, which are written without them


@dataclass(frozen=True)
class Archive(Holder):
    """A ``.tar``, ``.tar.gz`` or ``.tgz`` file; see ``Holder``. Links, folders and their like are kept as they are."""

    def count(self) -> int:
        """Its regular files."""
        return sum(member.isfile() for member, _ in self._members())

    def items(self) -> Iterator[Item]:
        """Its regular files."""
        for member, opened in self._members():
            if opened is not None:
                yield self._item(member, opened)[0]

    def write(self, handle: BinaryIO, restored: Lookup) -> None:
        """The archive with restored files."""
        packed = self.path.name.lower().endswith("gz")
        with (
            packing(handle, packed=packed) as out,
            tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as archive,
        ):
            for member, opened in self._members():
                _write_member(
                    archive, member, opened, None if opened is None else self._replaced(member, opened, restored)
                )

    def _replaced(self, member: tarfile.TarInfo, opened: BinaryIO, restored: Lookup) -> bytes | None:
        """The new content of a member: restored, or as it was; None if it is too large to be held."""
        if member.size > self.largest:
            return None
        item, data = self._item(member, opened)
        found = restored(item.key)
        return data if found is None else found

    def _item(self, member: tarfile.TarInfo, opened: BinaryIO) -> tuple[Item, bytes]:
        name = f"{self.path}!{member.name}"
        if member.size > self.largest:
            return Item(name, member.size, hash_handle(opened), None, problem=too_large(member.size, self.largest)), b""
        data = opened.read()
        return Item(name, len(data), key_of(data), data), data

    def _members(self) -> Iterator[tuple[tarfile.TarInfo, BinaryIO | None]]:
        """The members as they are streamed, each with its content if it is a regular file."""
        try:
            with tarfile.open(self.path, "r|*") as archive:
                for member in archive:
                    yield member, cast(BinaryIO, archive.extractfile(member)) if member.isfile() else None
                    archive.members.clear()  # type: ignore[attr-defined]  # a stream needs no list of what it has passed
        except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
            raise ConservatorError(f"cannot read {self.path}: {error}") from error


def _write_member(
    archive: tarfile.TarFile, member: tarfile.TarInfo, opened: BinaryIO | None, data: bytes | None
) -> None:
    """Write a member with its content, which may have changed its size."""
    member.pax_headers = {
        name: value for name, value in member.pax_headers.items() if name != "size" and not name.startswith(SPARSE)
    }
    if opened is None:
        archive.addfile(member)
    elif data is None:
        member.type = tarfile.REGTYPE
        archive.addfile(member, opened)
    else:
        member.type, member.size = tarfile.REGTYPE, len(data)
        archive.addfile(member, BytesIO(data))
