"""One-step and iterative decoding: table "decoder"."""

from collections.abc import Mapping
from dataclasses import dataclass

from conservator.reference import decode_iteratively
from conservator_studies.baselines import Composed, find_baseline
from conservator_studies.byte import NAMES, OURS, ByteConfig, Trial, interval, prepare
from conservator_studies.resources import Resources
from conservator_studies.restoration import Restored, difference, select_positions
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.study import Study, Track


@dataclass(frozen=True)
class Config(ByteConfig):
    """Configuration of the study; ``steps`` is the number of steps of the iterative decoder."""

    windows: int = 128
    steps: int = 12


PRESETS = {"laptop": Config(), "paper": Config(windows=256, particles="byte")}
BASELINES = ("local_bayes", "hard_label", "best_single_posterior", "equal")
TABLES = [
    TableSpec("Accuracy, mean over windows", [Column(name, NAMES[name], 3) for name in BASELINES], "tab:decoder"),
    TableSpec(
        "Iterative minus one-step, mean over documents [95 %]",
        [Column(f"gain_{name}", NAMES[name], 3) for name in BASELINES],
    ),
]
LABELS = {"one_step": "One-step", "iterative": "Iterative"}
PAPER = {
    "one_step": dict(zip(BASELINES, (0.658, 0.657, 0.612, 0.563), strict=True)),
    "iterative": dict(zip(BASELINES, (0.662, 0.660, 0.618, 0.556), strict=True)),
}


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Decode the composition of each baseline in one step and iteratively."""
    trial = prepare(config, seed, resources)
    one_step, iterative = {}, {}
    for name in track(BASELINES, "decoder"):
        composed = find_baseline(name)(trial.setting)
        one_step[name] = trial.restore(composed)
        iterative[name] = decode_in_steps(trial, composed, config.steps)
    rows = [row_of("one_step", one_step, config), row_of("iterative", iterative, config)]
    for name in BASELINES:
        gain = difference(iterative[name], one_step[name])
        rows[1] |= {f"gain_{name}{end}": gain[f"difference{end}"] for end in ("", "_low", "_high")}
    return Findings(rows, {})


def decode_in_steps(trial: Trial, composed: Composed, steps: int) -> Restored:
    """Decode in several steps; each step conditions on the tokens of the previous steps."""
    observation, inferred = trial.setting.observation, composed.inferred
    decoded = decode_iteratively(composed.team, observation, inferred.composition, composed.context_policy, steps)
    correct = decoded.tokens == trial.mixed.tokens
    cost = decoded.cost + inferred.cost
    return select_positions(correct, decoded.confidence, trial.mixed, observation.lost, inferred, cost)


def row_of(decoder: str, restorations: Mapping[str, Restored], config: Config) -> Row:
    """Make the row of a decoder: the accuracy of each method."""
    accuracy = {name: restored.window_accuracy for name, restored in restorations.items()}
    return {"method": decoder, "windows": config.windows, **accuracy, "paper": PAPER[decoder]}


def conclude(rows: list[Row]) -> str:
    """State whether the ranking of the methods depends on the decoder."""

    def ranking(row: Row) -> list[str]:
        return sorted(BASELINES, key=lambda name: float(-row[name]))

    first, second = (" > ".join(NAMES[name] for name in ranking(row)) for row in rows)
    if first == second:
        second = "the same"
    return (
        f"Ranking with the one-step decoder: {first}; with the iterative decoder: {second}. Conditioning on tokens of "
        f"previous steps changes the accuracy of local evidence by {interval(rows[1], f'gain_{OURS}')}."
    )


STUDY = Study(presets=PRESETS, tables=TABLES, labels=LABELS, run=run, conclude=conclude)
