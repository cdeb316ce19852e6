"""Lacunae of inscriptions and papyri: error rate, accuracy among 1 and 20 candidates, and calibration.

All lacunae of a text are lost at once, and written in Leiden conventions. References are the other texts of the set
(cross-validation by text), or literary texts of the language.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from conservator import Restorer
from conservator.evaluation.figures import BLUE, GREY, new_figure
from conservator_studies.edited_texts import (
    LANGUAGES,
    EditedText,
    Sampled,
    most_frequent,
    read_language,
    read_set,
    sample_lacunae,
)
from conservator_studies.metrics import calibration_error
from conservator_studies.resources import Resources
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.study import Study, Track

CANDIDATES = 20  # candidates: of each lacuna [definition]
RESAMPLES = 2000  # resamples: of the bootstrap [untuned]
MIN_ROW = 10  # lacunae: smaller groups have no row [untuned]
GROUPS = ((1, 1), (2, 3), (4, 6), (7, 10))  # characters: first and last length of each group [definition]
MAX_CHARACTERS = 10  # characters: longest lacuna [definition]
OURS = "set"
LABELS = {
    "frequent": "most frequent string in the same context (other texts)",
    "alone": "no references",
    "language": "references: literary texts of the language",
    OURS: "references: other texts",
}


@dataclass(frozen=True)
class Config:
    """Configuration of the study.

    Attributes:
        sets: names of the sets.
        lacunae: number of lacunae of each set.
        per_text: largest number of lacunae of a text that are scored.
        folds: number of folds of the cross-validation.
        language_characters: size of the texts of the language, in characters.
        is_tuning: whether to use the texts for tuning instead of those that are reported.
    """

    sets: tuple[str, ...] = ("isicily", "iip", "usep", "papygreek", "edh_latin")
    lacunae: int = 150
    per_text: int = 3
    folds: int = 2
    language_characters: int = 300_000
    is_tuning: bool = False


PRESETS = {"laptop": Config(), "paper": Config(lacunae=1000, folds=5, language_characters=2_000_000)}
TABLES = [
    TableSpec(
        "Lacunae of 1 to 10 characters",
        [
            Column("lacunae", "lacunae", 0),
            Column("texts", "texts", 0),
            Column("cer", "character error rate [95 %]", 3),
            Column("top1", "top 1 [95 %]", 3),
            Column("top20", "top 20 [95 %]", 3),
            Column("calibration", "calibration error", 3),
            Column("aurc", "risk-coverage area", 3),
        ],
    ),
    TableSpec(
        "Top 1 and top 20 by number of characters",
        [
            column
            for low, high in GROUPS
            for column in (
                Column(f"count_{low}", f"{low}-{high}: lacunae", 0),
                Column(f"top1_{low}", "top 1", 3),
                Column(f"top20_{low}", "top 20", 3),
            )
        ],
    ),
]
Candidates = list[tuple[str, float]]  # candidates of a lacuna and their probabilities, the most probable first
Method = Callable[[Sampled], list[Candidates]]


@dataclass(frozen=True)
class Scored:
    """A lacuna with its candidates.

    Attributes:
        group: set and language.
        text: id of the text.
        truth: restoration of the editors.
        candidates: candidates, the most probable first.
    """

    group: str
    text: str
    truth: str
    candidates: tuple[tuple[str, float], ...]

    @property
    def rank(self) -> int:
        """Number of candidates before the restoration of the editors; CANDIDATES if it is not among them."""
        texts = [text for text, _ in self.candidates]
        return texts.index(self.truth) if self.truth in texts else CANDIDATES

    @property
    def confidence(self) -> float:
        """Probability of the best candidate."""
        return self.candidates[0][1] if self.candidates else 0.0

    @property
    def errors(self) -> int:
        """Edit distance of the best candidate to the restoration of the editors."""
        return distance(self.candidates[0][0] if self.candidates else "", self.truth)


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Restore sampled lacunae of each set with each method."""
    scored: dict[str, list[Scored]] = {method: [] for method in LABELS}
    for name in config.sets:
        texts = read_set(resources.corpora, name)
        part = [text for text in texts if text.is_reported != config.is_tuning]
        generator = np.random.default_rng(seed)
        drawn = sample_lacunae(part, config.lacunae, MAX_CHARACTERS, config.per_text, generator)
        for language in LANGUAGES:
            for fold in range(config.folds):
                sampled = [
                    item for item in drawn if (item.text.language, item.text.fold(config.folds)) == (language, fold)
                ]
                if not sampled:
                    continue
                methods = methods_for(texts, language, fold, config, resources)
                for method, restore in methods.items():
                    for item in track(sampled, f"{name}, {language}, {method}"):
                        scored[method] += score(f"{name} {language}", item, restore(item))
    return Findings(tabulate(scored), {"lacunae": draw(scored[OURS])})


