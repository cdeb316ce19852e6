"""The law of every byte of a text by a causal expert, each token read once."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.experts.causal.expert import CausalExpert
from conservator.experts.causal.hypotheses import AT_ONCE, Hypothesis, log_sum, mix
from conservator.experts.causal.prefixes import Prefixes
from conservator.vocabularies import BYTES

NEGLIGIBLE = -20.0  # nats: a hypothesis this far behind the likeliest changes no law that anyone can tell


def byte_conditionals(expert: CausalExpert, text: bytes) -> Tensor:
    """The law log q(x_l = v | x_<l) of every byte of a text, along its canonical cut: (L, 256) float32, normalised.

    The hypotheses of ``ByteLm`` whose node is in the canonical cut of the text; so each token is read once, at one go.
    That a token ends within one of the cut (``th`` where the cut has ``the``) has its probability, but what comes then
    is not read: every byte after it is taken to be what begins a token, on average over the text so far. So no law
    knows where the cut goes on, which depends on what stands to the right, and after the first token that could have
    ended no byte is impossible. It is exact where no token begins with another.

    Of a text of more tokens than the expert reads, each token is predicted from at least half as many as it reads.

    Args:
        expert: any.
        text: valid UTF-8.
    """
    prefixes = Prefixes(expert.spec.tokens)
    cut = _cut(expert, text)
    found = torch.empty(len(text), BYTES.size, dtype=torch.float32)
    hypotheses: list[Hypothesis] = []
    log_before, place = 0.0, 0
    begins = np.full(BYTES.size, 1 / BYTES.size)  # what begins a token: the sum of its laws
    ended = -np.inf  # log q(the text, cut so that it ends with a token, but not one of the cut)
    for count, (token, law) in enumerate(zip(cut, _along(expert, cut, prefixes), strict=True), start=1):
        hypotheses.append(Hypothesis(log_before, 0, None, prefixes.find(b""), law))
        begins += np.exp(mix(hypotheses[-1:]))
        row, log_before = prefixes.rows[token], log_before + float(law[prefixes.rows[token]])
        piece = expert.spec.tokens.token_bytes[token]
        for left, byte in zip(range(len(piece) - 1, -1, -1), piece, strict=True):
            elsewhere = ended + np.log(begins / (count + 1))
            found[place] = torch.from_numpy(mix(hypotheses, elsewhere))
            spelt = [hypothesis.spell(byte, prefixes) for hypothesis in hypotheses]
            ends = [hypothesis.ended for hypothesis in spelt]
            if not left:
                ends[-1] = np.delete(ends[-1], row - spelt[-1].prefix.low)
            ended = log_sum(np.append(np.concatenate(ends), elsewhere[byte]))
            least = max(log_before, *(hypothesis.log_prob for hypothesis in spelt)) + NEGLIGIBLE
            in_cut = spelt[-1] if left else None  # whatever its probability
            hypotheses = [each for each in spelt if each.log_prob > least or each is in_cut]
            place += 1
    return found


def _cut(expert: CausalExpert, text: bytes) -> list[int]:
    """The canonical cut of a text."""
    tokens = expert.spec.tokens
    try:
        cut = tokens.tokenize(text.decode())
    except UnicodeDecodeError as error:
        raise ConservatorError(
            f"byte {error.start} of the text is not UTF-8, which {expert.spec.name} reads"
        ) from error
    spelt = b"".join(tokens.token_bytes[token] for token in cut)
    if spelt != text:
        place = next((place for place, pair in enumerate(zip(spelt, text, strict=False)) if pair[0] != pair[1]), 0)
        raise ConservatorError(f"{expert.spec.name} cuts the text into tokens that spell another, from byte {place} on")
    return cut


def _along(expert: CausalExpert, cut: Sequence[int], prefixes: Prefixes) -> Iterator[NDArray[np.float32]]:
    """The law of each token of a cut, sorted; few at a time, since each is as long as there are tokens."""
    for start, first, end in windows(len(cut), expert.spec.max_length):
        reading, read = expert.read(), 0
        for low in range(first, end, AT_ONCE):
            high = min(low + AT_ONCE, end)
            more = cut[start + read : high - 1]  # the law of a token is read at the one before it
            asked = range(low - start, high - start)
            yield from prefixes.sort(reading.grow(range(read, read + len(more)), more, asked))
            read += len(more)


def windows(length: int, longest: int | None) -> Iterator[tuple[int, int, int]]:
    """Where to begin to read, and which tokens (from, to) are predicted then, so that no path is too long.

    Args:
        length: the number of tokens.
        longest: the longest path, in tokens.
    """
    start = first = 0
    while first < length:
        end = length if longest is None else min(start + longest + 1, length)
        yield start, first, end
        first, start = end, end - max((longest or 0) // 2, 1)
