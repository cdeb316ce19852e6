"""``conservator train``: an expert from a folder of text."""

import shlex
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn

from conservator.cli.console import messages, printable
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
    "Exit codes: 0 trained, 2 bad usage, 3 bad input or output, 130 interrupted (what was reached is kept)."
)


def train(
    data: Annotated[
        list[str],
        typer.Option(
            help="A text file, a folder of them, .jsonl or .jsonl.gz with a field text; may be repeated.",
            metavar="PATH",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder for the expert; its last name is the expert's.")],
    source: Annotated[
        str, typer.Option(help="The noise that it learns to remove: mask, or uniform (any token may be wrong).")
    ] = "mask",
    vocabulary: Annotated[
        str,
        typer.Option(
            help="What it reads: bytes; a number, for so many tokens made from the texts; or a folder with a "
            "tokenizer.json, or with GPT-2's encoder.json and vocab.bpe.",
        ),
    ] = "bytes",
    base: Annotated[
        Path | None,
        typer.Option(help="Train an adapter of this flow-matching expert, which stays as it is.", show_default=False),
    ] = None,
    lora_rank: Annotated[
        int | None, typer.Option(min=1, max=4096, help="With --base: the rank of the adapter.", show_default=False)
    ] = None,
    lora_alpha: Annotated[
        int | None, typer.Option(min=1, max=10**6, help="With --base: the scale of the adapter.", show_default=False)
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="For bytes small (two CPU cores) or paper (a GPU); for tokens or a uniform source laptop; with --base "
            "laptop or paper. By default the first.",
            show_default=False,
        ),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.001, max=1e6, help="Train for so long.", show_default=False)
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Train for so many steps; if neither is given, for the preset's.", show_default=False),
    ] = None,
    seed: Seed = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    strip: Annotated[
        list[str] | None,
        typer.Option(
            help="Take comments out: python-comments (and docstrings) or yaml-comments, of all texts; "
            "PATH=FILTER of those from one of the paths.",
            show_default=False,
        ),
    ] = None,
    about: Annotated[str, typer.Option(help="A line for the model card: what the texts are, and their licence.")] = "",
    device: Annotated[str, typer.Option(help="Where to train: cpu, or cuda where there is one.")] = "cpu",
    parents: Parents = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Train an expert on texts, and keep it as a folder that other commands accept.

    By default it reads bytes and predicts hidden ones. With another vocabulary or source it is a flow-matching expert,
    and with --base an adapter of one.
    A part of the documents is held out and measures the expert. Ctrl-C saves what was reached.
    """
    from conservator.training import Plan, hold_out, is_finished, loss_unit, read_corpus, run_training, write_card

    wish = choose_wish(source, vocabulary, base, lora_rank, lora_alpha)
    preset = preset or next(iter(wish.presets))
    if preset not in wish.presets:
        raise typer.BadParameter(f"no preset {preset!r}; known: {', '.join(wish.presets)}", param_hint="--preset")
    if not all(data):
        raise typer.BadParameter("an empty path; give a file or a folder", param_hint="--data")
    paths = list(map(Path, data))
    filters = choose_filters(strip or [], paths)
    if minutes is not None and steps is not None:
        raise typer.BadParameter("give --minutes or --steps, not both", param_hint="--minutes")
    check_device(device)
    if resume and is_finished(out):
        messages.print(f"the run in {out} is finished", soft_wrap=True)
        write_card(out)
        return
    keep_memory()
    corpus = read_corpus(paths, filters)
    check_folder(out, parents=parents)
    left_out = f", {corpus.left_out} left out" if corpus.left_out else ""
    messages.print(f"{len(corpus.documents)} documents, {corpus.size} bytes{left_out}", soft_wrap=True)
    documents = hold_out(corpus, seed)[0]
    config, learner = wish.learner(wish.presets[preset], documents, out, resume=resume, device=device)
    read = f"{corpus.fingerprint} {learner.vocabulary.fingerprint}"
    plan = Plan(config, seed, steps if minutes or steps else config.steps, minutes, read)
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
    with Interrupt() as interrupt, TrainingBar() as bar:
        outcome = run_training(
            plan,
            corpus,
            out,
            learner=learner,
            resume=resume,
            about=record,
            device=device,
            report=bar.show,
            stopped=interrupt.asked,
        )
    if not outcome.finished:
        messages.print(f"stopped at step {outcome.step}; --resume goes on; {out} is usable as it is", soft_wrap=True)
        raise typer.Exit(130)
    write_card(out)
    print(f"{printable(display_name(out))}: {outcome.step} steps, {outcome.seconds / 60:.1f} minutes")
    if outcome.held_out is not None:
        loss, bound = outcome.held_out.per_hidden_byte(), outcome.held_out.bits_per_byte()
        per = loss_unit(learner.source)
        print(f"held out: {loss.value:.3f} [{loss.low:.3f}, {loss.high:.3f}] nats per {per}, times uniform")
        print(f"          {bound.value:.3f} [{bound.low:.3f}, {bound.high:.3f}] bits per byte, schedule-weighted bound")


def choose_wish(
    source: str, vocabulary: str, base: Path | None, rank: int | None, alpha: int | None
) -> "TrainingTarget":
    """What is to be trained, if the options fit each other."""
    from conservator.experts.flow import SOURCES
    from conservator.training import TrainingTarget

    if source not in SOURCES:
        raise typer.BadParameter(f"no source {source!r}; known: {', '.join(SOURCES)}", param_hint="--source")
    if base is None and (rank or alpha):
        raise typer.BadParameter("an adapter needs a --base", param_hint="--lora-rank")
    if base is not None and (source, vocabulary) != ("mask", "bytes"):
        raise typer.BadParameter("an adapter has the source and the vocabulary of its base", param_hint="--base")
    return TrainingTarget(source, vocabulary, base, rank, alpha)


def choose_filters(values: list[str], data: list[Path]) -> "dict[Path, Filter]":
    """The filter of each path, from FILTER for all of them or PATH=FILTER for one."""
    from conservator.training import FILTERS

    chosen = {}
    for value in values:
        path, equals, name = value.rpartition("=")
        if name not in FILTERS or (equals and Path(path) not in data):
            known = f"known filters: {', '.join(FILTERS)}; paths: {', '.join(map(str, data))}"
            raise typer.BadParameter(f"no filter {value!r}; {known}", param_hint="--strip")
        for one in [Path(path)] if equals else data:
            if one in chosen:
                raise typer.BadParameter(f"two filters for {one}", param_hint="--strip")
            chosen[one] = FILTERS[name]
    return chosen


class Interrupt:
    """While it lasts, Ctrl-C and a polite kill are noted instead of raised; a second one is raised."""

    def __init__(self) -> None:
        """Nothing is noted yet."""
        self.noted = False

    def __enter__(self) -> "Interrupt":
        """Take over the signals."""
        self.before = {number: signal.signal(number, self.note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        """Give the signals back."""
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def note(self, number: int, frame: FrameType | None) -> None:
        """Remember the first; the second ends the program as it always did."""
        if self.noted:
            raise KeyboardInterrupt
        self.noted = True  # and no word: the bar may be at work on the same terminal just now

    def asked(self) -> bool:
        """Whether to stop."""
        return self.noted


class TrainingBar:
    """A bar with loss, bytes a second and the time left, if standard error is a terminal."""

    def __enter__(self) -> "TrainingBar":
        """Start to draw."""
        columns = (BarColumn(), TextColumn("{task.percentage:3.0f} %  {task.description}"))
        self.progress = Progress(
            *columns, console=messages, transient=True, disable=messages.quiet or not messages.is_terminal
        )
        self.progress.start()
        self.task = self.progress.add_task("", total=1.0)
        self.loss: float | None = None
        return self

    def __exit__(self, *_: object) -> None:
        """Take the bar away."""
        self.progress.stop()

    def show(self, moment: "TrainingProgress") -> None:
        """Draw the bar as it is after a step; the loss is a running mean."""
        self.loss = moment.loss if self.loss is None else 0.95 * self.loss + 0.05 * moment.loss
        minutes, seconds = divmod(round(moment.seconds_left), 60)
        left = f"{minutes}:{seconds:02}"
        text = f"step {moment.step}  loss {self.loss:.3f}  {moment.bytes_per_second / 1000:.1f} kB/s  left {left}"
        self.progress.update(self.task, completed=moment.progress, description=text)


def check_device(device: str) -> None:
    """A clear error for a device that is not there."""
    import torch

    try:
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise ConservatorError(f"no device {device!r} here: {str(error).splitlines()[0]}") from error


def keep_memory() -> None:
    """Ask the C library not to hand memory back between steps: page faults would take a third of the time."""
    import ctypes

    trim_threshold, mmap_max = -1, -4  # of glibc's malloc.h; other C libraries have no mallopt
    try:
        library = ctypes.CDLL(None)
        library.mallopt(trim_threshold, 2**31 - 1)
        library.mallopt(mmap_max, 0)
    except (OSError, AttributeError, TypeError):
        return
