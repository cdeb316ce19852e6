"""Language models as causal experts: log q(x) = sum_t log q(token_t | tokens before it), evaluated on token trees."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.experts.causal import CausalSpec
from conservator.experts.language_models.cache import ATTENTION, AppendBuffer, TreeCache
from conservator.experts.language_models.families import family_of
from conservator.experts.language_models.precision import precision_of
from conservator.vocabularies import Tokens

BITS = 8  # bits: ancestors per byte of the packed ancestor matrix [definition]


class LanguageModel:
    """A pretrained causal language model that evaluates token trees. See ``CausalExpert``.

    It runs on the CPU, one tree at a time. The conditional after a node equals that of a forward pass over the path
    from the start token to the node, up to rounding.
    """

    def __init__(self, network: Any, tokens: Tokens, start: int, name: str, fingerprint: str = "") -> None:
        """Wrap a network of a supported family.

        Args:
            network: causal language model of transformers. Its attention implementation is replaced.
            tokens: its vocabulary of V tokens.
            start: id of the start token of every text.
            name: name in tables and reports.
            fingerprint: hash of the weights.
        """
        self.config, self.family = network.config, family_of(network.config)
        self.body, self.head = network.base_model.eval(), network.get_output_embeddings().eval()
        self.config._attn_implementation = self.body.config._attn_implementation = ATTENTION
        self.start = start
        max_length = self.config.max_position_embeddings - 1
        self.spec = CausalSpec(name, tokens, max_length, fingerprint, precision_of(network))

    def read(self) -> "LanguageModelTree":
        """Return an empty token tree."""
        return LanguageModelTree(self)


class LanguageModelTree:
    """Token tree of a language model. See ``TokenTree``.

    A node attends to its ancestors and itself; its position is its depth. A step attends only to the ancestors of its
    new nodes.
    """

    def __init__(self, model: LanguageModel) -> None:
        """Create an empty tree; the start token is added in the first step."""
        self._model = model
        self._cache = TreeCache(model.config.num_hidden_layers)
        self._hidden = AppendBuffer(dim=0)
        self._depths = np.zeros(0, dtype=np.int64)
        self._ancestors = np.zeros((0, 0), dtype=np.uint8)  # bits: row i has the nodes that node i attends to

    def extend(self, parents: Sequence[int], tokens: Sequence[int], nodes: Sequence[int]) -> Tensor:
        """Add k tokens; return the log-probabilities (n, V) of the next token after ``nodes``. See ``TokenTree``."""
        if len(parents) != len(tokens):
            raise ConservatorError(
                f"expected one parent per token, got {len(parents)} parents and {len(tokens)} tokens"
            )
        if not len(self._depths):
            parents, tokens = [-1, *parents], [self._model.start, *tokens]
        if len(tokens):
            self._evaluate(self._add_nodes(parents), tokens)
        return self._log_probs(nodes)

    def _add_nodes(self, parents: Sequence[int]) -> NDArray[np.bool_]:
        """Add k nodes to the tree; return flags (k, N) of the nodes that each of them attends to."""
        old = len(self._depths)
        size = old + len(parents)
        if size > len(self._ancestors):
            capacity = -(-max(2 * old, size) // BITS)
            grown = np.zeros((capacity * BITS, capacity), dtype=np.uint8)
            grown[:old, : self._ancestors.shape[1]] = self._ancestors[:old]
            self._ancestors = grown
        depths = [*self._depths.tolist()]
        max_length = self._model.spec.max_length
        for node, parent in enumerate(parents, start=old):
            if not (0 <= parent < node or node == 0):
                raise ConservatorError(
                    f"node {parent} cannot be the parent of node {node}: add parents before children"
                )
            depth = depths[parent] + 1 if node else 0
            if max_length is not None and depth > max_length:
                raise ConservatorError(f"a path of {self._model.spec.name} must not have more than {max_length} tokens")
            depths.append(depth)
            if node:
                self._ancestors[node] = self._ancestors[parent]
            self._ancestors[node, node // BITS] |= 1 << (BITS - 1 - node % BITS)
        self._depths = np.array(depths, dtype=np.int64)
        return np.unpackbits(self._ancestors[old:size], axis=1, count=size).astype(bool)

    @torch.inference_mode()
    def _evaluate(self, attended: NDArray[np.bool_], tokens: Sequence[int]) -> None:
        """Compute and store the last hidden states of the k newest nodes."""
        nodes = np.flatnonzero(attended.any(axis=0))
        self._cache.attended.nodes = torch.from_numpy(nodes)
        depths = self._depths[-len(tokens) :]
        embedded = self._model.body.get_input_embeddings()(torch.tensor([tokens]))
        output = self._model.body(
            inputs_embeds=embedded,
            attention_mask=self._masks(attended[:, nodes], depths[:, None] - self._depths[nodes], embedded.dtype),
            position_ids=torch.from_numpy(depths)[None],
            past_key_values=self._cache,
            use_cache=True,
        )
        self._hidden.append(output.last_hidden_state[0])

    def _masks(
        self, attended: NDArray[np.bool_], distances: NDArray[np.int64], dtype: torch.dtype
    ) -> Tensor | dict[str, Tensor]:
        """Build the attention masks from flags (k, m) and distances (k, m) in tokens of the attended nodes."""
        config = self._model.config
        groups = config.num_attention_heads // getattr(config, "num_key_value_heads", config.num_attention_heads)

        def additive(allowed: NDArray[np.bool_]) -> Tensor:
            mask = torch.zeros(allowed.shape, dtype=dtype).masked_fill_(torch.from_numpy(~allowed), float("-inf"))
            return mask.repeat(groups, 1)[None, None]

        if not self._model.family.masks_by_layer:
            return additive(attended)
        layer_types = set(config.layer_types)
        masks = {"full_attention": additive(attended)} if "full_attention" in layer_types else {}
        if "sliding_attention" in layer_types:
            masks["sliding_attention"] = additive(attended & (distances < config.sliding_window))
        return masks

    @torch.inference_mode()
    def _log_probs(self, nodes: Sequence[int]) -> Tensor:
        if not len(nodes):
            return torch.zeros(0, self._model.spec.tokens.size)
        for node in nodes:
            if not 0 <= node < self._hidden.length:
                raise ConservatorError(f"node {node} does not exist; the tree has {self._hidden.length} nodes")
        hidden = self._hidden.rows[torch.tensor(list(nodes))]
        log_probs = torch.log_softmax(self._model.head(hidden).float(), dim=-1)
        if not torch.isfinite(log_probs.sum()):
            name = self._model.spec.name
            raise ConservatorError(f"the model {name!r} predicted a value that is not finite: its weights are damaged")
        return log_probs
