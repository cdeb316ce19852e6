"""A training run and its folder: it can be stopped at any time and resumed, and its result is an expert."""

import csv
import io
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as format_safetensors

from conservator.errors import ConservatorError
from conservator.experts import CONFIG, read_config
from conservator.experts.flow import is_flow, read_flow_config
from conservator.system.files import make_folder, open_file, real_path, write_atomically
from conservator.training.corpus import Corpus, as_stream, draw_blocks, hold_out
from conservator.training.learners import Learner
from conservator.training.scoring import Scores, Windows, cut_windows, score
from conservator.training.trainer import Trainer, TrainingConfig, byte_learner
from conservator.vocabularies import Tokens

STATE, CURVE = "training.safetensors", "loss.csv"
POINTS = 40  # points of the loss curve
SPAN = 4  # bytes of text for each token that a network reads; what is too much is cut off
WATCHED, REPORTED = 32, 512  # held-out windows for a point of the curve, and for the figures at the end
MOST_STEPS = 10**12
CHECKPOINT_SECONDS = 120.0


@dataclass(frozen=True)
class Plan:
    """The settings that decide a run. One of steps and minutes is given; with steps, equal plans give equal experts."""

    config: TrainingConfig
    seed: int
    steps: int | None
    minutes: float | None
    data: str


@dataclass(frozen=True)
class Point:
    """A point of the loss curve, in nats per predicted byte; ``loss`` is the mean since the previous point."""

    step: int
    bytes: int
    seconds: float
    loss: float
    held_out: float


@dataclass(frozen=True)
class TrainingProgress:
    """What a progress bar shows after a step."""

    progress: float
    step: int
    loss: float
    bytes_per_second: float
    seconds_left: float


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        finished: whether it reached its end; else it can be resumed.
        step: the number of steps done.
        seconds: the time they took.
        curve: the loss curve.
        held_out: the scores of the finished expert on held-out documents; None if the run is not finished.
    """

    finished: bool
    step: int
    seconds: float
    curve: tuple[Point, ...]
    held_out: Scores | None


def run_training(
    plan: Plan,
    corpus: Corpus,
    folder: Path,
    *,
    learner: Learner | None = None,
    resume: bool = False,
    about: dict[str, Any] | None = None,
    device: str = "cpu",
    report: Callable[[TrainingProgress], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Train an expert on ``corpus`` and write it to ``folder``, or resume such a run.

    Args:
        plan: the settings of the run.
        corpus: the texts.
        folder: where the expert, the state of the training and the loss curve are written; its name is the expert's.
        learner: what is trained; a byte expert if None.
        resume: resume the run in ``folder``, which must have the same plan.
        about: further facts for the expert's config.
        device: where the network is trained.
        report: called after every step.
        stopped: called after every step; if it returns True, the run is saved and ends.
    """
    config = plan.config
    learner = learner or byte_learner(config)
    training, held = hold_out(corpus, plan.seed)
    stream = as_stream(training, learner.vocabulary)
    if len(stream) < config.window:
        raise ConservatorError(
            f"{corpus.size} bytes are too little text: one window takes {config.window} "
            f"{'tokens' if is_cut(learner) else 'bytes'}, besides a held-out part"
        )
    token_bytes = (sum(map(len, training)) + len(training) - 1) / len(stream) if is_cut(learner) else 1
    if config.blocks:
        stream = draw_blocks(stream, config.blocks, config.window, plan.seed)
    name = real_path(folder).name
    if not name:
        raise ConservatorError(f"{folder} has no name, and the expert needs one; name a folder in it")
    make_folder(folder)
    trainer = Trainer(config, plan.seed, torch.device(device), learner)
    curve: list[Point] = []
    recent: list[float] = []  # the losses since the last point of the curve
    seconds = 0.0
    if resume:
        seconds, curve, recent = _restore(folder / STATE, plan, trainer)
    elif (folder / CONFIG).exists() or (folder / STATE).exists():
        raise ConservatorError(f"{folder} holds an expert or a run already; resume it, or name another folder")

    def held_out_windows(count: int) -> Windows:
        length = learner.context * (SPAN if is_cut(learner) else 1)
        return cut_windows(held, count, length, plan.seed, learner.vocabulary, learner.source, learner.context)

    watched = held_out_windows(WATCHED)

    def progress() -> float:
        return trainer.steps_done / plan.steps if plan.steps else seconds / 60 / (plan.minutes or 1)

    def export(**facts: Any) -> None:
        known = {"seed": plan.seed, "steps": trainer.steps_done, "batch": config.batch, "window": config.window}
        record = {**(about or {}), **known, "minutes": round(seconds / 60, 1), **facts}
        learner.save(folder, trainer.network, name, record)

    saved, started = seconds, time.perf_counter() - seconds
    while progress() < 1:
        loss = trainer.step(stream, progress()) / token_bytes
        recent.append(loss)
        seconds = time.perf_counter() - started
        if progress() >= (len(curve) + 1) / POINTS:
            held_out = score(learner.freeze(trainer.network, name), watched).per_hidden_byte().value
            seen = round(trainer.steps_done * config.batch * config.window * token_bytes)
            mean = sum(recent) / len(recent)
            curve.append(Point(trainer.steps_done, seen, round(seconds, 1), round(mean, 4), round(held_out, 4)))
            recent = []
        speed = trainer.steps_done * config.batch * config.window * token_bytes / seconds
        left = max(0.0, seconds * (1 / progress() - 1))
        report(TrainingProgress(min(progress(), 1.0), trainer.steps_done, loss, speed, left))
        stop = stopped()
        if stop or seconds - saved > CHECKPOINT_SECONDS:
            _save_state(folder / STATE, plan, trainer, seconds, curve, recent)
            write_atomically(folder / CURVE, format_curve(curve))
            saved = seconds
        if stop:
            export(finished=False)
            return Outcome(False, trainer.steps_done, seconds, tuple(curve), None)
    _save_state(folder / STATE, plan, trainer, seconds, curve, recent)  # a run killed from here on loses nothing
    write_atomically(folder / CURVE, format_curve(curve))
    export(finished=False)
    scores = score(learner.load(folder, device), held_out_windows(REPORTED))
    export(finished=True, held_out=figures(scores))
    (folder / STATE).unlink(missing_ok=True)
    return Outcome(True, trainer.steps_done, seconds, tuple(curve), scores)


