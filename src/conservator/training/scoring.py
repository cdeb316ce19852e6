"""How well an expert predicts noisy tokens of documents: three measures per byte, from one pass over windows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.experts import PAD, Context, Expert, MaskSource, Source
from conservator.experts.expert import ask
from conservator.training.corpus import tokenise
from conservator.training.path import mislead, noise
from conservator.vocabularies import BYTES, Tokens, Vocabulary

RESAMPLES = 2000
DRAWN = 2**18  # documents that are drawn at a time in resampling
CHUNK = 2**28  # bytes of predictions that are computed at a time
LATEST = 1 - 1e-4  # the paper's t_epsilon, the largest kappa in the schedule's weight 1 / (1 - kappa)


@dataclass(frozen=True)
class Windows:
    """Windows of documents with noise in them. Experts of one vocabulary and source are scored on the same windows.

    Attributes:
        tokens: (N, L) the right tokens; a window that is shorter than L is followed by PAD.
        read: (N, L) the tokens that an expert reads: with a uniform source, some of them wrong.
        hidden: (N, L) True where a token is hidden; nowhere with a uniform source.
        asked: (N, L) True where a prediction counts: at hidden tokens, or at all if an expert cannot see the noise.
        bytes: (N, L) how many bytes each token stands for; 0 for PAD.
        kappa: (N,) the times, stratified over the windows.
        documents: (N,) the document that each window is from.
    """

    tokens: Tensor
    read: Tensor
    hidden: Tensor
    asked: Tensor
    bytes: Tensor
    kappa: Tensor
    documents: Tensor


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval, from a bootstrap over documents (over windows, where there is one document)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Scores:
    """Sums over each window, (N,) each.

    Attributes:
        nats: sum of -log p(x_l | what is read) over the positions that are asked: the hidden ones, or all.
        bound: the bound of flow matching on -log p(x), weighted by the schedule; with a mask source nats / (1 - kappa).
        hidden: the number of bytes at these positions.
        length: the number of all bytes.
        documents: the document of each window.
    """

    nats: Tensor
    bound: Tensor
    hidden: Tensor
    length: Tensor
    documents: Tensor

    def per_hidden_byte(self) -> Estimate:
        """Nats per byte that is predicted, times uniform: the training loss."""
        return ratio(self.nats, self.hidden, self.documents)

    def energy(self) -> Estimate:
        """The all-position denoising energy in nats per byte: equation (dscore), where visible bytes count as 0."""
        return ratio(self.nats, self.length, self.documents)

    def bits_per_byte(self) -> Estimate:
        """The schedule-weighted upper bound on the bits per byte."""
        return ratio(self.bound / math.log(2), self.length, self.documents)


def cut_windows(
    documents: Sequence[bytes],
    count: int,
    length: int,
    seed: int,
    vocabulary: Vocabulary = BYTES,
    source: Source | None = None,
    limit: int | None = None,
) -> Windows:
    """Draw ``count`` windows: a document, with a probability proportional to its size, then a place in it.

    No window contains text of two documents. For every vocabulary the windows are the same text, but for a character
    that is cut off at either end, which only bytes can say, and for what is beyond ``limit`` tokens.

    Args:
        documents: the texts.
        count: N.
        length: bytes per window.
        seed: of the windows and of the noise.
        vocabulary: the tokens.
        source: the noise; a mask if None.
        limit: the most tokens of a window.
    """
    if not any(documents):
        raise ConservatorError("there is no text to cut windows from")
    generator = torch.Generator().manual_seed(seed)
    ends = torch.tensor([len(document) for document in documents]).cumsum(0)
    chosen = torch.searchsorted(ends, torch.randint(int(ends[-1]), (count,), generator=generator), right=True)
    shares = torch.rand(count, generator=generator, dtype=torch.float64).tolist()
    length = min(length, max(map(len, documents)))
    rows = []
    for document, share in zip(chosen.tolist(), shares, strict=True):
        text = documents[document]
        start = int(share * (max(0, len(text) - length) + 1))
        rows.append(tokenise(text[start : start + length], vocabulary)[:limit])
    tokens = torch.full((count, max(map(len, rows)) if isinstance(vocabulary, Tokens) else length), PAD)
    for place, row in enumerate(rows):
        tokens[place, : len(row)] = torch.tensor(row, dtype=torch.long)
    real = tokens != PAD
    sizes = torch.tensor([len(piece) for piece in vocabulary.token_bytes]) if isinstance(vocabulary, Tokens) else None
    stand_for = real.long() if sizes is None else sizes[tokens.clamp_min(0)] * real
    kappa, noisy = noise(tokens, generator)
    noisy &= real
    if (source or MaskSource()).shows_noise:
        return Windows(tokens, tokens, noisy, noisy, stand_for, kappa, chosen)
    read = mislead(tokens, noisy, vocabulary.size, generator)
    return Windows(tokens, read, torch.zeros_like(noisy), real, stand_for, kappa, chosen)


def score(expert: Expert, windows: Windows, batch: int = 16) -> Scores:
    """Score an expert on windows.

    At a position whose right token is x and where u is read, the bound adds ([u != x] (-log p(x)) + [u = x] - p(u)) /
    (1 - kappa); p(u) is 0 for a mask, and 1 where an expert with a mask source copies.
    """
    nats, bounds = [], []
    batch = max(1, min(batch, CHUNK // (4 * expert.spec.vocabulary.size * windows.tokens.shape[1])))
    parts = (windows.tokens, windows.read, windows.hidden, windows.asked, windows.kappa)
    for tokens, read, hidden, asked, kappa in zip(*(part.split(batch) for part in parts), strict=True):
        at = asked.nonzero(as_tuple=True)
        log_probs = ask(expert, Context(read, hidden, kappa), at).cpu()
        truth, bound = torch.zeros(2, *tokens.shape, dtype=torch.float64)
        truth[at] = log_probs.gather(-1, tokens[at][:, None])[:, 0].double()
        right = ((read == tokens) & ~hidden)[at].double()
        kept = log_probs.gather(-1, read[at][:, None])[:, 0].double().exp() * ~hidden[at]
        bound[at] = (1 - right) * truth[at] - right + kept
        nats.append(-truth.sum(-1))
        bounds.append(-bound.sum(-1))
    return Scores(
        torch.cat(nats),
        torch.cat(bounds) / (1 - windows.kappa.double().clamp(max=LATEST)),
        (windows.bytes * windows.asked).sum(-1),
        windows.bytes.sum(-1),
        windows.documents,
    )


def ratio(numerator: Tensor, denominator: Tensor, documents: Tensor) -> Estimate:
    """The ratio of two sums over windows, with a bootstrap over documents."""
    if not denominator.sum() > 0:
        raise ConservatorError("nothing is hidden in these windows, so nothing can be scored; take more or longer ones")
    value = float(numerator.sum() / denominator.sum())
    return interval(value, resampled_ratios(numerator, denominator, documents))


def interval(value: float, resampled: Tensor) -> Estimate:
    """An estimate with the middle 95 % of its resampled values; nan, from draws with nothing hidden, is ignored."""
    low, high = resampled.nanquantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return Estimate(value, low, high)


def resampled_ratios(numerator: Tensor, denominator: Tensor, documents: Tensor) -> Tensor:
    """The ratio in each of RESAMPLES draws of documents; the draws depend only on the number of documents."""
    _, cluster = documents.unique(return_inverse=True)
    if cluster.max() == 0:
        cluster = torch.arange(len(documents))
    count = int(cluster.max()) + 1
    above, below = torch.zeros(2, count, dtype=torch.float64)
    above.index_add_(0, cluster, numerator.double())
    below.index_add_(0, cluster, denominator.double())
    generator = torch.Generator().manual_seed(0)
    ratios = []
    for some in torch.arange(RESAMPLES).split(max(1, DRAWN // count)):
        drawn = torch.randint(count, (len(some), count), generator=generator)
        ratios.append(above[drawn].sum(1) / below[drawn].sum(1))
    return torch.cat(ratios)
