"""Enumeration of all texts of a small causal expert, summed over all their tokenizations."""

import math
from collections.abc import Sequence

import numpy as np
import torch

from conservator.errors import ConservatorError
from conservator.experts.causal.expert import ROOT, CausalExpert
from conservator.vocabularies import BYTES

LIMIT = 2**16  # nodes: token sequences that are enumerated one by one, for small models [safety limit]


def enumerate_texts(expert: CausalExpert, pattern: Sequence[int]) -> dict[bytes, float]:
    """Return the log-probability of every text that agrees with a pattern.

        log q(x) = log sum over the shortest t_1 ... t_n whose bytes begin with x of q(t_1 ... t_n)

    A text is a prefix of an infinite stream: its last token may continue after it, and there is no end token. Special
    tokens never occur; the conditionals are normalised without them.

    ``enumerate_texts(expert, x)[x]`` is log q(x). For a pattern with lost bytes, the normalised result is the exact
    posterior of the texts, which includes the right context. ``[*x, BYTES.mask]`` gives the distribution of the byte
    after x.

    Args:
        expert: a small causal expert.
        pattern: L bytes; the mask at lost bytes.

    Returns:
        Text of L bytes that agrees with the pattern -> log-probability; without impossible texts.
    """
    pieces, tree, length = expert.spec.tokens.token_bytes, expert.read(), len(pattern)
    empty = torch.tensor([not piece for piece in pieces])
    texts: dict[bytes, float] = {}
    nodes = 1
    stack = [(b"", 0.0, tree.extend([], [], [ROOT])[0], ROOT)]
    while stack:
        text, log_prob, log_probs, node = stack.pop()
        if len(text) >= length:
            texts[text[:length]] = float(np.logaddexp(texts.get(text[:length], -math.inf), log_prob))
            continue
        log_probs = torch.log_softmax(log_probs.double().masked_fill(empty, -math.inf), dim=0)
        for token, piece in enumerate(pieces):
            extended, token_log_prob = text + piece, float(log_probs[token])
            if token_log_prob == -math.inf or not _agrees(extended, pattern):
                continue
            if len(extended) >= length:
                stack.append((extended, log_prob + token_log_prob, log_probs, node))
                continue
            if nodes > LIMIT:
                raise ConservatorError(
                    f"more than {LIMIT} sequences of tokens agree with the pattern: too many to enumerate"
                )
            stack.append((extended, log_prob + token_log_prob, tree.extend([node], [token], [nodes])[0], nodes))
            nodes += 1
    return texts


def _agrees(text: bytes, pattern: Sequence[int]) -> bool:
    return all(expected in (byte, BYTES.mask) for expected, byte in zip(pattern, text, strict=False))
