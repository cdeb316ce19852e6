"""A text file: one document."""

import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader

from conservator.batch.items import CHUNK_BYTES, InputFile, Item, Lookup, OutputFile, content_key, oversize_problem


@dataclass(frozen=True)
class TextFile(InputFile):
    """A file that is one document; see ``InputFile``."""

    def inspect(self) -> int:
        """Return 1."""
        return 1

    def items(self, source: BufferedReader) -> Iterator[Item]:
        """Yield the document."""
        data = source.read(self.max_bytes + 1)
        if len(data) <= self.max_bytes:
            yield Item(str(self.path), len(data), content_key(data), data)
            return
        size, key = self.path.stat().st_size, hashlib.file_digest(source, lambda: hashlib.sha256(data)).hexdigest()
        yield Item(str(self.path), size, key, None, problem=oversize_problem(size, self.max_bytes))

    def write(self, source: BufferedReader, output: OutputFile, restored: Lookup) -> None:
        """Write the restored document, or the original."""
        data = source.read(self.max_bytes + 1)
        result = restored(content_key(data)) if len(data) <= self.max_bytes else None
        output.write(data if result is None else result)
        shutil.copyfileobj(source, output, CHUNK_BYTES)
