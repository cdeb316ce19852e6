"""Means, standard deviations and intervals over independent repeats, and paired comparisons."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from conservator.errors import ConservatorError
from conservator_studies.result import Metrics, Row


class Measurements:
    """Metrics of each method in each repeat."""

    def __init__(self) -> None:
        """Create an empty collection."""
        self.values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def add(self, method: str, metrics: Metrics) -> None:
        """Add one repeat of ``method``."""
        for metric, value in metrics.items():
            self.values[method][metric].append(value)

    def rows(self, paper: Mapping[str, Metrics]) -> list[Row]:
        """Return one row per method: summarised metrics, number of repeats, and the paper's values."""
        rows: list[Row] = []
        for method, metrics in self.values.items():
            row: Row = {"method": method, "count": max(len(values) for values in metrics.values())}
            for metric, values in metrics.items():
                row |= summarise(metric, values)
            rows.append(row | {"paper": paper.get(method, {})})
        return rows


def summarise(metric: str, values: Sequence[float]) -> Metrics:
    """Return the mean as ``metric``, with ``_sd``, and the 95 % t-interval of the mean as ``_low`` and ``_high``.

    With a single repeat, only the mean is returned.
    """
    sample = np.asarray(values, dtype=np.float64)
    mean = float(sample.mean())
    if len(sample) < 2:
        return {metric: mean}
    sd = float(sample.std(ddof=1))
    half_width = student_quantile(0.975, len(sample) - 1) * sd / float(np.sqrt(len(sample)))
    return {metric: mean, f"{metric}_sd": sd, f"{metric}_low": mean - half_width, f"{metric}_high": mean + half_width}


def student_quantile(probability: float, freedom: int) -> float:
    """Quantile of Student's t distribution with ``freedom`` degrees of freedom."""
    try:
        from scipy import stats
    except ImportError as error:
        raise ConservatorError(
            "confidence intervals need an optional dependency: pip install 'conservator[studies]'"
        ) from error
    return float(stats.t.ppf(probability, freedom))


def compare(
    ours: Sequence[float], theirs: Sequence[float], prefix: str = "", *, resamples: int = 10_000, seed: int = 0
) -> Metrics:
    """Compare two methods on the same units, documents for example (appendix "Protocol and statistics").

    Returns:
        Metrics whose names start with ``prefix``: ``difference``, the mean of the paired differences, with its 95 %
        bootstrap interval; ``p``, the two-sided p-value of a sign-flip permutation test, at least 1 / (resamples + 1);
        ``d_z``, Cohen's d: mean over standard deviation of the differences, 0 if the standard deviation is 0.
    """
    paired = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    count, mean = len(paired), float(paired.mean())
    rng = np.random.default_rng(seed)
    means = paired[rng.integers(count, size=(resamples, count))].mean(axis=1)
    flipped = (2.0 * rng.integers(2, size=(resamples, count)) - 1) @ paired / count
    extreme = int((np.abs(flipped) >= abs(mean) * (1 - 1e-9)).sum())
    sd = float(paired.std(ddof=1)) if count > 1 else 0.0
    low, high = np.quantile(means, [0.025, 0.975])
    return {
        f"{prefix}difference": mean,
        f"{prefix}difference_low": float(low),
        f"{prefix}difference_high": float(high),
        f"{prefix}p": (extreme + 1) / (resamples + 1),
        f"{prefix}d_z": mean / sd if sd > 0 else 0.0,
    }
