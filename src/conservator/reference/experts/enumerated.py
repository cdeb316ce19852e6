"""The expert that is exact for any joint law small enough to enumerate, with either source."""

import torch
from torch import Tensor
from torch.nn import functional

from conservator.errors import ConservatorError
from conservator.experts.expert import IMPOSSIBLE, At, Context, ExpertSpec, check_context, copy_visible
from conservator.experts.source import MaskSource, Source
from conservator.experts.uniform.path import check_uniform, log_channel
from conservator.reference.experts.sequences import LIMIT
from conservator.vocabularies import NumberedVocabulary


class EnumeratedExpert:
    """A joint law q over V^L as a table, and its Bayes denoiser: the oracle of what is derived from denoisers.

    With a mask source it predicts q(x_l | visible tokens), with a uniform source q(x_l | x_t) at time kappa, both by
    summing over all sequences. A shorter sequence has the law of the first positions.

    Attributes:
        log_joint: (V, ..., V) log q(x), one axis for each of L positions, normalised.
    """

    def __init__(self, log_joint: Tensor, source: Source | None = None, name: str = "enumerated") -> None:
        """Take the logarithm of a table with one axis for each position; it is normalised here."""
        sizes = set(log_joint.shape)
        if len(sizes) != 1 or not torch.isfinite(log_joint).all() or log_joint.numel() > LIMIT:
            raise ConservatorError(
                f"the table has the shape {tuple(log_joint.shape)}; it must be finite, with one axis of V numbers for "
                f"each position, and at most {LIMIT} numbers"
            )
        self.log_joint = torch.log_softmax(log_joint.double().flatten(), dim=0).reshape(log_joint.shape)
        source = source or MaskSource()
        self.spec = ExpertSpec(
            name, NumberedVocabulary(sizes.pop()), log_joint.ndim, source=source, takes_time=not source.shows_noise
        )

    def log_density(self, tokens: Tensor) -> Tensor:
        """Return log q(x): (B,) for ``tokens`` (B, L)."""
        return self.log_joint[tuple(tokens.T)]

    def predict(self, context: Context, at: At) -> Tensor:
        """Return log q(x_l = v | what the source shows) at the positions ``at``: (n, V)."""
        check_context(self.spec, context)
        seen = self._log_visible(context) if self.spec.source.shows_noise else self._log_noised(context)
        rows = max(1, LIMIT // self.log_joint.numel())
        table = torch.cat([self._marginals(part) for part in seen.split(rows)])
        return copy_visible(table[at], context, at) if self.spec.source.shows_noise else table[at]

    def _log_visible(self, context: Context) -> Tensor:
        """(B, L, V) log [v agrees with the token, if it is visible]."""
        agrees = context.tokens[..., None] == torch.arange(self.spec.vocabulary.size)
        free = (context.hidden | ~context.real)[..., None]
        return torch.where(agrees | free, 0.0, IMPOSSIBLE).double()

    def _log_noised(self, context: Context) -> Tensor:
        """(B, L, V) log c(x_t,l | v); 0 for padding."""
        kappa = check_uniform(self.spec, context).double()[:, None, None]
        size = self.spec.vocabulary.size
        other, own = log_channel(kappa, size)
        agrees = context.tokens[..., None] == torch.arange(size)
        return torch.where(agrees, own, other).clamp_min(IMPOSSIBLE).masked_fill(~context.real[..., None], 0.0)

    def _marginals(self, seen: Tensor) -> Tensor:
        """(B, L, V) the log marginals of q times what is seen (B, L, V), normalised."""
        length = self.log_joint.ndim
        seen = functional.pad(seen, (0, 0, 0, length - seen.shape[1]))
        joint = self.log_joint.expand(len(seen), *self.log_joint.shape)
        for place, rows in enumerate(seen.unbind(1)):
            shape = [len(rows)] + [-1 if axis == place else 1 for axis in range(length)]
            joint = joint + rows.reshape(shape)
        tables = []
        for place in range(length):
            others = [axis + 1 for axis in range(length) if axis != place]
            tables.append(torch.log_softmax(torch.logsumexp(joint, dim=others) if others else joint, dim=-1))
        return torch.stack(tables, dim=1)
