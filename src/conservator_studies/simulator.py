"""Recovery of a known field: section "Recovering a known composition field", table "toy", figure "field"."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from conservator.channels import Observation, ReplacementChannel
from conservator.evaluation.figures import BLUE, GREY, ORANGE, new_figure
from conservator.experts import Context, Team
from conservator.field import log_pool
from conservator.reference import (
    CategoricalExpert,
    FactorisedEvidence,
    decode_posterior,
    denoising_score,
    infer_field,
    sample_categorical,
)
from conservator.training import noise
from conservator_studies.denoiser import Denoiser, train_denoiser
from conservator_studies.result import Column, Findings, Metrics, TableSpec
from conservator_studies.simulation import divergence, draw_experts, field_error, true_field
from conservator_studies.statistics import Measurements
from conservator_studies.study import Study, Track


@dataclass(frozen=True)
class Config:
    """Configuration of the study; the defaults are the paper's values, if it states them."""

    repeats: int = 5
    vocab_size: int = 12
    length: int = 48
    gap: float = 2.5
    rate: float = 0.4
    observations: int = 3000
    training_sequences: int = 20_000
    training_steps: int = 800
    training_batch: int = 256
    width: int = 128
    scored_sequences: int = 1000
    score_samples: int = 128


PRESETS = {"laptop": Config(), "paper": Config(repeats=20)}
TABLES = [
    TableSpec("Field recovery and reconstruction", [Column("mae", "field MAE", 4), Column("accuracy", "accuracy", 4)]),
    TableSpec(
        "Correlation of the surrogate with the exact log-likelihood, on samples of the expert",
        [Column("correlation_1", "expert 1", 3), Column("correlation_2", "expert 2", 3)],
    ),
    TableSpec(
        "Correlation of the surrogate with the exact log-likelihood, on samples of the true field",
        [Column("mixed_correlation_1", "expert 1", 3), Column("mixed_correlation_2", "expert 2", 3)],
    ),
    TableSpec("Divergence of the experts", [Column("divergence", "measured KL (nats)", 3)]),
]
LABELS = {
    "true_field": "Ground-truth field",
    "exact": "Exact evidence",
    "surrogate": "Flow-matching surrogate",
    "surrogate_unweighted": "Surrogate, unweighted",
    "equal": "Equal weights",
    "single": "Single expert",
    "damaged": "Observation, not restored",
    "experts": "Both experts",
}
PAPER = {
    "true_field": {"mae": 0.0, "accuracy": 0.652},
    "exact": {"mae": 0.013, "accuracy": 0.652},
    "surrogate": {"mae": 0.031, "accuracy": 0.652, "correlation_1": 0.974, "correlation_2": 0.971},
    "equal": {"mae": 0.333, "accuracy": 0.634},
    "single": {"mae": 0.500, "accuracy": 0.382},
    "experts": {"divergence": 4.56},
}


def run(config: Config, seed: int, track: Track, resources: None = None) -> Findings:
    """Repeat the study ``config.repeats`` times, each time with new experts, observations and training."""
    measured = Measurements()
    fields: dict[str, list[Tensor]] = defaultdict(list)
    for repeat in track(range(config.repeats), "simulator"):
        generator = torch.Generator().manual_seed(1000 * seed + repeat)
        metrics, inferred_fields = run_once(config, generator)
        for method, values in metrics.items():
            measured.add(method, values)
        for method, field in inferred_fields.items():
            fields[method].append(field)
    return Findings(measured.rows(PAPER), {"simulator_field": draw(true_field(config.length), fields)})


