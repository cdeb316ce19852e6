"""``conservator batch``: many documents, with the experts loaded once."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from conservator.cli.console import messages
from conservator.cli.options import (
    Channel,
    Device,
    Effort,
    Encoding,
    Experts,
    FillUndetermined,
    Force,
    Gap,
    LanguageModel,
    Lost,
    Mark,
    MaxGap,
    MinConfidence,
    MinGapConfidence,
    MinLogOdds,
    NoMemory,
    Parents,
    Precision,
    Quiet,
    Reference,
    Seed,
    TrustRemoteCode,
    as_usage_errors,
)
from conservator.errors import ConservatorError, OptionError
from conservator.options import DEFAULTS, RestoreOptions, expert_names
from conservator.system.files import check_folder
from conservator.system.processes import available_cores

if TYPE_CHECKING:
    from conservator.batch import Batch, Engine, Inputs, Totals, WorkerConfig
    from conservator.batch.estimate import Estimate
    from conservator.batch.references import Texts

EXAMPLES = (
    "Examples:\n\n"
    "  conservator batch archive/ --out restored/\n\n"
    "  conservator batch archive/ --out restored/ --include '*.md' --ignore drafts --jobs 4\n\n"
    "  conservator batch notes.jsonl.gz table.parquet --field body --out restored/\n\n"
    "  conservator batch archive.tar --out restored/ --cross-reference --time-limit 60\n\n"
    "  conservator batch archive/ --out restored/ --engine ray --address auto\n\n"
    "  conservator batch archive/ --out restored/ --dry-run\n\n"
    "A run that was interrupted goes on where it was if the same command is given again.\n\n"
    "Exit codes: 0 all restored, or nothing to do; 2 bad usage; 3 bad input or output (with what and where); 4 some "
    "documents could not be restored and were copied as they are; 130 interrupted."
)
REASONS = 5  # why documents were copied: so many reasons are named
MEGABYTE = 2**20
ENGINES = ("local", "ray")


def batch(
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="INPUT...", help="Files, folders, .jsonl, .jsonl.gz and .parquet tables, .tar and .tar.gz archives."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the results.")],
    field: Annotated[str, typer.Option(help="The field or column of a table that holds the text.")] = "text",
    include: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Take only such files of folders. May be given several times."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Leave such files and folders out. May be given several times."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", "-j", min=1, max=1024, help="Worker processes; one a core by default.", show_default=False
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(help="Who computes: local (processes here), or ray (a cluster; without --address, here)."),
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="The cluster of --engine ray, such as auto or ray://head:10001.", show_default=False),
    ] = None,
    gpus: Annotated[
        float, typer.Option(min=0, help="The share of a graphics processor that each worker of Ray takes.")
    ] = 0.0,
    time_limit: Annotated[
        float | None,
        typer.Option(min=0.001, metavar="SECONDS", help="A document that takes longer is copied as it is."),
    ] = None,
    memory_limit: Annotated[
        float | None,
        typer.Option(min=1, metavar="MB", help="A document is copied if its worker, with its experts, needs more."),
    ] = None,
    max_bytes: Annotated[int, typer.Option(min=1, help="A larger document is copied as it is.")] = 16 * MEGABYTE,
    retry: Annotated[
        bool,
        typer.Option("--retry", help="Try documents again that took too long, too much memory or too many workers."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what there is to do, and about how long it would take.")
    ] = False,
    experts: Experts = None,
    references: Reference = None,
    cross_reference: Annotated[
        bool,
        typer.Option("--cross-reference", help="All documents are like each other: each is remembered for the others."),
    ] = False,
    effort: Effort = DEFAULTS.effort,
    language_models: LanguageModel = None,
    no_memory: NoMemory = not DEFAULTS.memory,
    mark: Mark = DEFAULTS.mark,
    gap: Gap = DEFAULTS.gap,
    max_gap: MaxGap = DEFAULTS.max_gap,
    lost: Lost = DEFAULTS.lost,
    encoding: Encoding = DEFAULTS.encoding,
    channel: Channel = str(DEFAULTS.channel),
    min_log_odds: MinLogOdds = DEFAULTS.min_log_odds,
    min_confidence: MinConfidence = DEFAULTS.min_confidence,
    min_gap_confidence: MinGapConfidence = DEFAULTS.min_gap_confidence,
    fill_undetermined: FillUndetermined = DEFAULTS.fill_undetermined,
    device: Device = "cpu",
    precision: Precision = None,
    trust_remote_code: TrustRemoteCode = False,
    seed: Seed = DEFAULTS.seed,
    force: Force = False,
    parents: Parents = False,
    quiet: Quiet = False,
) -> None:
    """Restore many documents; each result depends on the document and the options alone.

    A file of a folder goes to the same place in the folder of the results; tables and archives become such with
    restored texts. The folder also gets a summary of all documents, and overview.html with the worst first.
    """
    if (references or cross_reference) and no_memory:
        raise typer.BadParameter(
            "the memory reads these texts, and --no-memory leaves it out", param_hint="--reference"
        )
    if references and "" in references:
        raise typer.BadParameter("a file or a folder is needed, not an empty name", param_hint="--reference")
    if language_models is not None and effort != "best":
        raise typer.BadParameter("language models are for --effort best", param_hint="--language-model")
    if precision not in (None, "float32", "bfloat16"):
        raise typer.BadParameter(f"{precision!r}: expected float32 or bfloat16", param_hint="--precision")
    with as_usage_errors():
        options = RestoreOptions(
            mark=mark,
            gap=gap,
            max_gap=max_gap,
            lost=lost,
            channel=channel,
            min_log_odds=min_log_odds,
            min_confidence=min_confidence,
            min_gap_confidence=min_gap_confidence,
            fill_undetermined=fill_undetermined,
            seed=seed,
            memory=not no_memory,
            encoding=encoding,
            effort=effort,
            language_models=DEFAULTS.language_models if language_models is None else language_models,
        )
    if engine not in ENGINES:
        raise typer.BadParameter(f"{engine!r}; known: {', '.join(ENGINES)}", param_hint="--engine")
    if engine == "local" and (address is not None or gpus):
        raise typer.BadParameter("a cluster is for --engine ray", param_hint="--address")
    if engine == "ray" and memory_limit is not None:
        raise typer.BadParameter("Ray watches the memory of its machines itself", param_hint="--memory-limit")
    workers = jobs or available_cores()

    from conservator.batch import Batch, Inputs, LocalEngine, RayEngine, WorkerConfig, hash_configuration
    from conservator.batch.output_folder import REFERENCES
    from conservator.batch.references import build_references, gather_texts
    from conservator.channels import as_channel, as_edit_channel
    from conservator.vocabularies import BYTES

    named = None if experts is None else tuple(expert_names(experts))
    setup = WorkerConfig(options, named, device, precision or "float32", trust_remote_code)
    found = Inputs(inputs, out, field, include or (), ignore or (), max_bytes)
    with as_usage_errors():
        is_correction = as_edit_channel(channel) is not None
        if not is_correction:
            as_channel(channel, BYTES.size)  # says now what is wrong with it
        if is_correction and cross_reference:
            raise OptionError(
                "cross_reference", "documents that may be wrong anywhere cannot be each other's reference"
            )
        if is_correction and references:
            setup = replace(setup, references=tuple(references))
        texts = gather_texts(
            [Path(one) for one in references or ()], found.input_files() if cross_reference else (), options
        )
        if texts and not is_correction:
            setup = replace(setup, reference_index=str(out / REFERENCES))
        config = hash_configuration(setup, texts)
        memory = None if memory_limit is None else int(memory_limit * MEGABYTE)
        chosen: Engine = LocalEngine(setup, workers, time_limit, memory)
        if engine == "ray":
            chosen = RayEngine(setup, jobs, address, gpus, time_limit)
        if dry_run:
            say_cost(found, setup, options, texts, workers)
            return
        check_folder(out, parents=parents)
        limits = f"time {time_limit}, memory {memory_limit}, bytes {max_bytes}"
        task = Batch(found, chosen, config, limits, force, retry)
        if setup.reference_index is not None:
            task.prepare = lambda: build_references(texts, mark, out / REFERENCES)
        began = time.monotonic()
        totals = run_to_the_end(task)
    console = Console(highlight=False, markup=False, quiet=quiet)
    console.print("\n".join(summary(totals, task, time.monotonic() - began)), soft_wrap=True)
    raise typer.Exit(4 if totals.copied else 0)


def run_to_the_end(task: "Batch") -> "Totals":
    """Run a batch with a bar; Ctrl-C ends it, and says how to go on."""
    try:
        with progress_bar() as task.tell:
            return task.run()
    except KeyboardInterrupt:
        messages.print("interrupted; the same command goes on from here", soft_wrap=True)
        raise typer.Exit(130) from None


@contextmanager
def progress_bar() -> "Iterator[Callable[[int, int], None]]":
    """A bar on standard error with rate and time left, if that is a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    hidden = messages.quiet or not messages.is_terminal
    with Progress(*columns, console=messages, transient=True, disable=hidden) as bar:
        task, began = bar.add_task("restoring", total=None, rate=""), time.monotonic()

        def tell(done: int, total: int) -> None:
            rate = done / max(1e-9, time.monotonic() - began)
            bar.update(task, completed=done, total=total, rate=f"{rate:.3g}/s")

        yield tell


