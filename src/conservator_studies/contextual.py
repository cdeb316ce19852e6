"""Enumerable contextual model: appendix "Contextual 2x2 validation", tables "ctx2x2" and "ctxrecover"."""

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
from conservator_studies.study import Study, Track


@dataclass(frozen=True)
class Config:
    """Configuration of the study.

    The paper states neither the scale of its energies nor its channel. With the channel of the simulator, unit variance
    reproduces the three cosines of the paper within 0.02 (docs/LOG.md, "Contextual model").
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
        "Total variation between the mean-field and the exact distribution",
        [Column("tv_prior", "prior", 2), Column("tv_posterior", "posterior", 2)],
    ),
    TableSpec("Recovery from N observations", [Column("mae", "field MAE", 3)]),
]
LABELS = {
    "exact_exact": "Exact energy, exact distribution",
    "surrogate_exact": "Surrogate energy, exact distribution",
    "exact_meanfield": "Exact energy, mean field",
    "surrogate_meanfield": "Surrogate energy, mean field",
    "weighted_exact": "Schedule-weighted energy, exact distribution",
    "weighted_meanfield": "Schedule-weighted energy, mean field",
}
PAPER = {
    "exact_exact": {"cosine": 1.0, "rmse": 0.0},
    "surrogate_exact": {"cosine": 0.646, "rmse": 0.259},
    "exact_meanfield": {"cosine": 0.923, "rmse": 0.129, "tv_prior": 0.38, "tv_posterior": 0.34},
    "surrogate_meanfield": {"cosine": 0.618, "rmse": 0.304},
}
PAPER_ERRORS = {1: 0.362, 4: 0.316, 16: 0.181, 64: 0.136, 256: 0.120, 1024: 0.099}  # observations -> field error
PAPER |= {f"n={count}": {"mae": error} for count, error in PAPER_ERRORS.items()}


@dataclass(frozen=True)
class Problem:
    """A field to recover.

    Attributes:
        experts: two random experts.
        sequences: (S, L) all sequences.
        energies: (m, L, S) local energies of the experts.
        truth: (L, m) true field.
        observed: (N, L) corrupted sequences from the pool of the true field.
    """

    experts: list[BigramExpert]
    sequences: Tensor
    energies: Tensor
    truth: Tensor
    observed: Observation


def run(config: Config, seed: int, track: Track, resources: None = None) -> Findings:
    """Compare gradients at the uniform field, and recover the field from increasing numbers of observations."""
    measured = Measurements()
    for repeat in track(range(config.repeats), "contextual"):
        problem = draw_problem(config, torch.Generator().manual_seed(1000 * seed + repeat))
        for method, metrics in (compare_gradients(problem) | recover(problem, config)).items():
            measured.add(method, metrics)
    return Findings(measured.rows(PAPER), {"contextual": draw(measured.values, config)})


def draw_problem(config: Config, generator: torch.Generator) -> Problem:
    """Draw experts, and observations of a field that gives nearly all weight to one expert in each half."""
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
    exact = evidence.log_prior(field).exp(), evidence.log_posterior(field)[0][0].exp()
    approximate = mean_field(problem, field, single)
    _, reference = evidence.value_and_gradient(field)
    measured = {
        "exact_exact": agreement(reference, finite_differences(evidence, field)),
        "surrogate_exact": agreement(gradient(surrogate, *exact), reference),
        "exact_meanfield": agreement(gradient(problem.energies, *approximate), reference),
        "surrogate_meanfield": agreement(gradient(surrogate, *approximate), reference),
        "weighted_exact": agreement(gradient(weighted, *exact), reference),
        "weighted_meanfield": agreement(gradient(weighted, *approximate), reference),
    }
    for name, p, q in zip(("tv_prior", "tv_posterior"), approximate, exact, strict=True):
        measured["exact_meanfield"][name] = float((p - q).abs().sum() / 2)
    return measured


def mean_field(problem: Problem, field: Tensor, observed: Observation) -> tuple[Tensor, Tensor]:
    """Mean-field prior and posterior (S,): products of the composed conditionals over positions.

    Under the replacement channel every token is uncertain. The experts predict with all tokens hidden; the posterior
    multiplies each prediction by its likelihood.
    """
    context = Context(torch.zeros_like(observed.tokens), torch.ones_like(observed.lost))
    log_probs = Team(problem.experts).predict(context, context.everywhere())  # (m, L, V), for the single sequence
    prior = log_pool(log_probs, field)
    posterior = observed.likelihood.log_posterior(prior)[0]
    positions = torch.arange(problem.sequences.shape[1])
    return prior[positions, problem.sequences].sum(-1).exp(), posterior[positions, problem.sequences].sum(-1).exp()


def gradient(energies: Tensor, prior: Tensor, posterior: Tensor) -> Tensor:
    """Posterior minus prior mean of each local energy under two distributions (S,): equation (seq_gradient)."""
    return torch.einsum("s,ils->li", posterior - prior, energies)


def finite_differences(evidence: EnumeratedEvidence, field: Tensor, width: float = 1e-5) -> Tensor:
    """Central differences (L, m) of the evidence with respect to the field."""
    estimate = torch.zeros_like(field)
    for index in np.ndindex(*field.shape):
        shift = torch.zeros_like(field)
        shift[index] = width
        above, below = (evidence.value_and_gradient(field + sign * shift)[0] for sign in (1, -1))
        estimate[index] = (above - below) / (2 * width)
    return estimate


def agreement(estimate: Tensor, reference: Tensor) -> Metrics:
    """Cosine similarity and root-mean-square difference of two gradients."""
    cosine = torch.nn.functional.cosine_similarity(estimate.flatten(), reference.flatten(), dim=0)
    return {"cosine": float(cosine), "rmse": float((estimate - reference).square().mean().sqrt())}


def recover(problem: Problem, config: Config) -> dict[str, Metrics]:
    """Infer the field with the exact gradient from the first N observations, for each N."""
    errors = {}
    for count in config.all_observations:
        observed = problem.observed[:count]
        inferred = infer_field(EnumeratedEvidence(problem.energies, problem.sequences, observed))
        errors[f"n={count}"] = {
            "mae": field_error(inferred.field, problem.truth),
            "converged": float(inferred.converged),
        }
    return errors


def draw(measured: dict[str, dict[str, list[float]]], config: Config) -> Figure:
    """Plot the cosine of every seed, and the recovery error as a function of N, with the paper's means."""
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
            label = "paper, mean" if first else None
            left.plot(PAPER[method]["cosine"], line, "x", color=ORANGE, markersize=8, mew=2, label=label)
    left.set(
        xlabel=f"cosine with the exact gradient ({config.repeats} seeds)",
        yticks=range(len(shown)),
        ylim=(len(shown) - 0.4, -0.6),
    )
    left.set_yticklabels([LABELS[method] for method in shown])
    left.legend(frameon=False, fontsize=9, loc="upper left")
    counts = list(config.all_observations)
    errors = np.array([measured[f"n={count}"]["mae"] for count in counts])
    lines = right.plot(counts, errors, color=BLUE, alpha=0.15, linewidth=1)
    lines[0].set_label("one seed")
    right.plot(counts, errors.mean(1), "o-", color=BLUE, markersize=5, label=f"ours, mean of {config.repeats} seeds")
    right.plot(counts, [PAPER_ERRORS[count] for count in counts], "x--", color=ORANGE, mew=2, label="paper")
    right.axhline(0.5 - config.softening, color=GREY, linestyle=":", linewidth=1)
    right.text(counts[-1], 0.5 - config.softening, "uniform field", color=GREY, fontsize=9, ha="right", va="bottom")
    right.set(xscale="log", xlabel="observations $N$", ylabel="field mean absolute error", ylim=(0, 1))
    right.legend(frameon=False, fontsize=9)
    return figure


STUDY = Study(presets=PRESETS, needs_resources=False, unit="repeats", tables=TABLES, labels=LABELS, run=run)
