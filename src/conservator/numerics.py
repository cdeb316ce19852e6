"""Compilation of numerical kernels, where numba is installed, and two operations that many layers use."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

try:
    from numba import njit
except ImportError:  # numba supports new Python releases months late; without it the kernels run as plain Python

    def compiled(kernel: Kernel) -> Kernel:
        """Return ``kernel`` unchanged."""
        return kernel
else:

    def compiled(kernel: Kernel) -> Kernel:
        """Compile ``kernel`` on first use, and keep the machine code on disk for the next process.

        If no folder for it can be written (a read-only installation without a home), every process compiles again.
        """
        try:
            return njit(cache=True)(kernel)  # type: ignore[return-value]
        except RuntimeError:  # numba's "no locator available": it found nowhere to keep the machine code
            return njit(kernel)  # type: ignore[no-any-return]


@compiled
def add_logs(one: float, other: float) -> float:
    """log(exp(one) + exp(other))."""
    if one < other:
        one, other = other, one
    return one if other == -np.inf else one + float(np.log1p(np.exp(other - one)))


def runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The maximal runs of True in ``flags`` (L,), as half-open ranges."""
    edges = np.flatnonzero(np.diff(flags.astype(np.int8), prepend=0, append=0)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))
