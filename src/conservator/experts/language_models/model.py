"""Language models as causal experts: log q(x) = sum_t log q(token_t | tokens before it), read as a tree."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.experts.causal import CausalSpec
from conservator.experts.language_models.append_buffer import AppendBuffer
from conservator.experts.language_models.cache import ATTENTION, TreeCache
from conservator.experts.language_models.families import family_of
from conservator.experts.language_models.precision import precision_of
from conservator.vocabularies import Tokens

BITS = 8  # of a byte, in which so many ancestors are kept


class LanguageModel:
    """A pretrained causal language model that reads trees of tokens. See ``CausalExpert``.

    It computes on the processor, one tree at a time. Its laws after a node are those of a plain pass over the path from
    the start token to that node, up to rounding.
    """

    def __init__(self, network: Any, tokens: Tokens, start: int, name: str, fingerprint: str = "") -> None:
        """Take a network of a known family.

        Args:
            network: a causal language model of transformers; what it computes with may be replaced, not its config.
            tokens: what its V tokens stand for.
            start: the token that stands before every text.
            name: its name in tables and reports.
            fingerprint: a hash of its weights.
        """
        self.config, self.family = network.config, family_of(network.config)
        self.body, self.head = network.base_model.eval(), network.get_output_embeddings().eval()
        self.config._attn_implementation = self.body.config._attn_implementation = ATTENTION
        self.start = start
        longest = self.config.max_position_embeddings - 1
        self._spec = CausalSpec(name, tokens, longest, fingerprint, precision_of(network))

    @property
    def spec(self) -> CausalSpec:
        """The expert's description."""
        return self._spec

    def read(self) -> "TreeReading":
        """Begin to read: an empty tree."""
        return TreeReading(self)


class TreeReading:
    """A tree of tokens that a language model has read. See ``Reading``.

    What a node may attend to are its ancestors and itself; its position is its depth. A step attends to the ancestors
    of its new nodes alone.
    """

    def __init__(self, model: LanguageModel) -> None:
        """Nothing is read yet; the start token is read in the first step."""
        self._model = model
        self._cache = TreeCache(model.config.num_hidden_layers)
        self._hidden = AppendBuffer(dim=0)
        self._depths = np.zeros(0, dtype=np.int64)
        self._ancestors = np.zeros((0, 0), dtype=np.uint8)  # bits: row i, the nodes that node i attends to

    def extend(self, parents: Sequence[int], tokens: Sequence[int], asked: Sequence[int]) -> Tensor:
        """Read k tokens more; return (n, V) log laws after the nodes that are asked for. See ``Reading.extend``."""
        if len(parents) != len(tokens):
            raise ConservatorError(f"{len(parents)} parents and {len(tokens)} tokens: each token needs one parent")
        if not len(self._depths):
            parents, tokens = [-1, *parents], [self._model.start, *tokens]
        if len(tokens):
            self._read(self._join(parents), tokens)
        return self._laws(asked)

    def _join(self, parents: Sequence[int]) -> NDArray[np.bool_]:
        """Add k nodes to the tree; return (k, N) which of all N nodes each of them attends to."""
        old = len(self._depths)
        size = old + len(parents)
        if size > len(self._ancestors):
            room = -(-max(2 * old, size) // BITS)
            grown = np.zeros((room * BITS, room), dtype=np.uint8)
            grown[:old, : self._ancestors.shape[1]] = self._ancestors[:old]
            self._ancestors = grown
        depths = [*self._depths.tolist()]
        longest = self._model.spec.max_length
        for node, parent in enumerate(parents, start=old):
            if not (0 <= parent < node or node == 0):
                raise ConservatorError(f"node {node} cannot follow node {parent}: a parent is read before its children")
            depth = depths[parent] + 1 if node else 0
            if longest is not None and depth > longest:
                raise ConservatorError(f"a path of more than {longest} tokens; {self._model.spec.name} reads no more")
            depths.append(depth)
            if node:
                self._ancestors[node] = self._ancestors[parent]
            self._ancestors[node, node // BITS] |= 1 << (BITS - 1 - node % BITS)
        self._depths = np.array(depths, dtype=np.int64)
        return np.unpackbits(self._ancestors[old:size], axis=1, count=size).astype(bool)

    @torch.inference_mode()
    def _read(self, attended: NDArray[np.bool_], tokens: Sequence[int]) -> None:
        """Compute the last hidden states of the k newest nodes, and keep them."""
        seen = np.flatnonzero(attended.any(axis=0))
        self._cache.step.seen = torch.from_numpy(seen)
        depths = self._depths[-len(tokens) :]
        embedded = self._model.body.get_input_embeddings()(torch.tensor([tokens]))
        found = self._model.body(
            inputs_embeds=embedded,
            attention_mask=self._masks(attended[:, seen], depths[:, None] - self._depths[seen], embedded.dtype),
            position_ids=torch.from_numpy(depths)[None],
            past_key_values=self._cache,
            use_cache=True,
        )
        self._hidden.append(found.last_hidden_state[0])

    def _masks(
        self, attended: NDArray[np.bool_], back: NDArray[np.int64], dtype: torch.dtype
    ) -> Tensor | dict[str, Tensor]:
        """Masks as the layers take them, from which nodes are attended to, (k, m), and how far back they stand."""
        config = self._model.config
        groups = config.num_attention_heads // getattr(config, "num_key_value_heads", config.num_attention_heads)

        def additive(allowed: NDArray[np.bool_]) -> Tensor:
            mask = torch.zeros(allowed.shape, dtype=dtype).masked_fill_(torch.from_numpy(~allowed), float("-inf"))
            return mask.repeat(groups, 1)[None, None]

        if not self._model.family.masks_by_layer:
            return additive(attended)
        kinds = set(config.layer_types)
        masks = {"full_attention": additive(attended)} if "full_attention" in kinds else {}
        if "sliding_attention" in kinds:
            masks["sliding_attention"] = additive(attended & (back < config.sliding_window))
        return masks

    @torch.inference_mode()
    def _laws(self, asked: Sequence[int]) -> Tensor:
        if not len(asked):
            return torch.zeros(0, self._model.spec.tokens.size)
        for node in asked:
            if not 0 <= node < self._hidden.length:
                raise ConservatorError(f"no node {node}; {self._hidden.length} have been read")
        hidden = self._hidden.rows[torch.tensor(list(asked))]
        found = torch.log_softmax(self._model.head(hidden).float(), dim=-1)
        if not torch.isfinite(found.sum()):
            name = self._model.spec.name
            raise ConservatorError(f"the model {name!r} predicted what is not a finite number: its weights are damaged")
        return found
