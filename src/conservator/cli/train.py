"""``conservator train``: trains an expert on texts."""

import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn

from conservator.cli.console import messages, printable, show_progress
from conservator.cli.options import Parents, Quiet, Seed, Threads
from conservator.errors import ConservatorError
from conservator.system.files import check_folder, display_name

if TYPE_CHECKING:
    from conservator.training import Filter, TrainingProgress, TrainingTarget

EXAMPLES = (
    "Examples:\n\n"
    "  conservator train --data notes/ --out ./notes --minutes 30\n\n"
    "  conservator train --data code.jsonl.gz --strip python-comments --out ./python --steps 3000\n\n"
    "  conservator train --data notes/ --out ./notes --minutes 30 --resume\n\n"
    "  conservator train --data texts/ --vocabulary 4096 --source uniform --out ./base --minutes 20\n\n"
    "  conservator train --data notes/ --base ./base --lora-rank 16 --lora-alpha 32 --out ./notes --minutes 5\n\n"
    "Exit codes: 0 trained, 2 invalid usage, 3 input or output error, 130 interrupted (the expert so far is saved)."
)


def train(
    data: Annotated[
        list[str],
        typer.Option(
            help="Training texts: a text file, a folder of text files, or a .jsonl or .jsonl.gz file with a field "
            "text. May be repeated.",
            metavar="PATH",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Output folder; its name becomes the name of the expert.")],
    source: Annotated[
        str, typer.Option(help="Noise of the flow. mask: hidden tokens. uniform: tokens replaced at random.")
    ] = "mask",
    vocabulary: Annotated[
        str,
        typer.Option(
            help="Vocabulary: bytes; a number, to train a tokenizer of this size on the texts; or a folder with a "
            "tokenizer.json, or with encoder.json and vocab.bpe of GPT-2.",
        ),
    ] = "bytes",
    base: Annotated[
        Path | None,
        typer.Option(help="Train a LoRA adapter of this flow-matching expert.", show_default=False),
    ] = None,
    lora_rank: Annotated[
        int | None, typer.Option(min=1, max=4096, help="Rank of the adapter (with --base).", show_default=False)
    ] = None,
    lora_alpha: Annotated[
        int | None, typer.Option(min=1, max=10**6, help="Scale of the adapter (with --base).", show_default=False)
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="Size and schedule. For bytes: small (default, two CPU cores) or paper (a GPU). For tokens or a "
            "uniform source: laptop. With --base: laptop (default) or paper.",
            show_default=False,
        ),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.001, max=1e6, help="Training time, in minutes.", show_default=False)
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Number of training steps (default: those of the preset).", show_default=False),
    ] = None,
    seed: Seed = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in the output folder.")] = False,
    strip: Annotated[
        list[str] | None,
        typer.Option(
            help="Remove comments from all texts: python-comments (also docstrings) or yaml-comments. PATH=FILTER "
            "applies to the texts of one path. May be repeated.",
            show_default=False,
        ),
    ] = None,
    about: Annotated[str, typer.Option(help="Description of the texts and their licence, for the model card.")] = "",
    device: Annotated[str, typer.Option(help="Torch device for the training, such as cpu or cuda.")] = "cpu",
    parents: Parents = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Train an expert on texts, and save it in a folder that other commands accept.

    By default the expert is a masked byte-level network. With another vocabulary or source it is a flow-matching
    expert; with --base it is an adapter of one. Some documents are held out to measure the loss. Ctrl-C saves the
    expert so far.
    """
    from conservator.training import Plan, hold_out, is_finished, loss_unit, read_corpus, run_training, write_card

    target = choose_target(source, vocabulary, base, lora_rank, lora_alpha)
    preset = preset or next(iter(target.presets))
    if preset not in target.presets:
        raise typer.BadParameter(
            f"unknown preset {preset!r}; expected one of {', '.join(target.presets)}", param_hint="--preset"
        )
    if not all(data):
        raise typer.BadParameter("expected a file or a folder, got an empty name", param_hint="--data")
    paths = list(map(Path, data))
    filters = choose_filters(strip or [], paths)
    if minutes is not None and steps is not None:
        raise typer.BadParameter("give --minutes or --steps, not both", param_hint="--minutes")
    check_device(device)
    if resume and is_finished(out):
        messages.print(f"the run in {out} is already finished", soft_wrap=True)
        write_card(out)
        return
    keep_memory()
    corpus = read_corpus(paths, filters)
    check_folder(out, parents=parents)
    skipped = f", {corpus.left_out} skipped" if corpus.left_out else ""
    messages.print(f"{len(corpus.documents)} documents, {corpus.size} bytes{skipped}", soft_wrap=True)
    documents = hold_out(corpus, seed)[0]
    config, learner = target.learner(target.presets[preset], documents, out, resume=resume, device=device)
    fingerprint = f"{corpus.fingerprint} {learner.vocabulary.fingerprint}"
    plan = Plan(config, seed, steps if minutes or steps else config.steps, minutes, fingerprint)
    record: dict[str, Any] = {
        "command": shlex.join(["conservator", *(word for word in sys.argv[1:] if word != "--resume")]),
        "about": about,
        "preset": preset,
        "data": [display_name(path.name) for path in paths],
        "documents": len(corpus.documents),
        "bytes": corpus.size,
        "data_sha256": corpus.fingerprint,
        "strip": strip or [],
    }
    with record_interrupts() as interrupted, progress_bar() as report:
        outcome = run_training(
            plan,
            corpus,
            out,
            learner=learner,
            resume=resume,
            about=record,
            device=device,
            report=report,
            stopped=interrupted,
        )
    if not outcome.finished:
        messages.print(
            f"interrupted at step {outcome.step}; {out} can be used, and --resume continues the training",
            soft_wrap=True,
        )
        raise typer.Exit(130)
    write_card(out)
    print(f"{printable(display_name(out))}: {outcome.step} steps, {outcome.seconds / 60:.1f} minutes")
    if outcome.held_out is not None:
        loss, bound = outcome.held_out.per_hidden_byte(), outcome.held_out.bits_per_byte()
        print(f"held-out loss: {loss} nats per {loss_unit(learner.source)} (mean over noise levels)")
        print(f"               at most {bound} bits per byte")


def choose_target(
    source: str, vocabulary: str, base: Path | None, rank: int | None, alpha: int | None
) -> "TrainingTarget":
    """Check that the options are compatible, and return the training target."""
    from conservator.experts.flow import SOURCES
    from conservator.training import TrainingTarget

    if source not in SOURCES:
        raise typer.BadParameter(
            f"unknown source {source!r}; expected one of {', '.join(SOURCES)}", param_hint="--source"
        )
    if base is None and (rank or alpha):
        raise typer.BadParameter("only available with --base", param_hint="--lora-rank")
    if base is not None and (source, vocabulary) != ("mask", "bytes"):
        raise typer.BadParameter(
            "cannot be combined with --source or --vocabulary: an adapter uses those of its base", param_hint="--base"
        )
    return TrainingTarget(source, vocabulary, base, rank, alpha)


def choose_filters(values: list[str], data: list[Path]) -> "dict[Path, Filter]":
    """Parse the filters: FILTER applies to all paths, PATH=FILTER to one."""
    from conservator.training import FILTERS

    filters = {}
    for value in values:
        path, equals, name = value.rpartition("=")
        if name not in FILTERS or (equals and Path(path) not in data):
            expected = f"expected one of {', '.join(FILTERS)}, for one of the paths {', '.join(map(str, data))}"
            raise typer.BadParameter(f"unknown filter {value!r}; {expected}", param_hint="--strip")
        for filtered_path in [Path(path)] if equals else data:
            if filtered_path in filters:
                raise typer.BadParameter(f"two filters for {filtered_path}; give one", param_hint="--strip")
            filters[filtered_path] = FILTERS[name]
    return filters


@contextmanager
def record_interrupts() -> Iterator[Callable[[], bool]]:
    """Record the first SIGINT or SIGTERM in a ``with`` block; the second one raises KeyboardInterrupt.

    The yielded function returns whether a signal was received. A message would disturb the progress bar.
    """
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    handlers = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def progress_bar() -> "Iterator[Callable[[TrainingProgress], None]]":
    """Show a bar with a moving average of the loss, speed and remaining time, if standard error is a terminal."""
    loss: float | None = None
    with show_progress(BarColumn(), "{task.percentage:3.0f} %  {task.description}") as bar:
        task = bar.add_task("", total=1.0)

        def update(progress: "TrainingProgress") -> None:
            nonlocal loss
            loss = progress.loss if loss is None else 0.95 * loss + 0.05 * progress.loss
            minutes, seconds = divmod(round(progress.seconds_left), 60)
            speed = f"{progress.bytes_per_second / 1000:.1f} kB/s"
            text = f"step {progress.step}  loss {loss:.3f}  {speed}  {minutes}:{seconds:02} remaining"
            bar.update(task, completed=progress.progress, description=text)

        yield update


def check_device(device: str) -> None:
    """Raise a ConservatorError if a device is not available."""
    import torch

    try:
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise ConservatorError(f"the device {device!r} is not available: {str(error).splitlines()[0]}") from error


def keep_memory() -> None:
    """Tell malloc to keep freed memory between steps: page faults would take a third of the time."""
    import ctypes

    trim_threshold, mmap_max = -1, -4  # constants of malloc.h in glibc; other C libraries have no mallopt
    try:
        library = ctypes.CDLL(None)
        library.mallopt(trim_threshold, 2**31 - 1)
        library.mallopt(mmap_max, 0)
    except (OSError, AttributeError, TypeError):
        return
