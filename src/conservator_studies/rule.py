"""Prediction of the gain of local weights over the global weight from the damaged text, and the measured gain.

The paper observes that the gain is larger for more distinct experts, and gives no rule. This study hides visible tokens
in turn and predicts them with local weights and with the global weight, both inferred without these tokens. The
difference predicts the gain on lost tokens. A setting is a kind of text, a team, a loss rate and a window length.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from conservator.channels import MaskChannel, Observation
from conservator.errors import ConservatorError
from conservator.evaluation.figures import BLUE, GREY, ORANGE, new_figure
from conservator.experts import Predictions, Team
from conservator.field import Inferred, global_prior, simplex_grid
from conservator.reference import GridFields, finest_resolution, held_out_gain, infer_grid, read_folds
from conservator.training import hold_out
from conservator.vocabularies import BYTES
from conservator_studies.baselines import Composed, Setting
from conservator_studies.byte import Trial
from conservator_studies.corpora import find_file, read_domain
from conservator_studies.expert_scales import fit_scales, scale_predictions
from conservator_studies.metrics import per_group
from conservator_studies.mixtures import Mixtures, mix
from conservator_studies.resources import Resources
from conservator_studies.restoration import Restored, describe, difference
from conservator_studies.result import Column, Findings, Metrics, Row, TableSpec
from conservator_studies.study import Study, Track

Array = NDArray[np.float64]
# role of an expert -> kind of its training text
TRAINING_TEXTS = {"prose": "prose", "code": "code", "config": "config", "markdown": "readme", "math": "arxiv"}
WITH_COMMENTS = ("readme", "arxiv", "commented")  # kinds of text that keep comments; commented is code with comments
MIN_SEGMENT = 64  # bytes: minimum segment length of a mixture [untuned]
MIN_GAIN = 0.0005  # accuracy: smaller gains count as zero [untuned]
USEFUL_GAIN = 0.01  # accuracy: gains of at least this size are useful [untuned]
RULES = {  # rule -> method in stored results
    "evidence": "Evidence of regions against one weight",
    "nats": "Held-out log-likelihood",
    "right": "Held-out accuracy",
    "regression": "Regression on all three and the rate of switches",
}
LABELS = {
    RULES["evidence"]: "Log-evidence of local weights minus global weight",
    RULES["regression"]: "Regression on all three and the switch rate",
}
FEATURES = ("evidence", "nats", "right", "switches")


@dataclass(frozen=True)
class Case:
    """A setting.

    Attributes:
        texts: one kind of natural documents, or several kinds that windows mix.
        team: roles of the experts.
        rate: fraction of bytes that are lost.
        length: bytes per window.
        scaled: whether to fit scales of the experts in addition.
    """

    texts: tuple[str, ...]
    team: tuple[str, ...]
    rate: float = 0.2
    length: int = 256
    scaled: bool = False

    @property
    def name(self) -> str:
        """Name of the setting in result files."""
        return f"{' + '.join(self.texts)}; {', '.join(self.team)}; {self.rate:g}; {self.length}"


def training_texts(*team: str) -> tuple[str, ...]:
    """Return the kinds of text that the experts were trained on."""
    return tuple(TRAINING_TEXTS[role] for role in team)


PAIRS, TRIPLES = list(combinations(TRAINING_TEXTS, 2)), list(combinations(TRAINING_TEXTS, 3))
RATES, LENGTHS = (0.1, 0.2, 0.3, 0.5), (256, 512, 1024)
ALL_EXPERTS = tuple(TRAINING_TEXTS)
GENERALISTS = ("generalist", "generalist_3x")
CASES = (
    *(
        Case(training_texts(*team), team, RATES[number % 4], LENGTHS[number % 3], scaled=number % 4 == 0)
        for number, team in enumerate(PAIRS)
    ),
    *(
        Case(training_texts(*team), team, RATES[(number + 1) % 4], LENGTHS[number % 2], scaled=number % 5 == 0)
        for number, team in enumerate(TRIPLES)
    ),
    *(Case(("prose", "code"), ("prose", "code"), rate, 256, scaled=rate == 0.5) for rate in (0.2, 0.3, 0.5)),
    Case(("prose", "code"), ("markdown", "code"), 0.2, 512),
    Case(("prose", "code"), ("markdown", "math"), 0.3, 256, scaled=True),
    Case(("config", "code"), ("prose", "markdown"), 0.2, 256, scaled=True),
    Case(("readme",), ("prose", "code"), 0.2, 512, scaled=True),
    Case(("readme",), ("markdown", "code"), 0.1, 1024),
    Case(("readme",), ("markdown", "config"), 0.3, 512),
    Case(("readme",), ("markdown", "prose", "code"), 0.5, 512),
    Case(("readme",), ALL_EXPERTS, 0.2, 512),
    Case(("arxiv",), ("prose", "math"), 0.2, 512, scaled=True),
    Case(("arxiv",), ("prose", "math"), 0.5, 512),
    Case(("arxiv",), ("markdown", "math"), 0.3, 256),
    Case(("arxiv",), ("prose", "code", "math"), 0.2, 512),
    Case(("commented",), ("prose", "code"), 0.2, 512, scaled=True),
    Case(("commented",), ("prose", "code", "config"), 0.1, 512),
    Case(("commented",), ("markdown", "code"), 0.3, 256),
    Case(("config",), ("config", "code"), 0.2, 512),
    Case(("config",), ("config", "markdown"), 0.3, 256),
    Case(("prose",), ("prose", "code"), 0.2, 512),
    Case(("prose",), ("prose", "markdown"), 0.3, 256, scaled=True),
    Case(("prose",), ("prose", "math"), 0.5, 256),
    Case(("prose", "code"), GENERALISTS, 0.2, 256),
    Case(("code", "config"), GENERALISTS, 0.3, 256),
    Case(("prose",), GENERALISTS, 0.1, 512),
    Case(("readme",), GENERALISTS, 0.2, 512),
    Case(("prose", "code"), ("prose", "prose"), 0.2, 256),
)
# Settings to fit coefficients on. Their documents are held-out documents of the split ``train``.
FITTING_CASES = (
    Case(("prose", "code"), ("prose", "code"), 0.3, 512),
    Case(("prose", "config"), ("prose", "config"), 0.1, 256),
    Case(("prose", "readme"), ("prose", "markdown"), 0.2, 512),
    Case(("prose", "arxiv"), ("prose", "math"), 0.2, 256),
    Case(("code", "config", "readme"), ("code", "config", "markdown"), 0.2, 256),
    Case(("readme",), ("prose", "code"), 0.3, 512),
    Case(("readme",), ("markdown", "code"), 0.2, 512),
    Case(("arxiv",), ("prose", "math"), 0.3, 512),
    Case(("commented",), ("prose", "code"), 0.1, 512),
    Case(("prose",), ("prose", "markdown"), 0.2, 512),
)


@dataclass(frozen=True)
class Config:
    """Configuration of the study.

    Attributes:
        windows: number of windows of 256 bytes; fewer for longer windows.
        cases: reported settings.
        fitted: settings to fit coefficients on.
    """

    windows: int = 40
    cases: tuple[Case, ...] = CASES
    fitted: tuple[Case, ...] = FITTING_CASES


PRESETS = {"laptop": Config(), "paper": Config(windows=256)}
TABLES = [
    TableSpec(
        "Prediction of the gain of local weights by each rule, on settings not used for fitting",
        [
            Column("spearman", "rank correlation", 3),
            Column("sign", "correct sign, all settings", 3),
            Column("sign_significant", "correct sign, significant gains", 3),
            Column("pays", "correct for a gain of at least 0.01", 3),
            Column("error", "mean absolute error", 4),
            Column("covered", "error within both intervals", 3),
            Column("settings", "settings", 0),
            Column("significant", "significant", 0),
        ],
    ),
    TableSpec(
        "Gain of local weights over the global weight: measured on lost bytes, and predicted from visible bytes",
        [
            Column("difference", "measured [95 %]", 3),
            Column("right", "predicted [95 %]", 3),
            Column("nats", "predicted, nats [95 %]", 3),
            Column("evidence", "evidence, nats per byte", 3),
            Column("documents", "documents", 0),
            Column("accuracy", "accuracy", 3),
        ],
    ),
    TableSpec(
        "Effect of expert scales, fitted by evidence, on the restoration with local weights",
        [
            Column("scaled_difference", "accuracy [95 %]", 4),
            Column("scaled_p", "p", 3),
            Column("scaled_nats", "log-likelihood, nats", 4),
            Column("calibration_error", "calibration error", 3),
            Column("scaled_calibration_error", "with scales", 3),
            Column("scale_least", "smallest scale", 2),
            Column("scale_most", "largest scale", 2),
        ],
    ),
]


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Predict and measure the gain in every setting."""
    texts_by_split = {split: read_texts(resources.corpora, split) for split in ("train", "eval")}

    def measure_all(cases: Sequence[Case], split: str, title: str) -> list[Row]:
        texts = texts_by_split[split]
        available = [case for case in cases if set(case.texts) <= set(texts)]
        trials = ((case, prepare(case, config, seed, texts, resources)) for case in track(available, title))
        return [measure(case.name, trial, scales=case.scaled) for case, trial in trials]

    fitted = measure_all(config.fitted, "train", "rule, settings for fitting")
    rows = measure_all(config.cases, "eval", "rule")
    if len(fitted) < len(FEATURES) + 1 or len(rows) < 2:
        raise ConservatorError(
            "these corpora have too few kinds of text; expected prose, code, config, readme and arxiv"
        )
    fitting_rows = [row | {"method": f"{row['method']} (to fit on)"} for row in fitted]
    return Findings([*compare_rules(rows, fitted), *rows, *fitting_rows], {"rule": draw(rows)})


