"""A buffer of predictions that are used repeatedly: in memory, and in a temporary file beyond a limit."""

import tempfile
import weakref
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.experts import Predictions

MAX_MEMORY_BYTES = 2**26  # bytes: predictions in memory [safety limit]
MAX_TOTAL_BYTES = 2**35  # bytes: predictions in memory and in the file [safety limit]


class SpillBuffer:
    """Batches of predictions, in the order in which they were added."""

    def __init__(self) -> None:
        """Make an empty buffer."""
        self.size = 0
        self._parts: list[tuple[Tensor, Tensor | None, tuple[int, ...]]] = []
        self._file: IO[Any] | None = None

    def add(self, predictions: Predictions) -> None:
        """Add predictions of a single sequence."""
        rows = predictions.log_probs
        self.size += rows.numel() * rows.element_size()
        if self.size > MAX_TOTAL_BYTES:
            raise ConservatorError(f"predictions may take at most {MAX_TOTAL_BYTES} bytes; use shorter sequences")
        if self.size <= MAX_MEMORY_BYTES:
            self._parts.append((predictions.position, rows.clone(), tuple(rows.shape)))
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 (it is closed when the buffer is deleted)
            weakref.finalize(self, self._file.close)
        self._parts.append((predictions.position, None, tuple(rows.shape)))
        rows.contiguous().numpy().tofile(self._file)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the positions (n,) and log-probabilities (m, n, V) of each batch."""
        if self._file is not None:
            self._file.seek(0)
        for position, rows, shape in self._parts:
            if rows is None:
                data = np.fromfile(self._file, dtype=np.float32, count=int(np.prod(shape)))  # type: ignore[arg-type]
                rows = torch.from_numpy(data).reshape(shape)
            yield position, rows
