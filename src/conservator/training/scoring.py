"""How well an expert predicts hidden bytes of documents: three measures, from one pass over windows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.experts import PAD, Context, Expert
from conservator.training.path import noise

RESAMPLES = 2000
LATEST = 1 - 1e-4  # the paper's t_epsilon, the largest kappa in the schedule's weight 1 / (1 - kappa)


@dataclass(frozen=True)
class Windows:
    """Windows of documents, with the bytes that are hidden in them. All experts are scored on the same windows.

    Attributes:
        tokens: (N, L) bytes; a document that is shorter than L is followed by PAD.
        hidden: (N, L) True where a byte is hidden.
        kappa: (N,) the times, stratified over the windows.
        documents: (N,) the document that each window is from.
    """

    tokens: Tensor
    hidden: Tensor
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
        nats: sum of -log p(x_l | visible) over the hidden positions.
        bound: the same, weighted by the schedule: nats / (1 - kappa).
        hidden: the number of hidden positions.
        length: the number of positions.
        documents: the document of each window.
    """

    nats: Tensor
    bound: Tensor
    hidden: Tensor
    length: Tensor
    documents: Tensor

    def per_hidden_byte(self) -> Estimate:
        """Nats per hidden byte, times uniform: the training loss."""
        return ratio(self.nats, self.hidden, self.documents)

    def energy(self) -> Estimate:
        """The all-position denoising energy in nats per byte: equation (dscore), where visible bytes count as 0."""
        return ratio(self.nats, self.length, self.documents)

    def bits_per_byte(self) -> Estimate:
        """The schedule-weighted upper bound on the bits per byte."""
        return ratio(self.bound / math.log(2), self.length, self.documents)


def cut_windows(documents: Sequence[bytes], count: int, length: int, seed: int) -> Windows:
    """Draw ``count`` windows: a document, with a probability proportional to its size, then a place in it.

    No window contains text of two documents.
    """
    if not any(documents):
        raise ConservatorError("there is no text to cut windows from")
    generator = torch.Generator().manual_seed(seed)
    ends = torch.tensor([len(document) for document in documents]).cumsum(0)
    chosen = torch.searchsorted(ends, torch.randint(int(ends[-1]), (count,), generator=generator), right=True)
    shares = torch.rand(count, generator=generator, dtype=torch.float64).tolist()
    length = min(length, max(map(len, documents)))
    tokens = torch.full((count, length), PAD)
    for row, (document, share) in enumerate(zip(chosen.tolist(), shares, strict=True)):
        text = documents[document]
        start = int(share * (max(0, len(text) - length) + 1))
        window = text[start : start + length]
        tokens[row, : len(window)] = torch.frombuffer(bytearray(window), dtype=torch.uint8)
    kappa, hidden = noise(tokens, generator)
    return Windows(tokens, hidden & (tokens != PAD), kappa, chosen)


def score(expert: Expert, windows: Windows, batch: int = 16) -> Scores:
    """Score an expert on windows."""
    nats = []
    parts = (windows.tokens.split(batch), windows.hidden.split(batch), windows.kappa.split(batch))
    for tokens, hidden, kappa in zip(*parts, strict=True):
        at = hidden.nonzero(as_tuple=True)
        log_probs = expert.predict(Context(tokens, hidden, kappa), at).cpu()
        truth = torch.zeros(tokens.shape, dtype=torch.float64)
        truth[at] = log_probs.gather(-1, tokens[at][:, None])[:, 0].double()
        nats.append(-truth.sum(-1))
    total = torch.cat(nats)
    return Scores(
        total,
        total / (1 - windows.kappa.double().clamp(max=LATEST)),
        windows.hidden.sum(-1),
        (windows.tokens != PAD).sum(-1),
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
    for _ in range(RESAMPLES):
        drawn = torch.randint(count, (count,), generator=generator)
        ratios.append(above[drawn].sum() / below[drawn].sum())
    return torch.stack(ratios)
