"""A text file: one document."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from conservator.batch.items import CHUNK_BYTES, InputFile, Item, Lookup, content_key, hash_file, oversize_problem


@dataclass(frozen=True)
class TextFile(InputFile):
    """A file that is one document; see ``InputFile``."""

    def count(self) -> int:
        """Return 1."""
        return 1

    def items(self) -> Iterator[Item]:
        """Yield the document."""
        size = self.path.stat().st_size
        if size <= self.max_bytes:
            with self.path.open("rb") as handle:
                data = handle.read(self.max_bytes + 1)
            if len(data) <= self.max_bytes:
                yield Item(str(self.path), len(data), content_key(data), data)
                return
            size = self.path.stat().st_size
        yield Item(str(self.path), size, hash_file(self.path), None, problem=oversize_problem(size, self.max_bytes))

    def write(self, handle: BinaryIO, restored: Lookup) -> None:
        """Write the restored document, or the original."""
        (item,) = self.items()
        data = restored(item.key)
        if data is not None:
            handle.write(data)
        elif item.data is not None:
            handle.write(item.data)
        else:
            with self.path.open("rb") as original:
                shutil.copyfileobj(original, handle, CHUNK_BYTES)
