"""One-step against iterative decoding: table "decoder"."""

from collections.abc import Mapping
from dataclasses import dataclass

from conservator.reference import decode_iteratively
from conservator_studies.baselines import Composed, find_baseline
from conservator_studies.byte import NAMES, OURS, ByteConfig, Trial, interval, prepare
from conservator_studies.metrics import per_group
from conservator_studies.resources import Resources
from conservator_studies.restoration import Restored, difference, judge
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.study import TextStudy, Track


@dataclass(frozen=True)
class Config(ByteConfig):
    """The sizes of the study, and the steps of the iterative decoder."""

    windows: int = 128
    steps: int = 12


PRESETS = {"laptop": Config(), "paper": Config(windows=256, particles="byte")}
BASELINES = ("local_bayes", "hard_label", "best_single_posterior", "equal")
TABLES = [
    TableSpec(
        "Accuracy, each window counted alike", [Column(name, NAMES[name], 3) for name in BASELINES], "tab:decoder"
    ),
    TableSpec(
        "Iterative minus one-step, each document counted alike [95 %]",
        [Column(f"gain_{name}", NAMES[name], 3) for name in BASELINES],
    ),
]
LABELS = {"one_step": "One-step", "iterative": "Iterative"}
PAPER = {
    "one_step": dict(zip(BASELINES, (0.658, 0.657, 0.612, 0.563), strict=True)),
    "iterative": dict(zip(BASELINES, (0.662, 0.660, 0.618, 0.556), strict=True)),
}


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Decode the composition of each baseline, in one step and iteratively."""
    trial = prepare(config, seed, resources)
    one_step, iterative = {}, {}
    for name in track(BASELINES, "decoder"):
        composed = find_baseline(name)(trial.setting)
        one_step[name] = trial.restore(composed)
        iterative[name] = step_by_step(trial, composed, config.steps)
    rows = [row_of("one_step", one_step, config), row_of("iterative", iterative, config)]
    for name in BASELINES:
        gain = difference(iterative[name], one_step[name])
        rows[1] |= {f"gain_{name}": gain.difference, f"gain_{name}_low": gain.low, f"gain_{name}_high": gain.high}
    return Findings(rows, {})


def step_by_step(trial: Trial, composed: Composed, steps: int) -> Restored:
    """Decode in several steps that condition on the tokens filled in before."""
    observation, inferred = trial.setting.observation, composed.inferred
    decoded = decode_iteratively(composed.team, observation, inferred.composition, composed.reading, steps)
    right = decoded.tokens == trial.mixed.tokens
    return judge(right, decoded.confidence, trial.mixed, observation.lost, inferred, decoded.cost + inferred.cost)


def row_of(decoder: str, found: Mapping[str, Restored], config: Config) -> Row:
    """A line of the table: the accuracy of each method."""
    accuracy = {name: float(per_group(one.right, one.windows).mean()) for name, one in found.items()}
    return {"method": decoder, "windows": config.windows, **accuracy, "paper": PAPER[decoder]}


def conclude(rows: list[Row]) -> str:
    """Whether the ordering of the methods depends on the decoder."""

    def order(row: Row) -> list[str]:
        return sorted(BASELINES, key=lambda name: float(-row[name]))

    first, second = (", ".join(NAMES[name] for name in order(row)) for row in rows)
    same = "the same under both decoders" if first == second else f"{second} under the iterative one"
    return (
        f"From best to worst: {first} under the one-step decoder, {same}. Reading what was filled in before changes "
        f"local evidence by {interval(rows[1], f'gain_{OURS}')}."
    )


STUDY = TextStudy(presets=PRESETS, unit="windows", tables=TABLES, labels=LABELS, run=run, conclude=conclude)
