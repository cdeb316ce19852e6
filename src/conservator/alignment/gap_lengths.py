"""Choose the number of bytes of a gap of unknown length, by the likelihood of the text around it."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.channels import MaskChannel
from conservator.documents import DamagedDocument, GapContext
from conservator.errors import ConservatorError
from conservator.experts import Team
from conservator.field import DEFAULT, grid_evidence, grid_posterior, hide, simplex_grid
from conservator.vocabularies import BYTES
from conservator.vocabularies.utf8 import ALL_STATES


@dataclass(frozen=True)
class GapConfig:
    """Parameters of the choice of lengths."""

    context_bytes: int = 64  # bytes: read on either side of a gap [untuned]
    predicted_bytes: int = 24  # bytes: predicted on either side; farther ones hardly depend on the length [untuned]
    mean_length: float = 10.0  # bytes: mean of the geometric prior, about a word with its spaces [LOG: gap-lengths]
    # bytes: matched on either side of a gap in references, with the weight of the lengths found there in the prior: the
    # measured fraction of such lengths that are correct [LOG: gap-lengths]
    reference_weights: tuple[tuple[int, float], ...] = ((16, 0.9), (12, 0.6), (8, 0.4), (6, 0.2))
    min_word_bytes: int = 4  # bytes: visible at the two ends of a word of the user [untuned]
    word_weight: float = 0.9  # weight: in the prior, of the lengths of such words [untuned]


CONFIG = GapConfig()
UNKNOWN = 0xFE  # byte: occurs in no UTF-8 [definition]
MASK_RATE = 0.5  # probability: of the mask channel; it does not affect the comparison of lengths [definition]


def choose_lengths(
    team: Team,
    damaged: DamagedDocument,
    max_length: int,
    generator: torch.Generator,
    references: Sequence[NDArray[np.integer[Any]]] = (),
    words: Sequence[str] = (),
) -> tuple[list[int], list[float]]:
    """Choose the number of lost bytes of each gap, from the first to the last, with its probability.

        argmax over n of  log p(visible text around the gap | n bytes are missing) + log p(n)

    The first term is the composite evidence with the field integrated out. The second is the prior: geometric, mixed
    with the lengths in ``references`` or ``words`` if the text on both sides of the gap occurs there. Lengths for which
    the document cannot be valid UTF-8 are excluded. If whole words are missing, the evidence excludes short lengths,
    but hardly distinguishes the others. Then the prior decides, and the length may be off by a few bytes.

    Args:
        team: m experts over bytes.
        damaged: the document.
        max_length: the largest length of a gap, in bytes.
        generator: draws the visible bytes that are hidden together.
        references: texts (n,) as bytes, with other numbers at unknown bytes.
        words: words and phrases of the user.
    """
    if max_length < 1:
        raise ConservatorError(f"the maximum length of a gap must be at least 1, got {max_length}")
    chosen: list[int] = []
    probability: list[float] = []
    texts = [as_bytes(text) for text in references]
    for number in team.meter.steps(range(len(damaged.gaps))):
        context = damaged.around_gap(number, chosen, CONFIG.context_bytes)
        lengths = possible_lengths(context, max_length)
        if not lengths:
            offset = damaged.spans[damaged.gaps[number], 0]
            raise ConservatorError(f"no length up to {max_length} makes the gap at byte {offset} valid UTF-8")
        counts, weight = word_lengths(context, words)
        if not any(counts[length] for length in lengths):
            counts, weight = reference_lengths(context, texts, max_length)
        prior = length_prior(lengths, counts, weight)
        length, length_probability = _most_likely_length(
            team, context.tokens, context.position, lengths, prior, generator
        )
        chosen.append(length)
        probability.append(length_probability)
    return chosen, probability


def as_bytes(text: NDArray[np.integer[Any]]) -> bytes:
    """Return a text as bytes, with UNKNOWN at unknown bytes."""
    return np.where((text < 0) | (text >= BYTES.size), UNKNOWN, text).astype(np.uint8).tobytes()


def reference_lengths(context: GapContext, texts: list[bytes], max_length: int) -> tuple[Counter[int], float]:
    """Count the distances between the text before a gap and the text after it in reference texts.

    The longest match of ``reference_weights`` bytes on either side is used. The second value is the weight of these
    lengths in the prior; 0 without a match.
    """
    left, right = as_bytes(context.tokens[: context.position]), as_bytes(context.tokens[context.position :])
    for size, weight in CONFIG.reference_weights:
        before, after = left[-size:], right[:size]
        if len(before) < size or len(after) < size or UNKNOWN in before or UNKNOWN in after:
            continue
        counts: Counter[int] = Counter()
        pattern = re.compile(re.escape(before) + b"(?=(.{1,%d}?)%s)" % (max_length, re.escape(after)), re.DOTALL)
        for text in texts:
            counts.update(len(match.group(1)) for match in pattern.finditer(text) if UNKNOWN not in match.group(1))
        if counts:
            return counts, weight
    return Counter(), 0.0


def word_lengths(context: GapContext, words: Sequence[str]) -> tuple[Counter[int], float]:
    """Count the lengths of a gap with which the text around it is a word or phrase; values as ``reference_lengths``."""
    left, right = as_bytes(context.tokens[: context.position]), as_bytes(context.tokens[context.position :])
    before, after = re.findall(rb"[^\s\xfe]*$", left)[0], re.findall(rb"^[^\s\xfe.,;:!?)]*", right)[0]
    visible = len(before) + len(after)
    if visible < CONFIG.min_word_bytes:
        return Counter(), 0.0
    encoded = (f" {word}".encode() for word in words)
    matches = (word for word in encoded if b" " + before in word and word.endswith(after))
    lengths = (len(word) - word.index(b" " + before) - 1 - visible for word in matches)
    return Counter(length for length in lengths if length > 0), CONFIG.word_weight


def length_prior(lengths: list[int], reference_counts: Counter[int], weight: float) -> NDArray[np.float64]:
    """Return (n,) log p(length): geometric, mixed with the lengths in references by ``weight``."""
    prior = np.exp(-np.array(lengths) / CONFIG.mean_length)
    prior /= prior.sum()
    counts = np.array([reference_counts[length] for length in lengths], dtype=np.float64)
    if counts.any():
        prior = (1 - weight) * prior + weight * counts / counts.sum()
    log_prior: NDArray[np.float64] = np.log(prior)
    return log_prior


def possible_lengths(context: GapContext, max_length: int) -> list[int]:
    """Return the lengths from 1 to ``max_length`` of a gap for which the text around it can be valid UTF-8."""
    utf8, left, right = BYTES.constraint, context.tokens[: context.position], context.tokens[context.position :]
    if context.continues_after:  # its last character may be incomplete
        right = utf8.close_at_cuts(right, np.array([len(right)]))
    forward = utf8.reachable(left, ALL_STATES if context.continues_before else 1)[0]
    backward = utf8.reachable(right)[1]
    states, lengths = int(forward[-1]), []
    for length in range(1, max_length + 1):
        states = utf8.advance(states)
        if states & int(backward[0]):
            lengths.append(length)
    return lengths


def _most_likely_length(
    team: Team,
    tokens: NDArray[np.int64],
    position: int,
    lengths: list[int],
    prior: NDArray[np.float64],
    generator: torch.Generator,
) -> tuple[int, float]:
    """Return the most likely length of the gap before ``position`` in ``tokens`` (L,), and its probability.

    Ties are resolved in favour of the shortest length.
    """
    mask, room = team.vocabulary.mask, team.context - lengths[-1]
    if len(tokens) > room:  # keep as much as the experts read at once, from both sides of the gap
        start = max(0, min(position - room // 2, len(tokens) - room))
        tokens = tokens[start : start + max(room, 1)]
        position = min(position - start, len(tokens))
    near_gap = torch.zeros(1, len(tokens), dtype=torch.bool)
    near_gap[:, max(0, position - CONFIG.predicted_bytes) : position + CONFIG.predicted_bytes] = True
    text = torch.from_numpy(tokens)[None]
    patterns = DEFAULT.draw(near_gap & (text != mask), generator)
    weights, channel = simplex_grid(len(team)), MaskChannel(team.vocabulary.size, MASK_RATE)
    log_evidence = []
    for length in team.meter.steps(lengths):
        observation = channel.observe(_insert(text, position, length, mask))
        predicted = _insert(patterns, position, length, False)  # lengths are compared on the same patterns
        hidden = hide(predicted, observation, None, generator)
        evidence = grid_evidence(
            team, observation, predicted, hidden, torch.from_numpy(weights), repeats=DEFAULT.repeats
        )
        posterior = grid_posterior(evidence.emissions[0].numpy(), weights)
        log_evidence.append(posterior.log_evidence)
    scores = np.array(log_evidence) + prior
    return lengths[int(np.argmax(scores))], float(np.exp(scores.max() - np.logaddexp.reduce(scores)))


def _insert(values: Tensor, position: int, length: int, value: int | bool) -> Tensor:
    """Insert ``length`` copies of ``value`` before ``position`` of the last axis."""
    inserted = torch.full((*values.shape[:-1], length), value, dtype=values.dtype)
    return torch.cat([values[..., :position], inserted, values[..., position:]], dim=-1)
