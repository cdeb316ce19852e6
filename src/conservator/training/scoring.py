"""Scores of an expert on noisy documents: three measures per byte, from one pass over windows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.experts import PAD, Context, Expert, MaskSource, Source
from conservator.experts.expert import checked_predict
from conservator.training.corpus import tokenize_text
from conservator.training.path import noise, replace_uniformly
from conservator.vocabularies import BYTES, Tokens, Vocabulary

RESAMPLES = 2000  # draws: bootstrap resamples [untuned]
MAX_DRAWN = 2**18  # documents: drawn at once in the bootstrap [safety limit]
MAX_PREDICTION_BYTES = 2**28  # bytes: predictions that are computed at once [safety limit]
MAX_KAPPA = 1 - 1e-4  # time: t_epsilon of the paper, the largest kappa in the weight 1 / (1 - kappa) [definition]


@dataclass(frozen=True)
class Windows:
    """Noisy windows of documents. Experts with the same vocabulary and source are scored on the same windows.

    Attributes:
        tokens: (N, L) clean tokens; windows shorter than L are padded with PAD.
        inputs: (N, L) tokens that an expert reads: with a uniform source, some are replaced.
        hidden: (N, L) True at hidden tokens; False everywhere with a uniform source.
        scored: (N, L) True at scored positions: hidden tokens, or all tokens with a uniform source.
        bytes: (N, L) number of bytes of each token; 0 for PAD.
        kappa: (N,) times, stratified over the windows.
        documents: (N,) index of the document of each window.
    """

    tokens: Tensor
    inputs: Tensor
    hidden: Tensor
    scored: Tensor
    bytes: Tensor
    kappa: Tensor
    documents: Tensor


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval, from a bootstrap over documents (over windows for a single document)."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Format the value with its interval."""
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Scores:
    """Sums over each window, all (N,).

    Attributes:
        nats: sum of -log p(x_l | inputs) over the scored positions.
        bound: flow-matching bound on -log p(x), weighted by the schedule; with a mask source nats / (1 - kappa).
        hidden: number of bytes at the scored positions.
        length: number of all bytes.
        documents: index of the document of each window.
    """

    nats: Tensor
    bound: Tensor
    hidden: Tensor
    length: Tensor
    documents: Tensor

    def per_hidden_byte(self) -> Estimate:
        """Return the training loss: nats per predicted byte, at uniform times."""
        return ratio(self.nats, self.hidden, self.documents)

    def energy(self) -> Estimate:
        """Return the all-position denoising energy in nats per byte, equation (dscore); visible bytes count as 0."""
        return ratio(self.nats, self.length, self.documents)

    def bits_per_byte(self) -> Estimate:
        """Return the schedule-weighted upper bound on the bits per byte."""
        return ratio(self.bound / math.log(2), self.length, self.documents)


def draw_noisy_windows(
    documents: Sequence[bytes],
    count: int,
    length: int,
    seed: int,
    vocabulary: Vocabulary = BYTES,
    source: Source | None = None,
    limit: int | None = None,
) -> Windows:
    """Draw ``count`` windows: a document with probability proportional to its size, then a position in it.

    No window contains text of two documents. The text of a window is the same for every vocabulary, except for
    incomplete characters at its ends, which only bytes can represent, and for tokens beyond ``limit``.

    Args:
        documents: the texts.
        count: number of windows N.
        length: bytes per window.
        seed: seed of the windows and of the noise.
        vocabulary: vocabulary of the tokens.
        source: source of the noise; None for a mask.
        limit: maximum number of tokens of a window.
    """
    if not any(documents):
        raise ConservatorError("cannot draw windows: all documents are empty")
    generator = torch.Generator().manual_seed(seed)
    ends = torch.tensor([len(document) for document in documents]).cumsum(0)
    chosen = torch.searchsorted(ends, torch.randint(int(ends[-1]), (count,), generator=generator), right=True)
    fractions = torch.rand(count, generator=generator, dtype=torch.float64).tolist()
    length = min(length, max(map(len, documents)))
    rows = []
    for document, fraction in zip(chosen.tolist(), fractions, strict=True):
        text = documents[document]
        start = int(fraction * (max(0, len(text) - length) + 1))
        rows.append(tokenize_text(text[start : start + length], vocabulary)[:limit])
    tokens = torch.full((count, max(map(len, rows)) if isinstance(vocabulary, Tokens) else length), PAD)
    for index, row in enumerate(rows):
        tokens[index, : len(row)] = torch.tensor(row, dtype=torch.long)
    real = tokens != PAD
    sizes = torch.tensor([len(piece) for piece in vocabulary.token_bytes]) if isinstance(vocabulary, Tokens) else None
    token_bytes = real.long() if sizes is None else sizes[tokens.clamp_min(0)] * real
    kappa, noisy = noise(tokens, generator)
    noisy &= real
    if (source or MaskSource()).shows_noise:
        return Windows(tokens, tokens, noisy, noisy, token_bytes, kappa, chosen)
    inputs = replace_uniformly(tokens, noisy, vocabulary.size, generator)
    return Windows(tokens, inputs, torch.zeros_like(noisy), real, token_bytes, kappa, chosen)


