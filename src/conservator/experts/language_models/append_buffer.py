"""Tensors that rows are appended to in amortised constant time."""

import torch
from torch import Tensor


class AppendBuffer:
    """Rows that are appended along one dimension. The capacity grows by half when it is exceeded."""

    def __init__(self, dim: int) -> None:
        """Create an empty buffer; ``dim`` is the dimension of the rows."""
        self.dim, self.length = dim, 0
        self._buffer: Tensor | None = None

    def append(self, rows: Tensor) -> None:
        """Append rows of the same shape in all other dimensions."""
        added = rows.shape[self.dim]
        if self._buffer is None or self.length + added > self._buffer.shape[self.dim]:
            shape = list(rows.shape)
            shape[self.dim] = max(self.length * 3 // 2, self.length + added)
            buffer = rows.new_empty(shape)
            if self._buffer is not None:
                buffer.narrow(self.dim, 0, self.length).copy_(self.rows)
            self._buffer = buffer
        self._buffer.narrow(self.dim, self.length, added).copy_(rows)
        self.length += added

    @property
    def rows(self) -> Tensor:
        """All rows, as a view."""
        assert self._buffer is not None
        return self._buffer.narrow(self.dim, 0, self.length)

    def at(self, indices: Tensor) -> Tensor:
        """Select rows by ascending indices: a copy, or a view if all rows are selected."""
        return self.rows if len(indices) == self.length else torch.index_select(self.rows, self.dim, indices)
