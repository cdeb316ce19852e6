"""The enumerable contextual model: appendix "Contextual 2x2 validation", tables "ctx2x2" and "ctxrecover"."""

from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from conservator.channels import Observation, ReplacementChannel
from conservator.evaluation.figures import BLUE, GREY, ORANGE, new_figure
from conservator.experts import Context, Team
from conservator.field import log_pool
from conservator.reference import BigramExpert, EnumeratedEvidence, all_sequences, expected_denoising_score, infer_field
from conservator_studies.result import Column, Findings, Metrics, TableSpec
from conservator_studies.simulation import field_error
from conservator_studies.statistics import Measurements
from conservator_studies.study import SimulatedStudy, Track


@dataclass(frozen=True)
class Config:
    """The sizes of the study.

    The paper gives neither the scale of its energies nor its channel. With the simulator's channel, unit variance
    gives the paper's three cosines within 0.02 (docs/LOG.md).
    """

    repeats: int = 20
    vocab_size: int = 4
    length: int = 4
    scale: float = 1.0
    rate: float = 0.4
    softening: float = 0.045
    all_observations: tuple[int, ...] = (1, 4, 16, 64, 256, 1024)


PRESETS = {"laptop": Config(), "paper": Config()}
TABLES = [
    TableSpec("Agreement with the exact gradient", [Column("cosine", "cosine", 3), Column("rmse", "RMSE", 3)]),
    TableSpec(
        "Total variation between the mean-field and the exact law",
        [Column("tv_prior", "prior", 2), Column("tv_posterior", "posterior", 2)],
    ),
    TableSpec("Recovery from N observations", [Column("mae", "field MAE", 3)]),
]
LABELS = {
    "exact_exact": "Exact energy, exact law",
    "surrogate_exact": "Surrogate energy, exact law",
    "exact_meanfield": "Exact energy, mean field",
    "surrogate_meanfield": "Surrogate energy, mean field",
    "weighted_exact": "Schedule-weighted energy, exact law",
    "weighted_meanfield": "Schedule-weighted energy, mean field",
}
PAPER = {
    "exact_exact": {"cosine": 1.0, "rmse": 0.0},
    "surrogate_exact": {"cosine": 0.646, "rmse": 0.259},
    "exact_meanfield": {"cosine": 0.923, "rmse": 0.129, "tv_prior": 0.38, "tv_posterior": 0.34},
    "surrogate_meanfield": {"cosine": 0.618, "rmse": 0.304},
    "n=1": {"mae": 0.362},
    "n=4": {"mae": 0.316},
    "n=16": {"mae": 0.181},
    "n=64": {"mae": 0.136},
    "n=256": {"mae": 0.120},
    "n=1024": {"mae": 0.099},
}


@dataclass(frozen=True)
class Problem:
    """A field to recover.

    Attributes:
        experts: two random experts.
        sequences: (S, L) all sequences.
        energies: (m, L, S) the local energies of the experts.
        truth: (L, m) the field.
        observed: (N, L) corrupted sequences of the field's pool.
    """

    experts: list[BigramExpert]
    sequences: Tensor
    energies: Tensor
    truth: Tensor
    observed: Observation


def run(config: Config, seed: int, track: Track) -> Findings:
    """Compare gradients at the uniform field, and recover the field from 1 to 1024 observations, 20 times."""
    measured = Measurements()
    for repeat in track(range(config.repeats), "contextual"):
        problem = draw_problem(config, torch.Generator().manual_seed(1000 * seed + repeat))
        for method, metrics in (compare_gradients(problem) | recover(problem, config)).items():
            measured.add(method, metrics)
    return Findings(measured.rows(PAPER), {"contextual": draw(measured.values, config)})