def score(expert: Expert, windows: Windows, batch: int = 16) -> Scores:
    """Score an expert on windows.

    At a position with clean token x and input token u, the bound adds ([u != x] (-log p(x)) + [u = x] - p(u)) /
    (1 - kappa); p(u) is 0 for a mask, and 1 where an expert with a mask source copies.
    """
    nats, bounds = [], []
    batch = max(1, min(batch, MAX_PREDICTION_BYTES // (4 * expert.spec.vocabulary.size * windows.tokens.shape[1])))
    parts = (windows.tokens, windows.inputs, windows.hidden, windows.scored, windows.kappa)
    for tokens, inputs, hidden, scored, kappa in zip(*(part.split(batch) for part in parts), strict=True):
        at = scored.nonzero(as_tuple=True)
        log_probs = checked_predict(expert, Context(inputs, hidden, kappa), at).cpu()
        clean_log_probs, bound = torch.zeros(2, *tokens.shape, dtype=torch.float64)
        clean_log_probs[at] = log_probs.gather(-1, tokens[at][:, None])[:, 0].double()
        is_clean = ((inputs == tokens) & ~hidden)[at].double()
        input_probs = log_probs.gather(-1, inputs[at][:, None])[:, 0].double().exp() * ~hidden[at]
        bound[at] = (1 - is_clean) * clean_log_probs[at] - is_clean + input_probs
        nats.append(-clean_log_probs.sum(-1))
        bounds.append(-bound.sum(-1))
    return Scores(
        torch.cat(nats),
        torch.cat(bounds) / (1 - windows.kappa.double().clamp(max=MAX_KAPPA)),
        (windows.bytes * windows.scored).sum(-1),
        windows.bytes.sum(-1),
        windows.documents,
    )


def ratio(numerator: Tensor, denominator: Tensor, documents: Tensor) -> Estimate:
    """Estimate the ratio of two sums over windows, with a bootstrap over documents."""
    if not denominator.sum() > 0:
        raise ConservatorError("no position of these windows is scored; use more or longer windows")
    value = float(numerator.sum() / denominator.sum())
    return interval(value, resampled_ratios(numerator, denominator, documents))


def interval(value: float, resampled: Tensor) -> Estimate:
    """Create an estimate with the central 95 % of its resampled values; nan, from an empty draw, is ignored."""
    low, high = resampled.nanquantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return Estimate(value, low, high)


def resampled_ratios(numerator: Tensor, denominator: Tensor, documents: Tensor) -> Tensor:
    """Compute the ratio in RESAMPLES draws of documents; the draws depend only on the number of documents."""
    _, cluster = documents.unique(return_inverse=True)
    if cluster.max() == 0:
        cluster = torch.arange(len(documents))
    count = int(cluster.max()) + 1
    numerators, denominators = torch.zeros(2, count, dtype=torch.float64)
    numerators.index_add_(0, cluster, numerator.double())
    denominators.index_add_(0, cluster, denominator.double())
    generator = torch.Generator().manual_seed(0)
    ratios = []
    for draws in torch.arange(RESAMPLES).split(max(1, MAX_DRAWN // count)):
        drawn = torch.randint(count, (len(draws), count), generator=generator)
        ratios.append(numerators[drawn].sum(1) / denominators[drawn].sum(1))
    return torch.cat(ratios)