def say_cost(found: "Inputs", setup: "WorkerConfig", options: RestoreOptions, texts: "Texts", workers: int) -> None:
    """Say what there is to do, and about how long it would take."""
    import tempfile

    from conservator.batch import LocalEngine
    from conservator.batch.estimate import estimate
    from conservator.batch.references import build_references

    with tempfile.TemporaryDirectory(prefix="conservator.") as folder:
        own = setup
        if setup.reference_index is not None:
            build_references(texts, options.mark, Path(folder))
            own = replace(setup, reference_index=folder)
        cost = estimate(found.input_files(), options, lambda: LocalEngine(own, 1))
    if not cost.documents:
        raise ConservatorError("no documents there")
    print("\n".join(describe_cost(cost, found, workers)))


def describe_cost(cost: "Estimate", found: "Inputs", workers: int) -> list[str]:
    """The cost of a batch in words."""
    lines = [f"{cost.documents:,} documents, {cost.bytes:,} bytes; {left_out(found, 0)}"]
    if cost.lost:
        lines.append(f"{cost.damaged:,} of them damaged, {cost.lost:,} marks")
    else:
        lines.append(f"{cost.damaged:,} of them may be damaged")
    if cost.measured:
        lines.append(
            f"about {duration(cost.seconds)} of one core, {duration(cost.seconds / workers)} with --jobs {workers} "
            f"({cost.measured} documents were tried)"
        )
    return lines