def run_once(config: Config, generator: torch.Generator) -> tuple[dict[str, Metrics], dict[str, Tensor]]:
    """Draw experts and observations, recover the field with every method, and decode new sequences with each field.

    Accuracy is over all positions, because the channel does not mark the tokens that it replaced. ``single`` is the
    mean of the two experts. The correlations are between equation (dscore), summed over a sequence, and the
    log-likelihood of the sequence.

    Returns:
        The metrics of each method, and the inferred fields.
    """
    experts = draw_experts(config.vocab_size, config.length, config.gap, generator)
    exact = torch.stack([expert.log_marginals for expert in experts])
    truth = true_field(config.length)
    prior = log_pool(exact, truth)
    channel = ReplacementChannel(config.vocab_size, config.rate)
    observed = channel.corrupt(sample_categorical(prior, config.observations, generator), generator)
    denoisers = [train_on(expert, config, generator) for expert in experts]
    weighted, unweighted = surrogate_energies(denoisers, observed, generator)

    vertices = torch.eye(2, dtype=torch.float64)
    constant = {"equal": vertices.mean(0), "first": vertices[0], "second": vertices[1]}
    energies = {"exact": exact, "surrogate": weighted, "surrogate_unweighted": unweighted}
    solutions = {method: infer_field(FactorisedEvidence(table, observed)) for method, table in energies.items()}
    fields = {
        "true_field": truth,
        **{method: solution.field for method, solution in solutions.items()},
        **{name: weight.expand_as(truth) for name, weight in constant.items()},
    }
    clean = sample_categorical(prior, config.observations, generator)
    observation = channel.corrupt(clean, generator)
    metrics = {}
    for method, field in fields.items():
        decoded = decode_posterior(observation, log_pool(exact, field)).tokens
        accuracy = float((decoded == clean).double().mean())
        metrics[method] = {"mae": field_error(field, truth), "accuracy": accuracy}
    first, second = metrics.pop("first"), metrics.pop("second")
    metrics["single"] = {metric: (first[metric] + second[metric]) / 2 for metric in first}
    metrics["damaged"] = {"accuracy": float((observation.tokens == clean).double().mean())}
    for method, solution in solutions.items():
        metrics[method]["converged"] = float(solution.converged)
    metrics["experts"] = {"divergence": divergence(*experts)}
    for number, (expert, denoiser) in enumerate(zip(experts, denoisers, strict=True), start=1):
        samples = sample_categorical(expert.log_marginals, config.scored_sequences, generator)
        for name, tokens in (("correlation", samples), ("mixed_correlation", clean[: config.scored_sequences])):
            scores = denoising_score(Team([denoiser]), tokens, config.score_samples, generator).sum(-1)
            metrics["surrogate"][f"{name}_{number}"] = correlation(-scores, expert.log_density(tokens))
    return metrics, {method: solution.field for method, solution in solutions.items()}


def train_on(expert: CategoricalExpert, config: Config, generator: torch.Generator) -> Denoiser:
    """Train a flow-matching expert on samples of ``expert``, without access to its densities."""
    samples = sample_categorical(expert.log_marginals, config.training_sequences, generator)
    return train_denoiser(
        samples,
        config.vocab_size,
        width=config.width,
        steps=config.training_steps,
        batch=config.training_batch,
        generator=generator,
        name=expert.spec.name,
    )


def surrogate_energies(
    denoisers: list[Denoiser], observed: Observation, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Compute the denoising score of every candidate token, in the context of the observed sequences.

    A pass over noised observations gives -log p(v | context) for all v at each hidden position. The average over the
    passes in which a position is hidden is the schedule-weighted score of a factorised expert. The average over all
    passes, with 0 where the position is revealed, is the score of equation (dscore).

    Returns:
        Two tables of energies (minus scores), (m, L, V): weighted and unweighted.
    """
    weighted, unweighted = [], []
    for denoiser in denoisers:
        kappa, hidden = noise(observed.tokens, generator)
        at = hidden.nonzero(as_tuple=True)
        log_probs = torch.zeros(*hidden.shape, observed.vocab_size, dtype=torch.float64)
        log_probs[at] = denoiser.predict(Context(observed.tokens, hidden, kappa), at).double()
        total = log_probs.sum(0)
        weighted.append(total / hidden.sum(0)[:, None])
        unweighted.append(total / len(hidden))
    return torch.stack(weighted), torch.stack(unweighted)


def correlation(first: Tensor, second: Tensor) -> float:
    """Pearson correlation of two vectors."""
    return float(torch.corrcoef(torch.stack([first, second]))[0, 1])


def draw(truth: Tensor, fields: dict[str, list[Tensor]]) -> Figure:
    """Plot figure "field": the fields of the first repeat, and the mean error at each position over all repeats."""
    figure = new_figure(8, 4.4)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1.3])
    third = len(truth) // 3
    positions = np.arange(len(truth))
    for start, text in ((0, "routed to expert 1"), (third, "routed to expert 2"), (2 * third, "fused")):
        above.text(start + third / 2 - 0.5, 1.09, text, ha="center", va="bottom", fontsize=9, color=GREY)
    for axes in (above, below):
        for boundary in (third, 2 * third):
            axes.axvline(boundary - 0.5, color="0.8", linewidth=1, zorder=0)
    above.step(positions, truth[:, 0], where="mid", color="black", linewidth=1.2, label="true field")
    marks = (("exact", "exact evidence", BLUE, "o"), ("surrogate", "flow-matching surrogate", ORANGE, "^"))
    for method, label, colour, mark in marks:
        values = torch.stack(fields[method])
        above.plot(positions, values[0, :, 0], mark, color=colour, markersize=4.5, alpha=0.85, label=label)
        below.plot(positions, (values - truth).abs().mean((0, 2)), color=colour, linewidth=1.2)
    above.set(ylabel=r"weight of expert 1, $\lambda_{\ell,1}$", ylim=(-0.06, 1.06))
    above.legend(loc="upper right", bbox_to_anchor=(1.0, 0.97), frameon=False, fontsize=9)
    below.set(xlabel=r"position $\ell$", ylabel="mean |error|", ylim=(0, None), xlim=(-0.5, len(truth) - 0.5))
    return figure


STUDY = Study(presets=PRESETS, needs_resources=False, unit="repeats", tables=TABLES, labels=LABELS, run=run)
