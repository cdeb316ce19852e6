"""Training runs: they can be stopped at any time and resumed; the result is an expert."""

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
from conservator.experts.library import load_trained
from conservator.system.files import make_folder, open_file, real_path, write_atomically
from conservator.training.corpus import Corpus, as_stream, draw_blocks, hold_out
from conservator.training.learners import Learner
from conservator.training.scoring import Scores, Windows, draw_noisy_windows, score
from conservator.training.trainer import Trainer, TrainingConfig, byte_learner
from conservator.vocabularies import Tokens

STATE, CURVE = "training.safetensors", "loss.csv"
CURVE_POINTS = 40  # points: of the loss curve [untuned]
BYTES_PER_TOKEN = 4  # bytes: of held-out text for each token of a window; the rest is truncated [untuned]
CURVE_WINDOWS = 32  # windows: held-out windows for a point of the loss curve [untuned]
FINAL_WINDOWS = 512  # windows: held-out windows for the final scores [untuned]
MAX_STEPS = 10**12  # steps: of a saved run [safety limit]
CHECKPOINT_SECONDS = 120.0  # seconds: between two checkpoints [untuned]


@dataclass(frozen=True)
class Plan:
    """Settings of a run. Either steps or minutes is given; with steps, equal plans give equal experts."""

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
    """Progress after a step."""

    progress: float
    step: int
    loss: float
    bytes_per_second: float
    seconds_left: float


@dataclass(frozen=True)
class TrainingResult:
    """Result of a run.

    Attributes:
        finished: whether the run is complete; else it can be resumed.
        step: number of steps.
        seconds: duration of the steps.
        curve: the loss curve.
        held_out: scores of the finished expert on held-out documents; None if the run is not finished.
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
) -> TrainingResult:
    """Train an expert on ``corpus`` and write it to ``folder``, or resume such a run.

    Args:
        plan: settings of the run.
        corpus: the texts.
        folder: output folder of the expert, the training state and the loss curve; its name is the name of the expert.
        learner: the model to train; None for a byte expert.
        resume: resume the run in ``folder``, which must have the same plan.
        about: further entries of the config of the expert.
        device: device of the training.
        report: called after every step.
        stopped: called after every step; if it returns True, the run is saved and ends.
    """
    config = plan.config
    learner = learner or byte_learner(config)
    has_tokens = isinstance(learner.vocabulary, Tokens)
    training, held = hold_out(corpus, plan.seed)
    stream = as_stream(training, learner.vocabulary)
    if len(stream) < config.window:
        raise ConservatorError(
            f"{corpus.size} bytes are too little text: expected at least one window of {config.window} "
            f"{'tokens' if has_tokens else 'bytes'} and a held-out part"
        )
    token_bytes = (sum(map(len, training)) + len(training) - 1) / len(stream) if has_tokens else 1
    if config.blocks:
        stream = draw_blocks(stream, config.blocks, config.window, plan.seed)
    name = real_path(folder).name
    if not name:
        raise ConservatorError(f"{folder} has no name for the expert; choose a sub-folder")
    make_folder(folder)
    trainer = Trainer(config, plan.seed, torch.device(device), learner)
    curve: list[Point] = []
    recent: list[float] = []  # losses since the last point of the curve
    seconds = 0.0
    if resume:
        seconds, curve, recent = _restore(folder / STATE, plan, trainer)
    elif (folder / CONFIG).exists() or (folder / STATE).exists():
        raise ConservatorError(f"{folder} already contains an expert or a run; resume it, or choose another folder")

    def held_out_windows(count: int) -> Windows:
        length = learner.context * (BYTES_PER_TOKEN if has_tokens else 1)
        return draw_noisy_windows(held, count, length, plan.seed, learner.vocabulary, learner.source, learner.context)

    curve_windows = held_out_windows(CURVE_WINDOWS)

    def progress() -> float:
        return trainer.steps_done / plan.steps if plan.steps else seconds / 60 / (plan.minutes or 1)

    def save() -> None:
        _save_state(folder / STATE, plan, trainer, seconds, curve, recent)
        write_atomically(folder / CURVE, format_curve(curve))

    def export(**facts: Any) -> None:
        settings = {"seed": plan.seed, "steps": trainer.steps_done, "batch": config.batch, "window": config.window}
        record = {**(about or {}), **settings, "minutes": round(seconds / 60, 1), **facts}
        learner.save(folder, trainer.network, name, record)

    saved, started = seconds, time.perf_counter() - seconds
    while progress() < 1:
        loss = trainer.step(stream, progress()) / token_bytes
        recent.append(loss)
        seconds = time.perf_counter() - started
        if progress() >= (len(curve) + 1) / CURVE_POINTS:
            held_out = score(learner.freeze(trainer.network, name), curve_windows).per_hidden_byte().value
            bytes_done = round(trainer.steps_done * config.batch * config.window * token_bytes)
            mean = sum(recent) / len(recent)
            curve.append(Point(trainer.steps_done, bytes_done, round(seconds, 1), round(mean, 4), round(held_out, 4)))
            recent = []
        speed = trainer.steps_done * config.batch * config.window * token_bytes / seconds
        left = max(0.0, seconds * (1 / progress() - 1))
        report(TrainingProgress(min(progress(), 1.0), trainer.steps_done, loss, speed, left))
        stop = stopped()
        if stop or seconds - saved > CHECKPOINT_SECONDS:
            save()
            saved = seconds
        if stop:
            export(finished=False)
            return TrainingResult(False, trainer.steps_done, seconds, tuple(curve), None)
    save()  # a run that is killed from here on loses nothing
    export(finished=False)
    scores = score(load_trained(folder, device), held_out_windows(FINAL_WINDOWS))
    export(finished=True, held_out=summarize(scores))
    (folder / STATE).unlink(missing_ok=True)
    return TrainingResult(True, trainer.steps_done, seconds, tuple(curve), scores)


def is_finished(folder: Path) -> bool:
    """Return whether ``folder`` contains an expert with a finished training."""
    path = folder / CONFIG
    if not path.exists():
        return False
    config = read_flow_config(folder) if is_flow(folder) else read_config(folder)
    about = config.get("about")
    return isinstance(about, dict) and bool(about.get("finished"))


def is_resumable(folder: Path) -> bool:
    """Return whether ``folder`` contains an interrupted run that can be resumed."""
    return (folder / STATE).exists()


def summarize(scores: Scores) -> dict[str, dict[str, float]]:
    """Return the three scores of an expert on a corpus with their intervals."""
    estimates = {
        "nats_per_masked_byte": scores.per_hidden_byte(),
        "energy": scores.energy(),
        "bits_per_byte": scores.bits_per_byte(),
    }
    return {
        name: {key: round(value, 4) for key, value in asdict(estimate).items()} for name, estimate in estimates.items()
    }


def format_curve(curve: Sequence[Point]) -> bytes:
    """Format the loss curve as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["step", "bytes", "seconds", "loss", "held_out"])
    writer.writerows(asdict(point).values() for point in curve)
    return text.getvalue().encode()


