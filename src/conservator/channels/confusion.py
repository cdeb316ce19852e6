"""An arbitrary memoryless channel, given by its confusion matrix."""

from dataclasses import dataclass

import torch
from torch import Tensor

from conservator.channels.channel import Channel, check_tokens
from conservator.channels.likelihood import Likelihood
from conservator.channels.observation import Observation, Status
from conservator.errors import ConservatorError

SUM_TOLERANCE = 1e-6  # probability: accepted deviation of the sum of a row from 1 [numerical]


@dataclass(frozen=True)
class ConfusionLikelihood(Likelihood):
    """The likelihood is the column of the confusion matrix for the observed symbol.

    Attributes:
        log_columns: (symbols, V) log matrix[v, y], a row for each symbol y.
    """

    log_columns: Tensor

    @property
    def symbols(self) -> int:
        """The number of columns."""
        return len(self.log_columns)

    def table(self) -> Tensor:
        """Return log c_l(v) = log matrix[v, y_l]: (..., L, V)."""
        return self.log_columns[self.tokens]


class ConfusionChannel(Channel):
    """Token v is observed as symbol y with probability matrix[v, y].

    The mask and replacement channels are special cases. Every symbol of the matrix is uncertain, even a symbol that
    stands for an erasure: only its flat column distinguishes it. If the matrix has no symbol V, then V stands for a
    token that was lost in another way.
    """

    def __init__(self, matrix: Tensor) -> None:
        """Make the channel with the confusion ``matrix``: (V, outputs), rows on the simplex."""
        matrix = torch.as_tensor(matrix)
        if matrix.ndim != 2 or 0 in matrix.shape or matrix.is_complex():
            raise ConservatorError(
                f"the confusion matrix must have the shape (tokens, output symbols), got shape {tuple(matrix.shape)}"
            )
        matrix = matrix.to(torch.float64)
        invalid = ~((matrix >= 0) & (matrix <= 1)).all(dim=1) | ~((matrix.sum(dim=1) - 1).abs() <= SUM_TOLERANCE)
        if invalid.any():
            row = int(invalid.nonzero()[0])
            raise ConservatorError(
                f"row {row} of the confusion matrix is not a distribution (its sum is {matrix[row].sum().item():.6g}); "
                "entries must be in [0, 1] and sum to 1"
            )
        self.vocab_size, self.outputs = matrix.shape
        self.matrix = matrix / matrix.sum(dim=1, keepdim=True)
        missing = max(0, self.vocab_size + 1 - self.outputs)  # symbols up to V that the matrix lacks
        flat = torch.zeros(missing, self.vocab_size, dtype=torch.float64)
        self._log_columns = torch.cat([self.matrix.log().T, flat]).contiguous()

    def corrupt(self, tokens: Tensor, generator: torch.Generator) -> Observation:
        """Draw y_l ~ matrix[x_l] for ``tokens`` (..., L)."""
        tokens = check_tokens(tokens, self.vocab_size)
        rows = self.matrix[tokens.reshape(-1)]
        drawn = torch.multinomial(rows, 1, generator=generator) if len(rows) else tokens.reshape(-1, 1)
        return self.observe(drawn.reshape(tokens.shape))

    def status(self, tokens: Tensor) -> Tensor:
        """Return UNCERTAIN for every symbol of the matrix, else LOST."""
        return torch.where(tokens >= self.outputs, Status.LOST, Status.UNCERTAIN).to(torch.uint8)

    def likelihood(self, tokens: Tensor) -> ConfusionLikelihood:
        """Return the column of each observed symbol."""
        return ConfusionLikelihood(tokens, self.vocab_size, self._log_columns)
