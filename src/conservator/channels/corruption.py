"""Damage by the channels whose errors are in visible text, for tests of their restoration."""

from collections.abc import Callable

import numpy as np

Corrupt = Callable[[str, float, np.random.Generator], str]
# Name of a channel -> a function of a clean text, the rate of damage (0 to 1) and a source of randomness, which returns
# the damaged text. What the rate counts is stated by each function.
CORRUPT: dict[str, Corrupt] = {}
