"""Compilation of numerical kernels where numba is installed, and two shared operations."""

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
        """Compile ``kernel`` on first use, and cache the machine code on disk for later processes.

        If no cache folder is writable (a read-only installation without a home folder), every process compiles again.
        """
        try:
            return njit(cache=True)(kernel)  # type: ignore[return-value]
        except RuntimeError:  # numba's "no locator available": no cache folder is writable
            return njit(kernel)  # type: ignore[no-any-return]


@compiled
def add_logs(first: float, second: float) -> float:
    """Return log(exp(first) + exp(second))."""
    if first < second:
        first, second = second, first
    return first if second == -np.inf else first + float(np.log1p(np.exp(second - first)))


def runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the maximal runs of True in ``flags`` (L,), as half-open ranges."""
    edges = np.flatnonzero(np.diff(flags.astype(np.int8), prepend=0, append=0)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))
