"""Speed of the smoothers, and distance of the paper's per-column variant from the optimum.

    python benchmarks/smoothing.py [--json FILE]

1. The scalar fused lasso at n = 10^4, 10^5, 10^6, on noisy steps and on a ramp, compared with the direct algorithm that
   the paper cites (Condat 2013). The cost must be linear: the time per point must not grow.
2. The proximal map of equation (prox) at n = 1024, m = 3 and 5, compared with cvxpy and Clarabel, both at their default
   accuracy. Our duality gap is reported; the difference is mostly the error of Clarabel.
3. The per-column variant compared with the optimum: objective, largest difference, row sums before normalisation.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cvxpy
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from conservator.evaluation.provenance import commit, versions
from conservator.numerics import compiled
from conservator.reference import PerColumn, TotalVariation
from conservator.reference.smoothing.fused_lasso import fused_lasso
from conservator.system.files import write_atomically

Array = NDArray[np.float64]


@compiled
def direct(values: Array, tau: float) -> Array:
    """Solve the scalar fused lasso by the direct algorithm of Condat (IEEE Signal Processing Letters 20, 2013).

    The algorithm grows a segment while a value between ``low`` and ``high`` keeps the dual within [-tau, tau].
    Otherwise it returns to the last position where a bound was tight, so that the worst case is quadratic.
    """
    length = len(values)
    solution = np.empty(length)
    start = position = low_end = high_end = 0
    low, high = values[0] - tau, values[0] + tau
    low_dual, high_dual = tau, -tau
    # Not ``while True``: numba 0.68.1 compiles that wrongly here (docs/LOG.md).
    while position < length:
        if position == length - 1:
            if low_dual < 0.0:
                solution[start : low_end + 1] = low
                low_end += 1
                start = position = low_end
                low = values[position]
                low_dual, high_dual = tau, low + tau - high
            elif high_dual > 0.0:
                solution[start : high_end + 1] = high
                high_end += 1
                start = position = high_end
                high = values[position]
                low_dual, high_dual = high - tau - low, -tau
            else:
                solution[start:] = low + low_dual / (position - start + 1)
                position += 1
        elif values[position + 1] + low_dual - low < -tau:
            solution[start : low_end + 1] = low
            low_end += 1
            start = position = high_end = low_end
            low, high = values[position], values[position] + 2 * tau
            low_dual, high_dual = tau, -tau
        elif values[position + 1] + high_dual - high > tau:
            solution[start : high_end + 1] = high
            high_end += 1
            start = position = low_end = high_end
            low, high = values[position] - 2 * tau, values[position]
            low_dual, high_dual = tau, -tau
        else:
            position += 1
            low_dual += values[position] - low
            high_dual += values[position] - high
            if low_dual >= tau:
                low += (low_dual - tau) / (position - start + 1)
                low_dual, low_end = tau, position
            if high_dual <= -tau:
                high += (high_dual + tau) / (position - start + 1)
                high_dual, high_end = -tau, position
    return solution


def seconds(work: Callable[[], Any], repeats: int) -> float:
    """Return the minimum time of ``repeats`` calls after a warm-up call."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def scalar(random: np.random.Generator) -> list[dict[str, Any]]:
    """Time the scalar fused lasso and the direct algorithm at growing lengths."""
    rows = []
    for name in ("steps", "ramp"):
        for length in (10_000, 100_000, 1_000_000):
            steps = np.repeat(random.random(length // 200), 200) + 0.3 * random.normal(size=length)
            values = steps if name == "steps" else np.linspace(0.0, 1.0, length)
            difference = np.abs(fused_lasso(values, 0.6) - direct(values, 0.6)).max()
            ours = seconds(lambda values=values: fused_lasso(values, 0.6), 3)
            reference = seconds(lambda values=values: direct(values, 0.6), 1)
            rows.append(
                {
                    "input": name,
                    "n": length,
                    "ours_ns_per_point": 1e9 * ours / length,
                    "direct_ns_per_point": 1e9 * reference / length,
                    "direct_over_ours": reference / ours,
                    "difference": difference,
                }
            )
    return rows


def random_field(length: int, experts: int, random: np.random.Generator) -> Array:
    """Draw a field: the mean of segments of 16 positions with one expert, and Dirichlet noise."""
    segments = np.eye(experts)[np.repeat(random.integers(experts, size=length // 16), 16)]
    field: Array = 0.5 * segments + 0.5 * random.dirichlet(np.ones(experts), size=length)
    return field


def solve(field: Array, tau: float) -> tuple[Array, float]:
    """Solve equation (prox) by cvxpy and Clarabel at default accuracy; return the solution and its seconds."""
    variable = cvxpy.Variable(field.shape)
    jumps = cvxpy.sum(cvxpy.abs(cvxpy.diff(variable, axis=0)))
    simplex = [variable >= 0, cvxpy.sum(variable, axis=1) == 1]
    objective = cvxpy.Minimize(0.5 * cvxpy.sum_squares(variable - field) + tau * jumps)
    problem = cvxpy.Problem(objective, simplex)
    problem.solve(solver="CLARABEL")
    return variable.value, problem.solver_stats.solve_time


def objective(field: Array, target: Array, tau: float) -> float:
    """Compute the objective of equation (prox)."""
    return float(0.5 * ((field - target) ** 2).sum() + tau * np.abs(np.diff(field, axis=0)).sum())


def simplex(random: np.random.Generator) -> list[dict[str, Any]]:
    """Time the proximal map and cvxpy, and compare the per-column variant with the optimum."""
    rows = []
    for experts in (3, 5):
        field = random_field(1024, experts, random)
        for tau in (0.1, 0.6, 3.0):
            smoother = TotalVariation(tau)
            best = smoother(field)
            column = PerColumn(tau)(field).field
            sums = sum(fused_lasso(weights, tau) for weights in field.T)
            solution, clarabel_seconds = solve(field, tau)
            ours_seconds = seconds(lambda smoother=smoother, field=field: smoother(field), 5)
            cvxpy_seconds = seconds(lambda field=field, tau=tau: solve(field, tau), 2)
            optimum = objective(best.field, field, tau)
            rows.append(
                {
                    "m": experts,
                    "tau": tau,
                    "ours_ms": 1e3 * ours_seconds,
                    "iterations": best.iterations,
                    "gap": best.gap,
                    "cvxpy_ms": 1e3 * cvxpy_seconds,
                    "clarabel_ms": 1e3 * clarabel_seconds,
                    "cvxpy_over_ours": cvxpy_seconds / ours_seconds,
                    "difference": float(np.abs(best.field - solution).max()),
                    "per_column_excess_percent": 100 * (objective(column, field, tau) / optimum - 1),
                    "per_column_difference": float(np.abs(column - best.field).max()),
                    "per_column_sums_off": float(np.abs(sums - 1).max()),
                }
            )
    return rows


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """Print the rows as a table."""
    table = Table(title=title, title_justify="left")
    for key in rows[0]:
        table.add_column(key.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()))
    Console(width=150).print(table)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="output file")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    random = np.random.default_rng(arguments.seed)
    tables = {"scalar": scalar(random), "simplex": simplex(random)}
    show("Scalar fused lasso, tau = 0.6", tables["scalar"])
    show("Proximal map on the simplex, n = 1024", tables["simplex"])
    if arguments.json:
        machine = f"{platform.machine()}, {os.cpu_count()} cores"
        record = {"commit": commit(), "seed": arguments.seed, "machine": machine, "versions": versions(), **tables}
        write_atomically(arguments.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
