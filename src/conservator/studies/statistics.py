"""Metrics gathered over independent repeats: means, spreads and intervals."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats


class Measurements:
    """What each method measured in each repeat."""

    def __init__(self) -> None:
        """Start empty."""
        self.values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def add(self, method: str, metrics: dict[str, float]) -> None:
        """Add one repeat of ``method``."""
        for metric, value in metrics.items():
            self.values[method][metric].append(value)

    def rows(self, paper: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
        """Return a row a method: its metrics summarised, how often it was measured, the paper's figures."""
        rows = []
        for method, metrics in self.values.items():
            row: dict[str, Any] = {"method": method, "count": max(len(values) for values in metrics.values())}
            for metric, values in metrics.items():
                row |= summarise(metric, values)
            rows.append(row | {"paper": paper.get(method, {})})
        return rows


def summarise(metric: str, values: Sequence[float]) -> dict[str, float]:
    """Return the mean as ``metric``, with ``_sd``, and the 95 % t-interval of the mean as ``_low`` and ``_high``.

    One repeat has no spread: then there is only the mean.
    """
    sample = np.asarray(values, dtype=np.float64)
    mean = float(sample.mean())
    if len(sample) < 2:
        return {metric: mean}
    sd = float(sample.std(ddof=1))
    half = float(stats.t.ppf(0.975, len(sample) - 1)) * sd / float(np.sqrt(len(sample)))
    return {metric: mean, f"{metric}_sd": sd, f"{metric}_low": mean - half, f"{metric}_high": mean + half}