def is_finished(folder: Path) -> bool:
    """Whether ``folder`` holds an expert whose training is finished."""
    path = folder / CONFIG
    if not path.exists():
        return False
    config = read_flow_config(folder) if is_flow(folder) else read_config(folder)
    about = config.get("about")
    return isinstance(about, dict) and bool(about.get("finished"))


def is_begun(folder: Path) -> bool:
    """Whether ``folder`` holds a run that was interrupted, and can be resumed."""
    return (folder / STATE).exists()


def is_cut(learner: Learner) -> bool:
    """Whether a learner reads tokens that stand for several bytes."""
    return isinstance(learner.vocabulary, Tokens)


def figures(scores: Scores) -> dict[str, dict[str, float]]:
    """The three figures of an expert on a corpus, each with its interval."""
    found = {
        "nats_per_masked_byte": scores.per_hidden_byte(),
        "energy": scores.energy(),
        "bits_per_byte": scores.bits_per_byte(),
    }
    return {name: {key: round(value, 4) for key, value in asdict(estimate).items()} for name, estimate in found.items()}


def format_curve(curve: Sequence[Point]) -> bytes:
    """The loss curve as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["step", "bytes", "seconds", "loss", "held_out"])
    writer.writerows(asdict(point).values() for point in curve)
    return text.getvalue().encode()


def _save_state(
    path: Path, plan: Plan, trainer: Trainer, seconds: float, curve: Sequence[Point], recent: Sequence[float]
) -> None:
    """Write everything that is needed to resume the run, in one file."""
    record = {
        "plan": asdict(plan),
        "steps_done": trainer.steps_done,
        "seconds": seconds,
        "curve": [asdict(point) for point in curve],
        "recent": list(recent),
    }
    tensors = {name: value.detach().cpu().contiguous() for name, value in trainer.state().items()}
    write_atomically(path, format_safetensors(tensors, {"run": json.dumps(record)}))


def _restore(path: Path, plan: Plan, trainer: Trainer) -> tuple[float, list[Point], list[float]]:
    """Load a run into ``trainer``; return its seconds so far, its curve, and its losses since the last point of it."""
    if not path.exists():
        raise ConservatorError(f"there is nothing to resume: no {path}")
    try:
        with open_file(path), safe_open(path, framework="pt") as handle:
            record = json.loads((handle.metadata() or {})["run"])
            tensors = {name: handle.get_tensor(name) for name in handle.keys()}  # noqa: SIM118
        if not isinstance(record, dict) or not isinstance(record["plan"], dict):
            raise ValueError("it does not say what run it is of")
        theirs, ours = _flat(record["plan"]), _flat(asdict(plan))
        for key in theirs | ours:
            if theirs.get(key) != ours.get(key):
                raise ConservatorError(f"{path} is of another run: its {key} is {theirs.get(key)}, not {ours.get(key)}")
        steps, seconds = record["steps_done"], _number(record["seconds"])
        if type(steps) is not int or not 1 <= steps <= (plan.steps or MOST_STEPS):
            raise ValueError(f"{steps!r} steps were done, of {plan.steps or MOST_STEPS} at most")
        curve = [Point(**{key: _number(value) for key, value in point.items()}) for point in record["curve"]]
        recent = list(map(_number, record["recent"]))
        trainer.restore(tensors, steps)
    except ConservatorError:
        raise
    except (SafetensorError, AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ConservatorError(f"{path} is damaged: {error}") from error
    return seconds, curve, recent


def _number(value: Any) -> Any:
    """A number that is not negative, as it is."""
    if type(value) not in (int, float) or not 0 <= value < 2**53:
        raise ValueError(f"{value!r} is no number from 0 to 2^53")
    return value


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested settings: name -> value, with dots in the names of nested ones."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
