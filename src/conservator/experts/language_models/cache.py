"""The keys and values of a tree of tokens, and attention over those of its nodes that matter."""

from typing import Any

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.cache_utils import Cache, DynamicLayer

from conservator.experts.language_models.append_buffer import AppendBuffer

ATTENTION = "conservator_tree"


class Step:
    """What the layers of a cache are told of the next step.

    Attributes:
        seen: (m,) int64, the nodes that it attends to, its own among them.
    """

    seen: Tensor


class TreeCache(Cache):  # type: ignore[misc]
    """What every layer of a network has read. Of it, a step sees only some nodes: dead branches cost nothing.

    Layers do not know their cache, so that it is freed as soon as it is not used any more.
    """

    def __init__(self, layers: int) -> None:
        """A cache of so many layers."""
        self.step = Step()
        super().__init__(layers=[TreeLayer(self.step) for _ in range(layers)])


class TreeLayer(DynamicLayer):  # type: ignore[misc]
    """The keys and values of one layer."""

    def __init__(self, step: Step) -> None:
        """Nothing yet; ``step`` is that of the cache."""
        super().__init__()
        self._step, self._keys, self._values = step, AppendBuffer(dim=2), AppendBuffer(dim=2)

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Add (1, heads, k, size) keys and values of k new nodes; return those of the nodes that are seen."""
        self._keys.append(key_states)
        self._values.append(value_states)
        return self._keys.at(self._step.seen), self._values.at(self._step.seen)

    def get_seq_length(self) -> int:
        """The number of nodes."""
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
    """Attention in which heads that share keys are rows of one head, so that no key is copied.

    Args:
        module: the layer's attention.
        query: (1, H, k, size).
        key: (1, H / g, m, size).
        value: the same.
        attention_mask: (1, 1, g * k, m), additive.
        scaling: what products are multiplied by; None for the usual root.
        kwargs: what other kinds of attention need.

    Returns:
        (1, k, H, size), and no weights.
    """
    _, heads, length, size = query.shape
    shared = query.reshape(1, key.shape[1], -1, size)
    found = scaled_dot_product_attention(shared, key, value, attn_mask=attention_mask, scale=scaling)
    return found.reshape(1, heads, length, size).transpose(1, 2).contiguous(), None


AttentionInterface.register(ATTENTION, tree_attention)
