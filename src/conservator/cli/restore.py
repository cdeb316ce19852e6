"""``conservator restore``: restores a damaged document."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, TimeElapsedColumn

from conservator.cli.console import SafeConsole, messages, show_progress, without_collection
from conservator.cli.description import describe_detection, describe_undamaged, summary
from conservator.cli.options import (
    Force,
    ModelArguments,
    Parents,
    Quiet,
    Threads,
    as_usage_errors,
    check_targets,
    with_options,
)
from conservator.cli.pictures import picture_edits
from conservator.options import DEFAULTS, REPORT_ALTERNATIVES, RestoreOptions
from conservator.system.files import display_name, read_document, write_document

EXAMPLES = (
    "Examples:\n\n"
    "  conservator restore damaged.md -o restored.md --report report.html\n\n"
    '  conservator restore scan.txt --mark "_" --min-confidence 0.8 > restored.txt\n\n'
    '  conservator restore notes.txt --gap "[...]" --max-gap 24 --alternatives 5 --json notes.json -o -\n\n'
    "  conservator restore chapter.md --reference book/ --reference notes.txt -o restored.md\n\n"
    "  conservator restore notes.md --effort best -o restored.md     (after: conservator experts add smollm2)\n\n"
    "  conservator restore notes.md --experts prose,code,hf:models/bert -o restored.md\n\n"
    "  conservator restore letter.txt --lost encoding:windows-1252 -o restored.txt\n\n"
    "  conservator restore page.txt --channel ocr --reference archive/ -o corrected.txt\n\n"
    "  conservator restore page.hocr -o corrected.hocr\n\n"
    "  conservator restore page.hocr --also engine2.txt --also engine3.txt -o merged.hocr\n\n"
    "  conservator restore scan.png --report report.html -o page.txt\n\n"
    "  conservator restore overwritten.txt --channel replacement:0.05 -o restored.txt\n\n"
    "Exit codes: 0 restored, or corrected (also if no correction was needed); 2 invalid usage; 3 input or output "
    "error, or no result within --max-seconds; 4 nothing to restore: the document has no marks; 5 unchanged: the "
    "models do not cover this text; 130 interrupted (no partial files)."
)
NOTHING_TO_RESTORE = 4  # exit code if the document has no marks
NOT_COVERED = 5  # exit code if nothing was restored because the models do not cover the text


@with_options("cli")
def restore(
    damaged: Annotated[
        str,
        typer.Argument(
            help="Damaged document: a text file, an OCR file (hOCR, ALTO, PAGE XML, Tesseract TSV), or a scan (image "
            "or PDF; needs Tesseract); - reads standard input."
        ),
    ],
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--also",
            metavar="FILE",
            help="Additional reading of the same text, such as the result of another OCR engine or another damaged "
            "copy. Where the readings differ, the most probable text is chosen. The first document determines the "
            "format of the result. May be repeated.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[str, typer.Option("--out", "-o", help="Output file; - writes to standard output.")] = "-",
    *,
    models: ModelArguments,
    options: RestoreOptions,
    given: frozenset[str],
    report: Annotated[
        str | None, typer.Option(help="Write an HTML report to this file; - writes to standard output.")
    ] = None,
    json: Annotated[
        str | None, typer.Option(help="Write the full result as JSON to this file; - writes to standard output.")
    ] = None,
    force: Force = False,
    parents: Parents = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Restore a damaged document. Every visible byte is kept.

    OCR files and scans, and documents with --channel ocr or replacement, are corrected instead: there, visible text may
    change. The output has the encoding of the input.
    """
    models.check(options)
    targets = check_targets({"--out": out, "--report": report, "--json": json}, force=force, parents=parents)
    data = read_document(damaged)
    with without_collection():
        from conservator.channels import needs_experts
        from conservator.document import open_document
        from conservator.restorer import Restorer
        from conservator.results.notices import UNRELATED_READING

    name = "standard input" if damaged == "-" else display_name(damaged)
    with progress_bar() as progress, as_usage_errors():
        document = open_document(data, options, name=name, progress=progress)
        options = document.select_channel(options)
        has_gaps = bool(options.gap_markers) or options.notation not in ("auto", "plain")
        has_details = report is not None or json is not None or has_gaps
        if "alternatives" not in given and has_details and options.channel == DEFAULTS.channel:
            options = replace(options, alternatives=REPORT_ALTERNATIVES)
        select, loaded = models.experts is None, None
        if not select or needs_experts(options.channel):
            loaded = models.load()
        restorer = Restorer(loaded, options, select=select)
        if options.effort == "best" and messages.is_terminal:
            seconds = restorer.estimate_rescoring_seconds(document)
            messages.print(f"rescoring with language models takes about {seconds:.0f} s", soft_wrap=True)
        if models.references:
            progress("references", 0.0)
        references = read_references(models.references or [], damaged)
        restoration = restorer.restore(
            document, references=references, also=[Path(path) for path in also or []], progress=progress
        )
    document.write(restoration, out)
    if document.transcript is not None and Path(out).suffix != ".txt":
        written_format = document.transcript.format
        messages.print(f"written as {written_format}; use -o NAME.txt to write only the text", soft_wrap=True)
    name = "standard input" if damaged == "-" else display_name(Path(damaged).name)
    if report is not None:
        write_document(report, restoration.to_html(name, picture_edits(document, restoration, damaged)))
    if json is not None:
        write_document(json, restoration.to_json())
    if not restoration.changes:
        if restoration.out_of_time is not None or restoration.not_covered:
            messages.print("\n".join(f"{name}: {notice.message}" for notice in restoration.notices), soft_wrap=True)
            raise typer.Exit(NOT_COVERED if restoration.not_covered else 0)
        unused = [notice.message for notice in restoration.notices if notice.kind == UNRELATED_READING]
        messages.print("\n".join([*unused, describe_undamaged(restoration, name, options)]), soft_wrap=True)
        is_default = options.channel == DEFAULTS.channel and not restoration.is_correction
        if is_default:
            with as_usage_errors():
                channels = restorer.detect(document)
            for line in describe_detection(document, channels):
                messages.print(line, soft_wrap=True)
        raise typer.Exit(NOTHING_TO_RESTORE if is_default else 0)
    encoding, written = restoration.encoding, restoration.encoded[1]
    if encoding != "utf-8":
        detected = " (detected)" if document.encoding_detected else ""
        reason = "" if written == encoding else f", because a restored character does not exist in {encoding}"
        messages.print(f"read as {encoding}{detected}; written as {written}{reason}", soft_wrap=True)
    console = messages if "-" in targets else SafeConsole(highlight=False, markup=False, quiet=quiet)
    console.print("\n".join(summary(restoration)), soft_wrap=True)
    if restoration.not_covered and not restoration.summary.restored:
        raise typer.Exit(NOT_COVERED)


def read_references(paths: list[str], damaged: str) -> list[tuple[str, str]]:
    """Read the references as (name, text). The document itself, which a folder may contain, is excluded."""
    from conservator.documents import read_texts

    document = None if damaged == "-" else Path(damaged)
    return [reference for path in paths for reference in read_texts(Path(path), exclude=document)]


@contextmanager
def progress_bar() -> "Iterator[Callable[[str, float], None]]":
    """Show a progress bar on standard error, if that is a terminal; yield the function that updates it."""
    from conservator.results.notices import STAGE_LABELS

    columns = ("{task.description:24}", BarColumn(), "{task.percentage:3.0f} %", TimeElapsedColumn())
    with show_progress(*columns) as bar:
        task = bar.add_task("loading experts", total=1.0)
        yield lambda stage, share: bar.update(task, description=STAGE_LABELS[stage], completed=share)
