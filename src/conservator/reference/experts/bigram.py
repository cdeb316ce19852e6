"""The contextual expert that is exact at any length: a normalised bigram-energy model."""

import torch
from torch import Tensor

from conservator.experts.expert import IMPOSSIBLE, At, Context, ExpertSpec, check_context, copy_visible
from conservator.vocabularies import NumberedVocabulary


class BigramExpert:
    """A chain whose local energies depend on the previous token (appendix "Contextual 2x2 validation").

        q(x) = exp(sum_l phi_l(x)) / Z,   phi_0(x) = initial[x_0],   phi_l(x) = transition[x_{l-1}, x_l]

    Its conditionals given any set of visible tokens follow from sum-product messages along the chain, so
    ``predict`` is the Bayes-optimal mask-source denoiser of q: an exact reference for estimators.
    The cost is O(L V^2) per sequence; it is meant for small V.
    """

    def __init__(self, initial: Tensor, transition: Tensor, name: str = "bigram") -> None:
        """Make the expert of ``initial`` (V,) and ``transition`` (V, V) energies."""
        self.initial = initial.to(torch.float64)
        self.transition = transition.to(torch.float64)
        self.spec = ExpertSpec(name, NumberedVocabulary(len(initial)))

    @classmethod
    def random(cls, vocab_size: int, scale: float, generator: torch.Generator, name: str = "bigram") -> "BigramExpert":
        """Draw all energies from N(0, scale^2)."""
        energies = torch.randn(vocab_size + 1, vocab_size, generator=generator, dtype=torch.float64) * scale
        return cls(energies[0], energies[1:], name)

    def energies(self, tokens: Tensor) -> Tensor:
        """Return the local energies phi_l(x): (B, L) for ``tokens`` (B, L)."""
        check_context(self.spec, Context(tokens, torch.zeros_like(tokens, dtype=torch.bool)))
        first = self.initial[tokens[:, :1]]
        return torch.cat([first, self.transition[tokens[:, :-1], tokens[:, 1:]]], dim=1)

    def log_density(self, tokens: Tensor) -> Tensor:
        """Return log q(x): (B,) for ``tokens`` (B, L)."""
        return self.energies(tokens).sum(-1) - self._log_normaliser(tokens.shape[1])

    def predict(self, context: Context, at: At) -> Tensor:
        """Return log q(x_l = v | visible tokens): (n, V), by forward and backward messages."""
        check_context(self.spec, context)
        tokens, padding = context.tokens, ~context.real
        hidden = context.hidden | padding
        batch, length = tokens.shape
        free = torch.zeros(batch, length, self.spec.vocabulary.size, dtype=torch.float64)
        candidates = torch.arange(self.spec.vocabulary.size)
        agrees = hidden[..., None] | (tokens[..., None] == candidates)
        seen = torch.where(agrees, free, IMPOSSIBLE)  # log [v agrees with the token, if visible]
        forward = [self.initial + seen[:, 0]]
        for position in range(1, length):
            step = forward[-1][:, :, None] + self.transition
            forward.append(torch.logsumexp(step, dim=1) + seen[:, position])
        backward = [free[:, 0]]
        for position in range(length - 1, 0, -1):
            step = self.transition + (backward[-1] + seen[:, position])[:, None, :]
            message = torch.logsumexp(step, dim=2)
            backward.append(message.masked_fill(padding[:, position, None], 0.0))  # the chain ends before padding
        joint = torch.stack(forward, dim=1)[at] + torch.stack(backward[::-1], dim=1)[at]
        return copy_visible(torch.log_softmax(joint, dim=-1), Context(tokens, hidden), at)

    def _log_normaliser(self, length: int) -> Tensor:
        """Return log Z for sequences of ``length``."""
        message = self.initial
        for _ in range(length - 1):
            message = torch.logsumexp(message[:, None] + self.transition, dim=0)
        return torch.logsumexp(message, dim=0)
