"""A text file: one document."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from conservator.batch.items import CHUNK, InputFile, Item, Lookup, hash_file, key_of, too_large


@dataclass(frozen=True)
class TextFile(InputFile):
    """A file that is one document; see ``InputFile``."""

    def count(self) -> int:
        """One."""
        return 1

    def items(self) -> Iterator[Item]:
        """The document."""
        size = self.path.stat().st_size
        if size <= self.largest:
            with self.path.open("rb") as handle:
                data = handle.read(self.largest + 1)
            if len(data) <= self.largest:
                yield Item(str(self.path), len(data), key_of(data), data)
                return
            size = self.path.stat().st_size
        yield Item(str(self.path), size, hash_file(self.path), None, problem=too_large(size, self.largest))

    def write(self, handle: BinaryIO, restored: Lookup) -> None:
        """The restored document, or the original."""
        (item,) = self.items()
        data = restored(item.key)
        if data is not None:
            handle.write(data)
        elif item.data is not None:
            handle.write(item.data)
        else:
            with self.path.open("rb") as original:
                shutil.copyfileobj(original, handle, CHUNK)