def methods_for(
    texts: Sequence[EditedText], language: str, fold: int, config: Config, resources: Resources
) -> dict[str, Method]:
    """Return the methods for the texts of a language and a fold; references are those of the other folds."""
    others = [text for text in texts if text.language == language and text.fold(config.folds) != fold]
    references = [(text.name, text.reference) for text in others]
    restorers = {
        "alone": Restorer(),
        "language": language_restorer(resources.corpora, language, config.language_characters),
        OURS: Restorer(references=references),
    }
    return {
        "frequent": partial(by_frequency, [text for _, text in references]),
        **{name: partial(by_restorer, restorer) for name, restorer in restorers.items()},
    }


@cache
def language_restorer(corpora: Path, language: str, max_characters: int) -> Restorer:
    """Return a restorer whose references are texts of a language."""
    texts = read_language(corpora, language, max_characters)
    return Restorer(references=[(f"{language} {number}", text) for number, text in enumerate(texts)])


def by_restorer(restorer: Restorer, item: Sampled) -> list[Candidates]:
    """Restore the lacunae of a text with the product."""
    leiden, starts = item.text.in_leiden()
    result = restorer.restore(leiden, notation="leiden", alternatives=CANDIDATES)
    by_start = {edit.span[0]: edit for edit in result.edits}
    return [
        [(candidate.data.decode(), candidate.probability) for candidate in by_start[starts[number]].alternatives]
        for number in item.numbers
    ]


def by_frequency(references: Sequence[str], item: Sampled) -> list[Candidates]:
    """Use the most frequent strings in the same context."""
    text, listed = item.text, []
    for number in item.numbers:
        start, stop = text.lacunae[number]
        listed.append(most_frequent(references, text.damaged[:start], text.damaged[stop:], stop - start, CANDIDATES))
    return listed


def score(group: str, item: Sampled, candidates: Sequence[Candidates]) -> list[Scored]:
    """Return the lacunae of a text with their candidates."""
    text = item.text
    return [
        Scored(group, text.name, text.restored[slice(*text.lacunae[number])], tuple(listed))
        for number, listed in zip(item.numbers, candidates, strict=True)
    ]


def tabulate(scored: dict[str, list[Scored]]) -> list[Row]:
    """Return a row for each group and method, and for all groups together."""
    rows: list[Row] = []
    groups = list(dict.fromkeys(item.group for items in scored.values() for item in items))
    for group in [*groups, "all"]:
        for method, items in scored.items():
            selected = [item for item in items if group in (item.group, "all")]
            if len(selected) >= MIN_ROW or group == "all":
                rows.append({"method": f"{group}: {LABELS[method]}", "paper": {}} | summarise(selected))
    return rows


