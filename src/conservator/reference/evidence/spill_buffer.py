"""A store of predictions that are used repeatedly: in memory, or in a temporary file if they are too large."""

import tempfile
import weakref
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.experts import Predictions

IN_MEMORY = 2**26  # bytes that are kept in memory
LARGEST = 2**35  # bytes that are kept at most, in memory and in the file


class Store:
    """Parts of predictions, in the order in which they were added."""

    def __init__(self) -> None:
        """Make an empty store."""
        self.size = 0
        self._parts: list[tuple[Tensor, Tensor | None, tuple[int, ...]]] = []
        self._file: IO[Any] | None = None

    def add(self, found: Predictions) -> None:
        """Keep the predictions of a single sequence."""
        rows = found.log_probs
        self.size += rows.numel() * rows.element_size()
        if self.size > LARGEST:
            raise ConservatorError(f"the predictions take more than {LARGEST} bytes; take fewer positions at a time")
        if self.size <= IN_MEMORY:
            self._parts.append((found.position, rows.clone(), tuple(rows.shape)))
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 (it is closed when the store is deleted)
            weakref.finalize(self, self._file.close)
        self._parts.append((found.position, None, tuple(rows.shape)))
        rows.contiguous().numpy().tofile(self._file)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The positions (n,) and log-probabilities (m, n, V) of each part."""
        if self._file is not None:
            self._file.seek(0)
        for position, rows, shape in self._parts:
            if rows is None:
                data = np.fromfile(self._file, dtype=np.float32, count=int(np.prod(shape)))  # type: ignore[arg-type]
                rows = torch.from_numpy(data).reshape(shape)
            yield position, rows