def read_texts(corpora: Path, split: str) -> dict[str, list[bytes]]:
    """Read the documents of each available kind; only held-out documents of the split ``train``."""
    texts = {}
    for kind in ("prose", "code", "config", *WITH_COMMENTS):
        name = "code" if kind == "commented" else kind
        if find_file(corpora, name, split) is not None:
            corpus = read_domain(corpora, name, split, comments=kind in WITH_COMMENTS)
            texts[kind] = list(hold_out(corpus, 0)[1] if split == "train" else corpus.documents)
    return texts


def prepare(case: Case, config: Config, seed: int, texts: dict[str, list[bytes]], resources: Resources) -> Trial:
    """Make the damaged windows of a setting."""
    count = max(4, config.windows * min(LENGTHS) // case.length)
    if len(case.texts) == 1:
        mixed = excerpts(texts[case.texts[0]], count, case.length, seed)
    else:
        mixed = mix(
            {kind: texts[kind] for kind in case.texts}, count, length=case.length, min_segment=MIN_SEGMENT, seed=seed
        )
    observation = MaskChannel(BYTES.size, case.rate).corrupt(mixed.tokens, torch.Generator().manual_seed(seed))
    return Trial(mixed, Setting(Team(resources.choose(case.team)), observation, mixed.labels, seed + 1))


def excerpts(documents: Sequence[bytes], count: int, length: int, seed: int) -> Mixtures:
    """Draw windows of natural documents at random."""
    long_enough = [document for document in documents if len(document) >= length]
    if not long_enough:
        raise ConservatorError(f"no document has {length} bytes or more")
    generator = torch.Generator().manual_seed(seed)
    tokens, numbers = torch.zeros(2, count, length, dtype=torch.long)
    for row in range(count):
        number = int(torch.randint(len(long_enough), (1,), generator=generator))
        start = int(torch.randint(len(long_enough[number]) - length + 1, (1,), generator=generator))
        tokens[row] = torch.tensor(list(long_enough[number][start : start + length]))
        numbers[row] = number
    return Mixtures(tokens, torch.zeros_like(tokens), numbers, ("text",))


def measure(name: str, trial: Trial, *, scales: bool = False) -> Row:
    """Make the row of a setting: predicted and measured gain.

    Local weights and the global weight are inferred from the same predictions of visible tokens, each hidden once.

    Args:
        name: name of the setting.
        trial: damaged windows and team.
        scales: whether to measure the effect of expert scales in addition.
    """
    setting = trial.setting
    experts, observation = len(setting.team), setting.observation
    folds = read_folds(setting.team, observation, setting.generator())
    predictions = [batch for fold in folds for batch in fold]
    local_fields = infer_grid(predictions, observation, simplex_grid(experts))
    global_fields = infer_grid(
        predictions, observation, simplex_grid(experts, finest_resolution(experts)), global_prior
    )
    local, by_global = (restore(trial, setting.team, fields) for fields in (local_fields, global_fields))
    row: Row = {
        "method": name,
        "windows": len(trial.mixed.tokens),
        "documents": len(local.documents.unique()),
        "accuracy": local.document_accuracy,
        **difference(local, by_global),
        **predicted_gain(folds, trial),
        **compare_fields(local_fields, global_fields, observation),
        "paper": {},
    }
    if scales:
        row |= scale_metrics(predictions, trial, local)
    return row


def restore(trial: Trial, team: Team, fields: GridFields) -> Restored:
    """Decode with inferred fields in one step."""
    return trial.restore(Composed(Inferred.given(fields.composition()), team))


def predicted_gain(folds: Sequence[Sequence[Predictions]], trial: Trial) -> Metrics:
    """Gain on hidden visible bytes, in nats and in accuracy: means over documents, with intervals."""
    held_out = held_out_gain(folds, trial.setting.observation)
    documents = trial.mixed.documents[held_out.sequence, held_out.position]
    row: Metrics = {}
    for name, values in (("nats", held_out.nats), ("right", held_out.right)):
        by_document = per_group(values, documents)
        count, mean = len(by_document), float(by_document.mean())
        half_width = 1.96 * float(by_document.std()) / count**0.5 if count > 1 else 0.0
        row |= {name: mean, f"{name}_low": mean - half_width, f"{name}_high": mean + half_width}
    return row


def compare_fields(local_fields: GridFields, global_fields: GridFields, observation: Observation) -> Metrics:
    """Log-evidence of local minus global weights per visible byte, and the switch rate of regions per byte."""
    evidence = [
        sum(posterior.log_evidence for posterior in fields.posteriors) for fields in (local_fields, global_fields)
    ]
    regions = np.stack([posterior.regions for posterior in local_fields.posteriors]).argmax(axis=-1)
    return {
        "evidence": (evidence[0] - evidence[1]) / int((~observation.lost).sum()),
        "switches": float((regions[:, 1:] != regions[:, :-1]).mean()),
    }


def scale_metrics(predictions: Sequence[Predictions], trial: Trial, unscaled: Restored) -> Metrics:
    """Measure the effect of expert scales, fitted by the evidence of all windows."""
    team, observation = trial.setting.team, trial.setting.observation
    scales = fit_scales(predictions, observation)
    fields = infer_grid(scale_predictions(predictions, scales.values), observation, simplex_grid(len(team)))
    scaled = restore(trial, scales.apply(team), fields)
    rows = [describe("", restored, trial.mixed.labels) for restored in (scaled, unscaled)]
    return {
        **difference(scaled, unscaled, "scaled_"),
        "scaled_nats": rows[0]["log_likelihood"] - rows[1]["log_likelihood"],
        "calibration_error": rows[1]["calibration_error"],
        "scaled_calibration_error": rows[0]["calibration_error"],
        "scale_least": float(scales.values.min()),
        "scale_most": float(scales.values.max()),
    }


def compare_rules(rows: list[Row], fitted: list[Row]) -> list[Row]:
    """Make one row per rule; ``fitted`` are the settings for fitting, ``rows`` for evaluation."""
    gains, fitting_gains = column(rows, "difference"), column(fitted, "difference")
    significant = np.array([row["difference_low"] > 0 or row["difference_high"] < 0 for row in rows])
    rule_rows: list[Row] = []
    for rule in RULES:
        features = FEATURES if rule == "regression" else (rule,)
        table, fitting_table = (
            np.stack([column(settings, name) for name in features], axis=1) for settings in (rows, fitted)
        )
        # The held-out accuracy estimates the gain directly and needs no fit.
        predicted = table[:, 0] if rule == "right" else table @ least_squares(fitting_table, fitting_gains)
        agree = sign(predicted) == sign(gains)
        row: Row = {
            "method": RULES[rule],
            "settings": len(rows),
            "significant": int(significant.sum()),
            "spearman": rank_correlation(predicted, gains),
            "sign": float(agree.mean()),
            "pays": float(((predicted >= USEFUL_GAIN) == (gains >= USEFUL_GAIN)).mean()),
            "error": float(np.abs(predicted - gains).mean()),
            "paper": {},
        }
        if rule == "right":
            widths = [column(rows, f"{name}_high") - column(rows, f"{name}_low") for name in ("right", "difference")]
            row["covered"] = float((np.abs(predicted - gains) <= np.hypot(*widths) / 2).mean())
        if significant.any():
            row["sign_significant"] = float(agree[significant].mean())
        rule_rows.append(row)
    return rule_rows


def column(rows: Sequence[Row], name: str) -> Array:
    """Return a metric of all rows."""
    return np.array([row[name] for row in rows], dtype=np.float64)


def least_squares(features: Array, values: Array) -> Array:
    """Fit coefficients (k,) that predict ``values`` (n,) from ``features`` (n, k), without an intercept.

    Ridge shrinkage stabilises the coefficients of correlated features.
    """
    norm = np.sqrt((features**2).mean(axis=0)).clip(1e-12)
    scaled = features / norm
    gram = scaled.T @ scaled + 0.01 * len(values) * np.eye(len(norm))
    coefficients: Array = np.linalg.solve(gram, scaled.T @ values) / norm
    return coefficients


def sign(gains: Array) -> Array:
    """Return -1, 0 or 1; 0 for gains smaller than MIN_GAIN."""
    return np.sign(gains) * (np.abs(gains) >= MIN_GAIN)


def rank_correlation(first: Array, second: Array) -> float:
    """Spearman correlation; equal values have their mean rank, and constant values have the correlation 0."""
    ranks = [np.array([(values < x).sum() + (values <= x).sum() for x in values]) for values in (first, second)]
    if any(np.ptp(rank) == 0 for rank in ranks):
        return 0.0
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def draw(rows: list[Row]) -> Figure:
    """Plot the measured gain on lost bytes against the predicted gain, with 95 % intervals."""
    figure = new_figure(6.0, 5.2)
    axes = figure.subplots()
    for colour, label, mixed in ((BLUE, "mixtures", True), (ORANGE, "natural documents", False)):
        group = [row for row in rows if (" + " in row["method"]) == mixed]
        errors = [
            np.abs([[row[name] - row[f"{name}_{end}"] for row in group] for end in ("low", "high")])
            for name in ("right", "difference")
        ]
        points = (column(group, "right"), column(group, "difference"))
        axes.errorbar(
            *points, xerr=errors[0], yerr=errors[1], fmt="o", color=colour, ms=4, lw=0.7, alpha=0.8, label=label
        )
    diagonal = np.array(axes.get_xlim())
    axes.plot(diagonal, diagonal, color=GREY, linewidth=1, linestyle="--", zorder=0)
    axes.axhline(0, color="0.85", linewidth=1, zorder=0)
    axes.axvline(0, color="0.85", linewidth=1, zorder=0)
    axes.set(xlabel="predicted from hidden visible bytes", ylabel="measured on lost bytes", xlim=diagonal)
    axes.set_title("accuracy of local weights minus accuracy of the global weight", fontsize=10)
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    return figure


def conclude(rows: list[Row]) -> str:
    """State the quality of the best rule, and the effect of expert scales."""
    by_method = {row["method"]: row for row in rows}
    best = by_method[RULES["right"]]
    text = (
        "**Prediction of the gain.** The paper observes that local weights gain more for more distinct experts. The "
        "held-out accuracy on hidden visible bytes predicts the gain without a fit. The rank correlation over "
        f"{best['settings']} settings is {best['spearman']:.2f}. The sign is correct in {best['sign']:.0%} of all "
        "settings"
    )
    if "sign_significant" in best:
        text += f" and in {best['sign_significant']:.0%} of the {best['significant']} settings with a significant gain"
    text += (
        f". A gain of at least {USEFUL_GAIN} is predicted correctly in {best['pays']:.0%}. The mean absolute error is "
        f"{best['error']:.4f}. Every setting with a wrong sign has an interval that contains 0."
        if best.get("sign_significant", 1.0) == 1
        else f". The mean absolute error is {best['error']:.4f}."
    )
    scaled = [row for row in rows if "scaled_difference" in row]
    if scaled:
        better = [row for row in scaled if row["scaled_difference_low"] > 0]
        worse = [row for row in scaled if row["scaled_difference_high"] < 0]
        nats, errors = (
            np.mean([row["scaled_nats"] for row in scaled]),
            np.mean([row["scaled_calibration_error"] - row["calibration_error"] for row in scaled]),
        )
        text += (
            "\n\n**Effect of expert scales.** One scale per expert, fitted by the evidence of all windows of a "
            f"setting, increases the accuracy significantly in {len(better)} of {len(scaled)} settings and decreases "
            f"it in {len(worse)}. The mean log-likelihood of a lost byte changes by {nats:+.4f} nats, the calibration "
            f"error by {errors:+.4f}."
        )
    return text


STUDY = Study(presets=PRESETS, tables=TABLES, labels=LABELS, run=run, conclude=conclude, domain="readme")
