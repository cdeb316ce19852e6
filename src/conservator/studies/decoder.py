"""One-step against iterative decoding: table "decoder"."""

from collections.abc import Mapping
from dataclasses import dataclass

from conservator.decoders.predict import decode_iteratively
from conservator.studies.baselines import Answer, find_baseline
from conservator.studies.byte import NAMES, OURS, ByteConfig, Trial, interval, prepare
from conservator.studies.materials import Materials
from conservator.studies.metrics import per_group
from conservator.studies.restoration import Restored, difference, judge
from conservator.studies.result import Column, Findings, Row, TableSpec, Track


@dataclass(frozen=True)
class Config(ByteConfig):
    """The sizes of the study, and the steps of the iterative decoder."""

    windows: int = 128
    steps: int = 12


PRESETS = {"laptop": Config(), "paper": Config(windows=256, particles="byte")}
UNIT = "windows"
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


def run(config: Config, seed: int, track: Track[str], materials: Materials) -> Findings:
    """Decode what each baseline came to in both ways."""
    trial = prepare(config, seed, materials)
    one_step, iterative = {}, {}
    for name in track(BASELINES, "decoder"):
        answer = find_baseline(name)(trial.setting)
        one_step[name] = trial.restore(answer)
        iterative[name] = step_by_step(trial, answer, config.steps)
    rows = [row_of("one_step", one_step, config), row_of("iterative", iterative, config)]
    for name in BASELINES:
        gain = difference(iterative[name], one_step[name])
        rows[1] |= {f"gain_{name}": gain.difference, f"gain_{name}_low": gain.low, f"gain_{name}_high": gain.high}
    return Findings(rows, {})


def step_by_step(trial: Trial, answer: Answer, steps: int) -> Restored:
    """Decode in several steps that read what was filled in before."""
    observation, composition = trial.setting.observation, answer.inferred.composition
    decoded = decode_iteratively(answer.experts, observation, composition, answer.reading, steps)
    right = decoded.tokens == trial.mixed.tokens
    return judge(
        right,
        decoded.confidence,
        trial.mixed,
        observation.hidden,
        answer.inferred,
        decoded.cost.add(answer.inferred.cost),
    )


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