def duration(seconds: float) -> str:
    """Seconds in words."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def left_out(found: "Inputs", binary: int) -> str:
    """What was left out of folders."""
    return f"left out: {found.hidden} hidden, {found.ignored} by name, {binary} that are not text"


def summary(totals: "Totals", task: "Batch", seconds: float) -> list[str]:
    """What was restored, how sure that is, what was copied and why, and what it cost."""
    outcomes = ", ".join(f"{number:,} {outcome}" for outcome, number in sorted(totals.outcomes.items()))
    lines = [
        f"{totals.documents:,} documents: {outcomes or 'none'}",
        left_out(task.inputs, totals.left_out),
        f"{totals.lost:,} lost, {totals.restored:,} restored, {totals.confident:,} of them at least 90 % sure, "
        f"{totals.left_open:,} left open",
    ]
    if totals.expected is not None:
        lines.append(f"{100 * totals.expected:.1f} % should be right")
        shares = (f"{name} {100 * share:.0f} %" for name, share in totals.mean_shares())
        lines.append(f"trusted there: {', '.join(shares)}")
    lines += [f"copied: {number:,} x {reason}" for reason, number in totals.reasons.most_common(REASONS)]
    if len(totals.reasons) > REASONS:
        lines.append(f"and {len(totals.reasons) - REASONS} other reasons, in the summary")
    lines += [
        f"{number:,} read as {read} and written as {written}: a restored character does not exist in {read}"
        for (read, written), number in totals.converted.most_common()
    ]
    lines += [
        f"{kind.replace('_', ' ')}: {number:,} x {totals.messages[kind]}"
        for kind, number in totals.notices.most_common()
    ]
    if task.kept:
        lines.append(f"{task.kept:,} files were created or changed by someone else, and kept; --force replaces them")
    rate = f", {task.tried / seconds:.3g} a second" if task.tried else ""
    lines.append(f"{task.tried:,} documents in this run{rate}, {duration(seconds)}")
    return lines
