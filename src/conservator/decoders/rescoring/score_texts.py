"""Texts that one causal expert found, scored by another: experts with different tokens meet at bytes."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from conservator.decoders.rescoring.search import ROWS, Trunk
from conservator.decoders.rescoring.spans import Region


def explain(trunk: Trunk, texts: Sequence[tuple[Region, bytes]]) -> NDArray[np.float64]:
    """(n,) log q(text | text before its region) of n texts of regions, each cut canonically."""
    nodes: dict[tuple[int, int], int] = {}
    steps: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)  # node -> texts, and the token of each after it
    for number, (region, data) in enumerate(texts):
        node, before = trunk.node_at(region.start), None
        for token in trunk.vocabulary.tokenize(data.decode()):
            if before is not None:
                known = trunk.after(node, before)
                node = nodes.setdefault((node, before), trunk.nodes + len(nodes)) if known is None else known
            steps[node].append((number, token))
            before = token
    new = list(nodes)
    for begin in range(0, len(new), ROWS):  # the nodes of a step attend to each other's ancestors, mostly in vain
        trunk.read([node for node, _ in new[begin : begin + ROWS]], [token for _, token in new[begin : begin + ROWS]])
    scores = np.zeros(len(texts))
    asked = sorted(steps)
    for begin in range(0, len(asked), ROWS):
        part = asked[begin : begin + ROWS]
        for node, law in zip(part, trunk.laws(part), strict=True):
            for number, token in steps[node]:
                scores[number] += law[token]
    return scores