def summarise(items: Sequence[Scored], seed: int = 0) -> Row:
    """Compute the metrics of lacunae, with intervals from a bootstrap over texts."""
    if not items:
        return {"lacunae": 0, "texts": 0}
    names = {name: number for number, name in enumerate(dict.fromkeys(item.text for item in items))}
    drawn = np.random.default_rng(seed).integers(len(names), size=(RESAMPLES, len(names)))
    row: Row = {"lacunae": len(items), "texts": len(names)}
    values: dict[str, list[tuple[float, int]]] = {
        "cer": [(item.errors, len(item.truth)) for item in items],
        "top1": [(float(item.rank == 0), 1) for item in items],
        "top20": [(float(item.rank < CANDIDATES), 1) for item in items],
    }
    for metric, pairs in values.items():
        sums = np.zeros((len(names), 2))
        for item, pair in zip(items, pairs, strict=True):
            sums[names[item.text]] += pair
        row |= ratio(metric, sums, drawn)
    confidence = torch.tensor([item.confidence for item in items], dtype=torch.float64)
    correct = torch.tensor([item.rank == 0 for item in items])
    row["calibration"], row["aurc"] = calibration_error(confidence, correct), risk_coverage_area(items)
    for low, high in GROUPS:
        inside = [item for item in items if low <= len(item.truth) <= high]
        row[f"count_{low}"] = len(inside)
        if inside:
            row[f"top1_{low}"] = sum(item.rank == 0 for item in inside) / len(inside)
            row[f"top20_{low}"] = sum(item.rank < CANDIDATES for item in inside) / len(inside)
    return row


def ratio(metric: str, sums: NDArray[np.float64], drawn: NDArray[np.int64]) -> Row:
    """Return the ratio of the column sums (texts, 2), with its 95 % interval."""
    total, resampled = sums.sum(axis=0), sums[drawn].sum(axis=1)
    low, high = np.quantile(resampled[:, 0] / resampled[:, 1], [0.025, 0.975])
    return {metric: float(total[0] / total[1]), f"{metric}_low": float(low), f"{metric}_high": float(high)}


def risk_coverage_area(items: Sequence[Scored]) -> float:
    """Return the mean, over coverages, of the share of wrong best candidates among the most confident lacunae."""
    ordered = sorted(items, key=lambda item: -item.confidence)
    wrong = np.cumsum([item.rank != 0 for item in ordered])
    return float((wrong / np.arange(1, len(ordered) + 1)).mean())


def distance(first: str, second: str) -> int:
    """Return the edit distance of two texts."""
    row = list(range(len(second) + 1))
    for index, left in enumerate(first, 1):
        previous, row[0] = row[0], index
        for column, right in enumerate(second, 1):
            previous, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, previous + (left != right))
    return row[-1]


def draw(items: Sequence[Scored]) -> Figure:
    """Plot the share of correct best candidates over their probability, and over the share of lacunae filled."""
    figure = new_figure(8, 3.2)
    left, right = figure.subplots(1, 2)
    confidence = np.array([item.confidence for item in items])
    correct = np.array([item.rank == 0 for item in items], dtype=np.float64)
    bins = np.digitize(confidence, np.linspace(0, 1, 11)[1:-1])
    left.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    for number in np.unique(bins).tolist():
        inside = bins == number
        left.scatter(confidence[inside].mean(), correct[inside].mean(), s=4 + inside.sum() / 2, color=BLUE)
    left.set(xlabel="probability of the best candidate", ylabel="share correct", xlim=(0, 1.02), ylim=(0, 1.02))
    order = np.argsort(-confidence)
    share = np.arange(1, len(items) + 1) / max(1, len(items))
    right.plot(share, np.cumsum(correct[order]) / np.arange(1, len(items) + 1), color=BLUE)
    right.set(xlabel="share of lacunae filled", ylabel="share correct", xlim=(0, 1), ylim=(0, 1.02))
    return figure


def lacks(config: Config, resources: Resources | None) -> str:
    """Return a message if the texts are missing."""
    if resources is None:
        return "it needs texts: give --corpora PATH"
    missing = [name for name in config.sets if not (resources.corpora / "damage" / f"{name}.dev.jsonl.gz").exists()]
    names = ", ".join(missing)
    return f"the corpora have no damage/NAME.dev.jsonl.gz for {names}" if missing else ""


STUDY = Study(presets=PRESETS, run=run, tables=TABLES, unit="lacunae", lacks=lacks)
