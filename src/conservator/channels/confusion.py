"""Any memoryless channel, given by its confusion matrix."""

import torch
from torch import Tensor

from conservator.channels.channel import Channel, Observation, check_tokens
from conservator.errors import ConservatorError


class ConfusionChannel(Channel):
    """Token v comes out as symbol y with probability matrix[v, y].

    The mask and replacement channels are special cases. Nothing is hidden: a symbol that stands
    for a loss is told apart only by its flat column.
    """

    def __init__(self, matrix: Tensor) -> None:
        """Make the channel of ``matrix``: (V, outputs), rows on the simplex."""
        matrix = torch.as_tensor(matrix)
        if matrix.ndim != 2 or 0 in matrix.shape or matrix.is_complex():
            raise ConservatorError(
                f"the confusion matrix has the shape {tuple(matrix.shape)}; it must be (tokens, output symbols)"
            )
        matrix = matrix.to(torch.float64)
        bad = ~((matrix >= 0) & (matrix <= 1)).all(dim=1) | ~((matrix.sum(dim=1) - 1).abs() <= 1e-6)
        if bad.any():
            row = int(bad.nonzero()[0])
            raise ConservatorError(
                f"row {row} of the confusion matrix is not a distribution (its sum is {matrix[row].sum().item():.6g}); "
                "entries must lie in [0, 1] and sum to 1"
            )
        self.vocab_size, self.outputs = matrix.shape
        self.matrix = matrix / matrix.sum(dim=1, keepdim=True)
        self._log_columns = self.matrix.log().T.contiguous()

    def corrupt(self, tokens: Tensor, generator: torch.Generator) -> Observation:
        """Draw y_l ~ matrix[x_l] for ``tokens`` (..., L)."""
        tokens = check_tokens(tokens, self.vocab_size)
        rows = self.matrix[tokens.reshape(-1)]
        drawn = torch.multinomial(rows, 1, generator=generator) if len(rows) else tokens.reshape(-1, 1)
        return self.observe(drawn.reshape(tokens.shape))

    def log_likelihood(self, observation: Observation) -> Tensor:
        """Return log c_l(v) = log matrix[v, y_l]: (..., L, V)."""
        return self._log_columns[observation.tokens]
