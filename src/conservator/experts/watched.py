"""An expert that says when it was asked, for progress, and for a caller who wants to stop."""

from collections.abc import Callable

from torch import Tensor

from conservator.experts.expert import Expert, ExpertSpec


class Watched:
    """An expert that calls ``tell`` with the number of sequences after it read them; ``tell`` may raise."""

    def __init__(self, expert: Expert, tell: Callable[[int], None]) -> None:
        """Watch ``expert``."""
        self.expert, self.tell = expert, tell

    @property
    def spec(self) -> ExpertSpec:
        """The expert's description."""
        return self.expert.spec

    def log_probs(self, tokens: Tensor, hidden: Tensor, kappa: float | Tensor) -> Tensor:
        """What the expert says."""
        said = self.expert.log_probs(tokens, hidden, kappa)
        self.tell(len(tokens))
        return said
