"""``conservator batch``: restores many documents with experts that are loaded once."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from conservator.cli.console import messages, show_counts
from conservator.cli.options import Force, ModelArguments, Parents, Quiet, as_usage_errors, with_options
from conservator.errors import ConservatorError, OptionError
from conservator.options import RestoreOptions, expert_names
from conservator.system.files import check_folder
from conservator.system.processes import available_cores

if TYPE_CHECKING:
    from conservator.batch import Batch, Engine, Inputs, Totals, WorkerConfig
    from conservator.batch.estimate import CostEstimate
    from conservator.batch.references import Texts

EXAMPLES = (
    "Examples:\n\n"
    "  conservator batch archive/ --out restored/\n\n"
    "  conservator batch archive/ --out restored/ --include '*.md' --ignore drafts --jobs 4\n\n"
    "  conservator batch notes.jsonl.gz table.parquet --field body --out restored/\n\n"
    "  conservator batch archive.tar --out restored/ --cross-reference --time-limit 60\n\n"
    "  conservator batch archive/ --out restored/ --engine ray --address auto\n\n"
    "  conservator batch archive/ --out restored/ --dry-run\n\n"
    "To resume an interrupted run, give the same command again.\n\n"
    "Exit codes: 0 all documents restored or undamaged; 2 invalid usage; 3 input or output error; 4 some documents "
    "could not be restored and were copied unchanged; 130 interrupted."
)
LISTED_REASONS = 5  # reasons for copying: listed in the summary [untuned]
MEGABYTE = 2**20
ENGINES = ("local", "ray")
SOME_COPIED = 4  # exit code if some documents could not be restored


@with_options("batch")
def batch(
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="INPUT...", help="Files, folders, .jsonl, .jsonl.gz and .parquet tables, .tar and .tar.gz archives."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Output folder.")],
    field: Annotated[str, typer.Option(help="Field or column of tables that holds the text.")] = "text",
    include: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Restore only matching files of folders. May be repeated."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Skip matching files and folders. May be repeated."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            min=1,
            max=1024,
            help="Number of worker processes (default: one for each core).",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(help="Where to run. local: processes on this machine. ray: a Ray cluster."),
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            help="Address of the Ray cluster, such as auto or ray://head:10001 (default: start Ray on this machine).",
            show_default=False,
        ),
    ] = None,
    gpus: Annotated[
        float, typer.Option(min=0, help="Number of GPUs for each worker of a Ray cluster; may be a fraction.")
    ] = 0.0,
    time_limit: Annotated[
        float | None,
        typer.Option(
            min=0.001, metavar="SECONDS", help="Copy a document unchanged if it takes longer (default: no limit)."
        ),
    ] = None,
    memory_limit: Annotated[
        float | None,
        typer.Option(
            min=1,
            metavar="MB",
            help="Copy a document unchanged if its worker, with the experts, needs more memory (default: no limit).",
        ),
    ] = None,
    max_bytes: Annotated[int, typer.Option(min=1, help="Copy documents above this size, in bytes, unchanged.")] = 16
    * MEGABYTE,
    retry: Annotated[
        bool,
        typer.Option("--retry", help="Retry documents that timed out, ran out of memory or crashed workers."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the number of documents and the estimated time; write nothing.")
    ] = False,
    cross_reference: Annotated[
        bool,
        typer.Option("--cross-reference", help="Use every document as a reference for the others."),
    ] = False,
    *,
    models: ModelArguments,
    options: RestoreOptions,
    force: Force = False,
    parents: Parents = False,
    quiet: Quiet = False,
) -> None:
    """Restore many documents. Each result depends only on the document and the options.

    A file of a folder keeps its relative path in the output folder. Tables and archives keep their format; only the
    texts change. The output folder also contains a summary of all documents (summary.parquet or summary.csv) and
    overview.html, which lists the documents by need for review.
    """
    if cross_reference and not options.memory:
        raise typer.BadParameter("has no effect with --no-memory", param_hint="--cross-reference")
    models.check(options)
    if engine not in ENGINES:
        raise typer.BadParameter(f"expected one of {', '.join(ENGINES)}, got {engine!r}", param_hint="--engine")
    if engine == "local" and (address is not None or gpus):
        raise typer.BadParameter("--address and --gpus need --engine ray", param_hint="--address")
    if engine == "ray" and memory_limit is not None:
        raise typer.BadParameter(
            "not available with --engine ray: Ray limits the memory itself", param_hint="--memory-limit"
        )
    workers = jobs or available_cores()

    from conservator.batch import Batch, Inputs, LocalEngine, RayEngine, WorkerConfig, hash_configuration
    from conservator.batch.output_folder import REFERENCES
    from conservator.batch.references import build_references, gather_texts
    from conservator.channels import check_channels, needs_experts
    from conservator.vocabularies import BYTES

    named_experts = None if models.experts is None else tuple(expert_names(models.experts))
    precision = models.precision or "float32"
    worker_config = WorkerConfig(options, named_experts, models.device, precision, models.trust_remote_code)
    batch_inputs = Inputs(inputs, out, field, include or (), ignore or (), max_bytes)
    with as_usage_errors():
        check_channels(options.channel, BYTES.size)  # reports an invalid channel before the work
        if cross_reference and not needs_experts(options.channel):
            raise OptionError(
                "cross_reference", "not available with channels that correct text: the documents contain errors"
            )
        worker_config = replace(worker_config, references=tuple(models.references or ()))
        texts = gather_texts(
            [Path(path) for path in models.references or ()],
            batch_inputs.input_files() if cross_reference else (),
            options,
        )
        if texts and needs_experts(options.channel):
            worker_config = replace(worker_config, reference_index=str(out / REFERENCES))
        config_hash = hash_configuration(worker_config, texts)
        memory_bytes = None if memory_limit is None else int(memory_limit * MEGABYTE)
        batch_engine: Engine = LocalEngine(worker_config, workers, time_limit, memory_bytes)
        if engine == "ray":
            batch_engine = RayEngine(worker_config, jobs, address, gpus, time_limit)
        if dry_run:
            print_cost(batch_inputs, worker_config, options, texts, workers)
            return
        check_folder(out, parents=parents)
        limits = f"time {time_limit}, memory {memory_limit}, bytes {max_bytes}"
        run = Batch(batch_inputs, batch_engine, config_hash, limits, force, retry)
        if worker_config.reference_index is not None:
            run.prepare = lambda: build_references(texts, options.mark, out / REFERENCES)
        start = time.monotonic()
        totals = run_with_progress(run)
    console = Console(highlight=False, markup=False, quiet=quiet)
    console.print("\n".join(summary(totals, run, time.monotonic() - start)), soft_wrap=True)
    raise typer.Exit(SOME_COPIED if totals.copied else 0)


def run_with_progress(run: "Batch") -> "Totals":
    """Run a batch with a progress bar; Ctrl-C stops it, and the message tells how to resume."""
    try:
        with progress_bar() as run.on_progress:
            return run.run()
    except KeyboardInterrupt:
        messages.print("interrupted; to resume, give the same command again", soft_wrap=True)
        raise typer.Exit(130) from None


@contextmanager
def progress_bar() -> "Iterator[Callable[[int, int | None], None]]":
    """Show a bar with speed and remaining time on standard error, if that is a terminal."""
    with show_counts("{task.fields[rate]}") as bar:
        task, start = bar.add_task("restoring documents", total=None, rate=""), time.monotonic()

        def update(done: int, total: int | None) -> None:
            rate = done / max(1e-9, time.monotonic() - start)
            bar.update(task, completed=done, total=total, rate=f"{rate:.3g}/s")

        yield update


def print_cost(
    inputs: "Inputs", worker_config: "WorkerConfig", options: RestoreOptions, texts: "Texts", workers: int
) -> None:
    """Print the number of documents and the estimated time of a batch; ``texts`` are the references."""
    import tempfile

    from conservator.batch import LocalEngine
    from conservator.batch.estimate import estimate_cost
    from conservator.batch.references import build_references

    with tempfile.TemporaryDirectory(prefix="conservator.") as folder:
        sample_config = worker_config
        if worker_config.reference_index is not None:
            build_references(texts, options.mark, Path(folder))
            sample_config = replace(worker_config, reference_index=folder)
        cost = estimate_cost(inputs.input_files(), options, lambda: LocalEngine(sample_config, 1))
    if not cost.documents:
        raise ConservatorError("the inputs contain no documents")
    print("\n".join(describe_cost(cost, inputs, workers)))


def describe_cost(cost: "CostEstimate", inputs: "Inputs", workers: int) -> list[str]:
    """Describe the estimated cost of a batch."""
    lines = [f"{cost.documents:,} documents, {cost.bytes:,} bytes", describe_skipped(inputs, 0)]
    if cost.lost:
        lines.append(f"{cost.damaged:,} damaged documents, {cost.lost:,} marks")
    else:
        lines.append(f"{cost.damaged:,} documents may be damaged")
    if cost.measured:
        lines.append(
            f"estimated time: {duration(cost.seconds)} on one core, {duration(cost.seconds / workers)} with --jobs "
            f"{workers} (measured on {cost.measured} documents)"
        )
    return lines


def duration(seconds: float) -> str:
    """Format a duration in a suitable unit."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def describe_skipped(inputs: "Inputs", binary: int) -> str:
    """Describe the files of folders that were skipped."""
    ignored = f"{inputs.ignored_count} by --include or --ignore"
    return f"skipped files: {inputs.hidden_count} hidden, {ignored}, {binary} not text"


