"""Key-value cache of a token tree, and attention over a subset of its nodes."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.cache_utils import Cache, DynamicLayer

ATTENTION = "conservator_tree"


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


class AttendedNodes:
    """State of the next step, shared by the layers of a cache.

    Attributes:
        nodes: (m,) int64, the nodes that the step attends to, including its new nodes.
    """

    nodes: Tensor


class TreeCache(Cache):  # type: ignore[misc]
    """Keys and values of all layers. A step attends only to the selected nodes, so dead branches cost nothing.

    Layers hold no reference to their cache, so it is freed as soon as it is not used any more.
    """

    def __init__(self, layers: int) -> None:
        """Create an empty cache with ``layers`` layers."""
        self.attended = AttendedNodes()
        super().__init__(layers=[TreeLayer(self.attended) for _ in range(layers)])


class TreeLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one layer."""

    def __init__(self, attended: AttendedNodes) -> None:
        """Create an empty layer; ``attended`` is shared with the cache."""
        super().__init__()
        self._attended, self._keys, self._values = attended, AppendBuffer(dim=2), AppendBuffer(dim=2)

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Add keys and values (1, heads, k, size) of k new nodes; return those of the attended nodes."""
        self._keys.append(key_states)
        self._values.append(value_states)
        return self._keys.at(self._attended.nodes), self._values.at(self._attended.nodes)

    def get_seq_length(self) -> int:
        """Return the number of nodes."""
        return self._keys.length


def tree_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Grouped-query attention without copies of keys: heads that share keys become rows of one head.

    Args:
        module: attention module of the layer.
        query: (1, H, k, size).
        key: (1, H / g, m, size).
        value: (1, H / g, m, size).
        attention_mask: (1, 1, g * k, m), additive.
        scaling: factor of the dot products; None for 1 / sqrt(size).
        kwargs: arguments of other attention implementations, ignored.

    Returns:
        The output (1, k, H, size), and None for the attention weights.
    """
    _, heads, length, size = query.shape
    shared = query.reshape(1, key.shape[1], -1, size)
    output = scaled_dot_product_attention(shared, key, value, attn_mask=attention_mask, scale=scaling)
    return output.reshape(1, heads, length, size).transpose(1, 2).contiguous(), None


AttentionInterface.register(ATTENTION, tree_attention)
