"""Every text of a causal expert that is small enough to enumerate, by every sequence of tokens that spells it."""

import math
from collections.abc import Sequence

import numpy as np
import torch

from conservator.errors import ConservatorError
from conservator.experts.causal.expert import ROOT, CausalExpert
from conservator.vocabularies import BYTES

LIMIT = 2**16  # the largest number of sequences of tokens: one by one, for small models


def enumerate_texts(expert: CausalExpert, pattern: Sequence[int]) -> dict[bytes, float]:
    """The probability of every text that agrees with a pattern.

        log q(x) = log sum over the shortest t_1 ... t_n whose bytes begin with x of q(t_1 ... t_n)

    A text is the beginning of an endless stream: its last token may go on after it, and nothing says where it ends.
    Tokens that stand for no text never occur; the laws are normalised without them.

    So ``enumerate_texts(expert, x)[x]`` is log q(x); of a pattern with lost bytes, the result, normalised, is the exact
    posterior of the texts, with what stands to the right having its say; and ``[*x, BYTES.mask]`` gives the law of the
    byte after x.

    Args:
        expert: a small one.
        pattern: L bytes, or the mask where any byte may stand.

    Returns:
        The log-probability of each text of L bytes that agrees with the pattern and is possible.
    """
    pieces, reading, length = expert.spec.tokens.token_bytes, expert.read(), len(pattern)
    empty = torch.tensor([not piece for piece in pieces])
    found: dict[bytes, float] = {}
    size = 1  # nodes of the reading
    stack = [(b"", 0.0, reading.grow([], [], [ROOT])[0], ROOT)]
    while stack:
        text, log_prob, law, node = stack.pop()
        if len(text) >= length:
            found[text[:length]] = float(np.logaddexp(found.get(text[:length], -math.inf), log_prob))
            continue
        law = torch.log_softmax(law.double().masked_fill(empty, -math.inf), dim=0)
        for token, piece in enumerate(pieces):
            whole, here = text + piece, float(law[token])
            if here == -math.inf or not _agrees(whole, pattern):
                continue
            if len(whole) >= length:
                stack.append((whole, log_prob + here, law, node))
                continue
            if size > LIMIT:
                raise ConservatorError(f"more than {LIMIT} sequences of tokens fit: too many to enumerate")
            stack.append((whole, log_prob + here, reading.grow([node], [token], [size])[0], size))
            size += 1
    return found


def _agrees(text: bytes, pattern: Sequence[int]) -> bool:
    return all(seen in (byte, BYTES.mask) for seen, byte in zip(pattern, text, strict=False))