def summary(totals: "Totals", run: "Batch", seconds: float) -> list[str]:
    """Describe a batch that took ``seconds``: outcomes, restored text, accuracy, reasons for copying and speed."""
    outcomes = ", ".join(f"{number:,} {outcome}" for outcome, number in sorted(totals.outcomes.items()))
    lines = [
        f"{totals.documents:,} documents: {outcomes or 'none'}",
        describe_skipped(run.inputs, totals.excluded),
        f"{totals.lost:,} bytes or characters lost, {totals.restored:,} restored, {totals.confident:,} of them with a "
        f"confidence of at least 90 %, {totals.unfilled:,} left unfilled",
    ]
    if totals.expected_accuracy is not None:
        lines.append(f"expected accuracy: {100 * totals.expected_accuracy:.1f} %")
        weights = (f"{name} {100 * weight:.0f} %" for name, weight in totals.mean_weights())
        lines.append(f"expert weights at lost positions: {', '.join(weights)}")
    lines += [f"copied: {number:,} x {reason}" for reason, number in totals.reasons.most_common(LISTED_REASONS)]
    if len(totals.reasons) > LISTED_REASONS:
        lines.append(f"and {len(totals.reasons) - LISTED_REASONS} more reasons, listed in the summary file")
    lines += [
        f"{number:,} read as {read} and written as {written}: a restored character does not exist in {read}"
        for (read, written), number in totals.converted.most_common()
    ]
    lines += [
        f"{kind.replace('_', ' ')}: {number:,} x {totals.messages[kind]}"
        for kind, number in totals.notices.most_common()
    ]
    if run.protected_files:
        lines.append(
            f"{run.protected_files:,} output files were created or changed by someone else and not overwritten; "
            "--force overwrites them"
        )
    rate = f", {run.processed / seconds:.3g} per second" if run.processed else ""
    lines.append(f"this run: {run.processed:,} documents{rate}, {duration(seconds)}")
    return lines
