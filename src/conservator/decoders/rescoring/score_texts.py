"""Score texts of spans with a causal expert; experts with different tokens are compared on the same bytes."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from conservator.decoders.rescoring.search import BATCH_NODES, PrefixTree
from conservator.decoders.rescoring.spans import ListedSpan, Span


def score_texts(tree: PrefixTree, texts: Sequence[tuple[Span | ListedSpan, bytes]]) -> NDArray[np.float64]:
    """Return (n,) log q(text | text before its span) of n texts of spans, with their canonical tokenizations."""
    nodes: dict[tuple[int, int], int] = {}
    scored: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)  # node -> texts, and the next token of each
    for number, (span, data) in enumerate(texts):
        node, previous = tree.node_at(span.start), None
        for token in tree.vocabulary.tokenize(data.decode()):
            if previous is not None:
                known = tree.child(node, previous)
                node = nodes.setdefault((node, previous), tree.nodes + len(nodes)) if known is None else known
            scored[node].append((number, token))
            previous = token
    new = list(nodes)
    for begin in range(0, len(new), BATCH_NODES):  # small batches: nodes of a batch attend to each other's ancestors
        batch = new[begin : begin + BATCH_NODES]
        tree.append([node for node, _ in batch], [token for _, token in batch])
    scores = np.zeros(len(texts))
    scored_nodes = sorted(scored)
    for begin in range(0, len(scored_nodes), BATCH_NODES):
        batch_nodes = scored_nodes[begin : begin + BATCH_NODES]
        for node, log_probs in zip(batch_nodes, tree.log_probs(batch_nodes), strict=True):
            for number, token in scored[node]:
                scores[number] += log_probs[token]
    return scores