def draw_problem(config: Config, generator: torch.Generator) -> Problem:
    """Draw the experts, and observations of a field that gives nearly all weight to one expert in each half."""
    experts = [BigramExpert.random(config.vocab_size, config.scale, generator, name) for name in ("1", "2")]
    sequences = all_sequences(config.vocab_size, config.length)
    energies = torch.stack([expert.energies(sequences).T for expert in experts])
    first = torch.full((config.length,), config.softening, dtype=torch.float64)
    first[: config.length // 2] = 1 - config.softening
    truth = torch.stack([first, 1 - first], dim=1)
    prior = torch.softmax(torch.einsum("li,ils->s", truth, energies), dim=0)
    drawn = torch.multinomial(prior, max(config.all_observations), replacement=True, generator=generator)
    channel = ReplacementChannel(config.vocab_size, config.rate)
    return Problem(experts, sequences, energies, truth, channel.corrupt(sequences[drawn], generator))


def compare_gradients(problem: Problem) -> dict[str, Metrics]:
    """Cross exact and surrogate energies with exact and mean-field expectations, for the first observation."""
    single = problem.observed[:1]
    evidence = EnumeratedEvidence(problem.energies, problem.sequences, single)
    field = torch.full(evidence.shape, 0.5, dtype=torch.float64)
    surrogate, weighted = (
        torch.stack(
            [-expected_denoising_score(e, problem.sequences, schedule_weight=weight).T for e in problem.experts]
        )
        for weight in (False, True)
    )
    exact_law = evidence.log_prior(field).exp(), evidence.log_posterior(field)[0][0].exp()
    mean_law = mean_field(problem, field, single)
    _, reference = evidence.value_and_gradient(field)
    measured = {
        "exact_exact": agreement(reference, finite_differences(evidence, field)),
        "surrogate_exact": agreement(gradient(surrogate, *exact_law), reference),
        "exact_meanfield": agreement(gradient(problem.energies, *mean_law), reference),
        "surrogate_meanfield": agreement(gradient(surrogate, *mean_law), reference),
        "weighted_exact": agreement(gradient(weighted, *exact_law), reference),
        "weighted_meanfield": agreement(gradient(weighted, *mean_law), reference),
    }
    for name, mean, exact in zip(("tv_prior", "tv_posterior"), mean_law, exact_law, strict=True):
        measured["exact_meanfield"][name] = float((mean - exact).abs().sum() / 2)
    return measured


def mean_field(problem: Problem, field: Tensor, observed: Observation) -> tuple[Tensor, Tensor]:
    """The distributions (S,) with independent positions, drawn from the composed conditionals: prior and posterior.

    Under the replacement channel every token is doubtful, so the experts predict with everything hidden, and the
    posterior multiplies each prediction by its likelihood.
    """
    context = Context(torch.zeros_like(observed.tokens), torch.ones_like(observed.lost))
    log_probs = Team(problem.experts).predict(context, context.everywhere())  # (m, L, V): there is one sequence
    prior = log_pool(log_probs, field)
    posterior = observed.likelihood.log_posterior(prior)[0]
    places = torch.arange(problem.sequences.shape[1])
    return prior[places, problem.sequences].sum(-1).exp(), posterior[places, problem.sequences].sum(-1).exp()


def gradient(energies: Tensor, prior: Tensor, posterior: Tensor) -> Tensor:
    """Posterior minus prior mean of each local energy, equation (seq_gradient), under any two distributions (S,)."""
    return torch.einsum("s,ils->li", posterior - prior, energies)


def finite_differences(evidence: EnumeratedEvidence, field: Tensor, width: float = 1e-5) -> Tensor:
    """Central differences of the evidence in every coordinate of the field: (L, m)."""
    estimate = torch.zeros_like(field)
    for place in np.ndindex(*field.shape):
        shift = torch.zeros_like(field)
        shift[place] = width
        above, below = (evidence.value_and_gradient(field + sign * shift)[0] for sign in (1, -1))
        estimate[place] = (above - below) / (2 * width)
    return estimate


def agreement(estimate: Tensor, reference: Tensor) -> Metrics:
    """Cosine and root-mean-square difference of two gradients."""
    cosine = torch.nn.functional.cosine_similarity(estimate.flatten(), reference.flatten(), dim=0)
    return {"cosine": float(cosine), "rmse": float((estimate - reference).square().mean().sqrt())}


def recover(problem: Problem, config: Config) -> dict[str, Metrics]:
    """Infer the field by the exact gradient, from the first N observations for every N."""
    errors = {}
    for count in config.all_observations:
        observed = problem.observed[:count]
        found = infer_field(EnumeratedEvidence(problem.energies, problem.sequences, observed))
        errors[f"n={count}"] = {"mae": field_error(found.field, problem.truth), "converged": float(found.converged)}
    return errors


def draw(measured: dict[str, dict[str, list[float]]], config: Config) -> Figure:
    """Every seed's cosine in each configuration; the recovery error against N, beside the paper's means."""
    figure = new_figure(10, 3.6)
    left, right = figure.subplots(1, 2, width_ratios=[1.25, 1])
    shown = list(LABELS)
    for line, method in enumerate(shown):
        values = np.array(measured[method]["cosine"])
        height, first = np.full(len(values), line), line == 0
        label = "one seed" if first else None
        left.plot(values, height, "o", color=BLUE, alpha=0.35, markersize=5, markeredgewidth=0, label=label)
        left.plot(values.mean(), line, "D", color=BLUE, markersize=7, label="mean" if first else None)
        if "cosine" in PAPER.get(method, {}):
            label = "the paper's mean" if first else None
            left.plot(PAPER[method]["cosine"], line, "x", color=ORANGE, markersize=8, mew=2, label=label)
    left.set(
        xlabel=f"cosine with the exact gradient ({config.repeats} seeds)",
        yticks=range(len(shown)),
        ylim=(len(shown) - 0.4, -0.6),
    )
    left.set_yticklabels([LABELS[method] for method in shown])
    left.legend(frameon=False, fontsize=9, loc="upper left")
    places = list(config.all_observations)
    errors = np.array([measured[f"n={count}"]["mae"] for count in places])
    lines = right.plot(places, errors, color=BLUE, alpha=0.15, linewidth=1)
    lines[0].set_label("one seed")
    right.plot(places, errors.mean(1), "o-", color=BLUE, markersize=5, label=f"ours, mean of {config.repeats} seeds")
    right.plot(
        places, [PAPER[f"n={count}"]["mae"] for count in places], "x--", color=ORANGE, mew=2, label="the paper's"
    )
    right.axhline(0.5 - config.softening, color=GREY, linestyle=":", linewidth=1)
    right.text(places[-1], 0.5 - config.softening, "uniform field", color=GREY, fontsize=9, ha="right", va="bottom")
    right.set(xscale="log", xlabel="observations $N$", ylabel="field mean absolute error", ylim=(0, 1))
    right.legend(frameon=False, fontsize=9)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


STUDY = SimulatedStudy(presets=PRESETS, unit="repeats", tables=TABLES, labels=LABELS, run=run)
