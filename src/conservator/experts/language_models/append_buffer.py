"""Tensors that grow by rows, without being copied each time."""

import torch
from torch import Tensor


class AppendBuffer:
    """Rows that are appended along one dimension; when the room for them is full, half as much is added."""

    def __init__(self, dim: int) -> None:
        """Nothing yet; ``dim`` is the dimension that grows."""
        self.dim, self.length = dim, 0
        self._room: Tensor | None = None

    def append(self, rows: Tensor) -> None:
        """Append rows, which agree in every other dimension."""
        added = rows.shape[self.dim]
        if self._room is None or self.length + added > self._room.shape[self.dim]:
            shape = list(rows.shape)
            shape[self.dim] = max(self.length * 3 // 2, self.length + added)
            room = rows.new_empty(shape)
            if self._room is not None:
                room.narrow(self.dim, 0, self.length).copy_(self.rows)
            self._room = room
        self._room.narrow(self.dim, self.length, added).copy_(rows)
        self.length += added

    @property
    def rows(self) -> Tensor:
        """All rows, as a view."""
        assert self._room is not None
        return self._room.narrow(self.dim, 0, self.length)

    def at(self, places: Tensor) -> Tensor:
        """A copy of some rows, or all of them as a view if every one is wanted, in order."""
        return self.rows if len(places) == self.length else torch.index_select(self.rows, self.dim, places)