def _save_state(
    path: Path, plan: Plan, trainer: Trainer, seconds: float, curve: Sequence[Point], recent: Sequence[float]
) -> None:
    """Write the state that is needed to resume the run."""
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
    """Load a run into ``trainer``; return its seconds, its curve, and the losses since the last point."""
    if not path.exists():
        raise ConservatorError(f"nothing to resume: {path} does not exist")
    try:
        with open_file(path), safe_open(path, framework="pt") as handle:
            record = json.loads((handle.metadata() or {})["run"])
            tensors = {name: handle.get_tensor(name) for name in handle.keys()}  # noqa: SIM118
        if not isinstance(record, dict) or not isinstance(record["plan"], dict):
            raise ValueError("the plan of the run is missing")
        saved, current = _flat(record["plan"]), _flat(asdict(plan))
        for key in saved | current:
            if saved.get(key) != current.get(key):
                raise ConservatorError(
                    f"{path} is from another run: expected {key} {current.get(key)}, got {saved.get(key)}"
                )
        steps, seconds = record["steps_done"], _number(record["seconds"])
        if type(steps) is not int or not 1 <= steps <= (plan.steps or MAX_STEPS):
            raise ValueError(f"the number of steps must be between 1 and {plan.steps or MAX_STEPS}, got {steps!r}")
        curve = [Point(**{key: _number(value) for key, value in point.items()}) for point in record["curve"]]
        recent = list(map(_number, record["recent"]))
        trainer.restore(tensors, steps)
    except ConservatorError:
        raise
    except (SafetensorError, AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ConservatorError(f"{path} is damaged: {error}") from error
    return seconds, curve, recent


def _number(value: Any) -> Any:
    """Return a number; raise a ValueError unless it is between 0 and 2^53."""
    if type(value) not in (int, float) or not 0 <= value < 2**53:
        raise ValueError(f"expected a number between 0 and 2^53, got {value!r}")
    return value


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested settings: name -> value, with dotted names."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
