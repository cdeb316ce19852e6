"""Compile a numerical kernel where numba is installed; run it as it stands where it is not."""

from collections.abc import Callable
from typing import Any, TypeVar

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

try:
    from numba import njit
except ImportError:  # numba trails new Python releases by months; the kernels are plain Python too

    def compiled(kernel: Kernel) -> Kernel:
        """Leave ``kernel`` as it is."""
        return kernel
else:

    def compiled(kernel: Kernel) -> Kernel:
        """Compile ``kernel`` on first use, and keep the machine code on disk for the next process."""
        return njit(cache=True)(kernel)  # type: ignore[return-value]
