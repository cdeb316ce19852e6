"""Conditionals of every byte of a text by a causal expert, with one evaluation per token."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.experts.causal.expert import CausalExpert
from conservator.experts.causal.hypotheses import MAX_ROWS, Hypothesis, log_sum, next_byte_log_probs
from conservator.experts.causal.prefixes import Prefixes
from conservator.vocabularies import BYTES

PRUNE_NATS = 20.0  # nats: hypotheses this far below the best are pruned [numerical]


def byte_conditionals(expert: CausalExpert, text: bytes) -> Tensor:
    """Return log q(x_l = v | x_<l) of every byte along the canonical tokenization: (L, 256) float32, normalised.

    The hypotheses are those whose tokens are in the canonical tokenization, so each token is evaluated once, in
    batches. A token that ends inside a canonical token (``th`` inside ``the``) contributes its probability, but its
    continuation is not evaluated: every byte after it is distributed like the first byte of a token, averaged over the
    text so far. So the conditionals do not leak the next token boundary, which depends on the text to the right, and
    every byte has non-zero probability after the first possible boundary. The result is exact if no token is a prefix
    of another.

    In a text with more tokens than the expert reads, each token is predicted from at least half of ``max_length``.

    Args:
        expert: the causal expert.
        text: valid UTF-8.
    """
    prefixes = Prefixes(expert.spec.tokens)
    tokens = _tokenize(expert, text)
    conditionals = torch.empty(len(text), BYTES.size, dtype=torch.float32)
    hypotheses: list[Hypothesis] = []
    log_before, position = 0.0, 0
    first_byte_counts = np.full(BYTES.size, 1 / BYTES.size)  # sum of the distributions of the first byte of a token
    log_ended = -np.inf  # log q(text, tokenized so that a token ends with it that is not canonical)
    rows = _token_conditionals(expert, tokens, prefixes)
    for count, (token, log_probs) in enumerate(zip(tokens, rows, strict=True), start=1):
        hypotheses.append(Hypothesis(log_before, 0, None, prefixes.find(b""), log_probs))
        first_byte_counts += np.exp(next_byte_log_probs(hypotheses[-1:]))
        row, log_before = prefixes.rows[token], log_before + float(log_probs[prefixes.rows[token]])
        token_bytes = expert.spec.tokens.token_bytes[token]
        for remaining, byte in zip(range(len(token_bytes) - 1, -1, -1), token_bytes, strict=True):
            others = log_ended + np.log(first_byte_counts / (count + 1))
            conditionals[position] = torch.from_numpy(next_byte_log_probs(hypotheses, others))
            advanced = [hypothesis.advance(byte, prefixes) for hypothesis in hypotheses]
            ends = [hypothesis.ended for hypothesis in advanced]
            if not remaining:
                ends[-1] = np.delete(ends[-1], row - advanced[-1].prefix.low)
            log_ended = log_sum(np.append(np.concatenate(ends), others[byte]))
            min_log_prob = max(log_before, *(hypothesis.log_prob for hypothesis in advanced)) - PRUNE_NATS
            canonical = advanced[-1] if remaining else None  # never pruned
            hypotheses = [each for each in advanced if each.log_prob > min_log_prob or each is canonical]
            position += 1
    return conditionals


def _tokenize(expert: CausalExpert, text: bytes) -> list[int]:
    """Return the canonical tokenization of a text."""
    vocabulary = expert.spec.tokens
    try:
        tokens = vocabulary.tokenize(text.decode())
    except UnicodeDecodeError as error:
        raise ConservatorError(
            f"{expert.spec.name} needs valid UTF-8, got an invalid byte at position {error.start} of the text"
        ) from error
    decoded = b"".join(vocabulary.token_bytes[token] for token in tokens)
    if decoded != text:
        pairs = enumerate(zip(decoded, text, strict=False))
        position = next((position for position, pair in pairs if pair[0] != pair[1]), 0)
        raise ConservatorError(
            f"the tokens of {expert.spec.name} do not decode to the same text: they differ from byte {position} on"
        )
    return tokens


def _token_conditionals(
    expert: CausalExpert, tokens: Sequence[int], prefixes: Prefixes
) -> Iterator[NDArray[np.float32]]:
    """Yield the conditional (R,) of each token, sorted; MAX_ROWS at a time, because each has the vocabulary's size."""
    for start, first, end in windows(len(tokens), expert.spec.max_length):
        tree, size = expert.read(), 0
        for low in range(first, end, MAX_ROWS):
            high = min(low + MAX_ROWS, end)
            more = tokens[start + size : high - 1]  # the conditional of a token belongs to the node of the one before
            nodes = range(low - start, high - start)
            yield from prefixes.sort(tree.extend(range(size, size + len(more)), more, nodes))
            size += len(more)


def windows(length: int, max_length: int | None) -> Iterator[tuple[int, int, int]]:
    """Yield where a path starts, and which tokens (from, to) are predicted on it.

    Args:
        length: number of tokens.
        max_length: maximum path length, in tokens.
    """
    start = first = 0
    while first < length:
        end = length if max_length is None else min(start + max_length + 1, length)
        yield start, first, end
        first, start = end, end - max((max_length or 0) // 2, 1)
