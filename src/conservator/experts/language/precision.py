"""How a network computes: in float32 or bfloat16, whichever this machine is quicker at."""

import time
from collections.abc import Callable
from functools import cache
from typing import Literal

import torch
from torch import Tensor, nn

Precision = Literal["float32", "bfloat16"]
ROWS, WIDTH = 64, 768  # a typical product: so many tokens in one step, through a layer so wide
MARGIN = 1.15  # float32 has no loss: another must be this much quicker


def choose_precision() -> Precision:
    """The precision in which one typical product is quicker here, measured once in a process (some milliseconds)."""
    return _quickest(torch.get_num_threads())


@cache
def _quickest(threads: int) -> Precision:
    """Measure; what is quickest may depend on the number of threads."""
    drawn = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(rows, WIDTH, generator=drawn) for rows in (ROWS, 2 * WIDTH))
    ways: dict[Precision, Callable[[], Tensor]] = {"float32": lambda: nn.functional.linear(x, weight)}
    halves = x.bfloat16(), weight.bfloat16()
    ways["bfloat16"] = lambda: nn.functional.linear(*halves)
    with torch.inference_mode():
        seconds = {name: _seconds(way) * (1 if name == "float32" else MARGIN) for name, way in ways.items()}
    return min(seconds, key=lambda name: seconds[name])


def _seconds(way: Callable[[], Tensor], tries: int = 5) -> float:
    """The time of the quickest of some tries, after one that does not count."""
    way()
    taken = []
    for _ in range(tries):
        start = time.perf_counter()
        way()
        taken.append(time.perf_counter() - start)
    return min(taken)
