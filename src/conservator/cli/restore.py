"""``conservator restore``: restores a damaged document."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from conservator.cli.console import SafeConsole, messages, without_collection
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
from conservator.cli.pages import is_pages, ocr_confidence_in, picture_changes, read_any, write_pages
from conservator.options import DEFAULTS, REPORT_ALTERNATIVES, RestoreOptions
from conservator.system.files import display_name, read_document, write_document

if TYPE_CHECKING:
    from conservator.results import Restoration

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
    "  conservator restore scan.png --report report.html -o page.txt\n\n"
    "  conservator restore overwritten.txt --channel replacement:0.05 -o restored.txt\n\n"
    "Exit codes: 0 restored, or corrected (also if no correction was needed); 2 invalid usage; 3 input or output "
    "error, or no result within --max-seconds; 4 nothing to restore: the document has no marks; 5 unchanged: the "
    "models do not cover this text; 130 interrupted (no partial files)."
)
NOTHING_TO_RESTORE = 4  # exit code if the document has no marks
NOT_COVERED = 5  # exit code if nothing was restored because the models do not cover the text
STAGES = {  # stage of a restoration -> its description in the progress bar
    "references": "indexing references",
    "choosing experts": "selecting experts",
    "lengths": "estimating gap lengths",
    "inferring": "inferring expert weights",
    "decoding": "decoding",
    "rescoring": "rescoring",
    "alternatives": "finding alternatives",
    "correcting": "correcting",
    "scan": "running OCR",
}
LISTED_REFERENCES = 3  # references: listed in the summary [untuned]
LISTED_GAPS = 10  # unfilled gaps: listed in the summary [untuned]
LISTED_CHANGES = 10  # corrections: listed in the summary [untuned]
CONTEXT_CHARACTERS = 24  # characters: shown on each side of a correction, at most [untuned]
MIN_LISTED_PROBABILITY = 0.01  # probability: smaller ones are displayed as "under 1 %" [definition]
MAX_LISTED_PROBABILITY = 0.995  # probability: larger ones are displayed as "over 99 %" [definition]


@with_options("cli")
def restore(
    damaged: Annotated[
        str,
        typer.Argument(
            help="Damaged document: a text file, an OCR file (hOCR, ALTO, PAGE XML, Tesseract TSV), or a scan (image "
            "or PDF; needs Tesseract); - reads standard input."
        ),
    ],
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
    has_details = report is not None or json is not None or options.gap is not None
    if "alternatives" not in given and has_details and options.channel == DEFAULTS.channel:
        options = replace(options, alternatives=REPORT_ALTERNATIVES)
    targets = check_targets({"--out": out, "--report": report, "--json": json}, force=force, parents=parents)
    data = read_document(damaged)
    name = "standard input" if damaged == "-" else display_name(damaged)
    with without_collection():
        pages = is_pages(data)

        from conservator.channels import as_edit_channel
        from conservator.documents import read_input
        from conservator.restorer import Restorer

    if pages and options.channel == DEFAULTS.channel:
        options = replace(options, channel="ocr", alternatives=0)
    with as_usage_errors():
        edits = as_edit_channel(options.channel)
    if pages and edits is None:
        problem = f"expected ocr or a fitted channel (NAME.json) for OCR files and scans, got {options.channel!r}"
        raise typer.BadParameter(problem, param_hint="--channel")
    with progress_bar() as progress, as_usage_errors():
        transcript = read_any(data, name, options.ocr_language, progress) if pages else None
        if transcript is not None:
            document = read_input(transcript.text)
        else:
            document = read_input(
                data,
                options.encoding,
                name=name,
                markers=(options.mark, options.gap),
                allow_invalid_utf8=options.allow_invalid_utf8,
            )
        select, loaded = models.experts is None, None
        if not select or edits is None:
            loaded = models.load()
        restorer = Restorer(loaded, options, select=select)
        if options.effort == "best" and messages.is_terminal:
            seconds = restorer.estimate_rescoring_seconds(document)
            messages.print(f"rescoring with language models takes about {seconds:.0f} s", soft_wrap=True)
        if models.references:
            progress("references", 0.0)
        ocr_confidence = None if transcript is None else ocr_confidence_in(transcript)
        restoration = restorer.restore(
            document,
            references=read_references(models.references or [], damaged),
            ocr_confidence=ocr_confidence,
            progress=progress,
        )
    name = "standard input" if damaged == "-" else display_name(Path(damaged).name)
    restored, written = restoration.encoded
    write_document(out, restored if transcript is None else write_pages(transcript, restoration, out))
    if report is not None:
        pictures = picture_changes(transcript, restoration, damaged, data) if transcript is not None else []
        write_document(report, restoration.to_html(name, pictures))
    if json is not None:
        write_document(json, restoration.to_json())
    if not restoration.spans and restoration.out_of_time is not None:
        messages.print(f"{name} is unchanged; {describe_timeout(restoration)}", soft_wrap=True)
        raise typer.Exit
    if not restoration.spans:
        if restoration.not_covered:
            messages.print("\n".join(f"{name}: {notice.message}" for notice in restoration.notices), soft_wrap=True)
            raise typer.Exit(NOT_COVERED)
        messages.print(describe_undamaged(restoration, name, options), soft_wrap=True)
        raise typer.Exit(0 if options.channel != DEFAULTS.channel else NOTHING_TO_RESTORE)
    encoding = restoration.encoding
    if encoding != "utf-8":
        detected = " (detected)" if document.detected else ""
        reason = "" if written == encoding else f", because a restored character does not exist in {encoding}"
        messages.print(f"read as {encoding}{detected}; written as {written}{reason}", soft_wrap=True)
    console = messages if "-" in targets else SafeConsole(highlight=False, markup=False, quiet=quiet)
    console.print("\n".join(summary(restoration)), soft_wrap=True)
    if restoration.not_covered and not restoration.summary.restored:
        raise typer.Exit(NOT_COVERED)


def read_references(paths: list[str], damaged: str) -> list[tuple[str, str]]:
    """Read the references as (name, text). The document itself, which a folder may contain, is excluded."""
    from conservator.training import read_texts

    document = None if damaged == "-" else Path(damaged)
    return [reference for path in paths for reference in read_texts(Path(path), exclude=document)]


@contextmanager
def progress_bar() -> "Iterator[Callable[[str, float], None]]":
    """Show a progress bar on standard error, if that is a terminal; yield the function that updates it."""
    columns = (TextColumn("{task.description:24}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"))
    hidden = messages.quiet or not messages.is_terminal
    with Progress(*columns, TimeElapsedColumn(), console=messages, transient=True, disable=hidden) as bar:
        task = bar.add_task("loading experts", total=1.0)
        yield lambda stage, share: bar.update(task, description=STAGES[stage], completed=share)


def describe_undamaged(restoration: "Restoration", name: str, options: RestoreOptions) -> str:
    """Describe a document without anything to restore or correct."""
    action = "correct" if restoration.is_correction else "restore"
    read_as = f" (read as {restoration.encoding})" if restoration.encoding != "utf-8" else ""
    if options.channel != DEFAULTS.channel:
        unit = "byte" if str(options.channel).startswith("replacement") else "character"
        return f"nothing to {action}: no {unit} of {name}{read_as} has a more probable alternative"
    missing = ["mark U+FFFD" if options.mark == DEFAULTS.mark else f"mark {options.mark!r}"]
    if options.gap is not None:
        missing.append(f"gap {options.gap!r}")
    if options.lost == "invalid":
        missing.append("invalid UTF-8 byte")
    return (
        f"nothing to {action}: {name}{read_as} contains no {' and no '.join(missing)}; use --mark if another text "
        "stands for lost characters, or --channel ocr for OCR errors"
    )


def summary(restoration: "Restoration") -> list[str]:
    """Describe a restoration: lost, restored and unfilled positions, expected accuracy, sources and cost."""
    counts = restoration.summary
    if restoration.changes:
        return describe_changes(restoration)
    lines = [describe_loss(restoration)]
    if counts.expected_accuracy is not None:
        lines.append(
            f"{counts.restored} restored, {counts.confident} of them with a confidence of at least 90 %; expected "
            f"accuracy {100 * counts.expected_accuracy:.1f} %"
        )
    if restoration.out_of_time is not None:
        lines.append(describe_timeout(restoration))
    if counts.unfilled and restoration.out_of_time != "decoding":
        lines.append(f"{counts.unfilled} left unfilled{'' if restoration.not_covered else ': confidence too low'}")
    lines += describe_unfilled_gaps(restoration)
    if counts.provenance:
        lines.append(f"{counts.provenance} copied by the memory: {', '.join(describe_sources(restoration.sources))}")
    lines += [f"warning: {notice.message}" for notice in restoration.notices]
    lines.append(f"expert weights at lost positions: {format_weights(restoration)}")
    lines.append(f"{counted(restoration.cost.evaluations, 'network evaluation')}, {restoration.cost.seconds:.1f} s")
    return lines


def format_weights(restoration: "Restoration") -> str:
    """Format the mean weight of each expert."""
    weights = zip(restoration.experts, restoration.summary.weights, strict=True)
    return ", ".join(f"{name} {100 * weight:.0f} %" for name, weight in weights)


def describe_changes(restoration: "Restoration") -> list[str]:
    """Describe a correction: its size, the changes with the lowest confidence, the model weights and the cost."""
    from conservator.results import list_changes, summarize_changes

    counts = summarize_changes(restoration.observed, restoration.changes)
    percentage = 100 * counts.changed / max(1, counts.characters)
    changes = list_changes(restoration.observed, restoration.changes)
    least_confident = sorted(changes, key=lambda change: change["probability"])[:LISTED_CHANGES]
    in_order = sorted(least_confident, key=lambda change: change["at"])
    remaining = counts.changes - LISTED_CHANGES
    rate = restoration.rate
    return [
        f"{counts.changed} of {counted(counts.characters, 'character')} changed ({percentage:.1f} %), in "
        f"{counted(counts.changes, 'correction')}",
        f"{counts.confident} of them with a confidence of at least 90 %; expected accuracy "
        f"{100 * (counts.expected_accuracy or 0):.1f} %",
        *(describe_change(restoration.observed, change) for change in in_order),
        *([f"and {counted(remaining, 'more correction')} with higher confidence"] if remaining > 0 else []),
        *([describe_timeout(restoration)] if restoration.out_of_time is not None else []),
        *(f"warning: {notice.message}" for notice in restoration.notices),
        f"model weights: {format_weights(restoration)}",
        *([] if rate is None else [f"estimated error rate: {rate:.2g} times the rate of the channel"]),
        f"{restoration.cost.seconds:.1f} s",
    ]


def describe_timeout(restoration: "Restoration") -> str:
    """Describe what the time limit cut off."""
    unfilled, stage = restoration.summary.unfilled, restoration.out_of_time or ""
    models = "character models" if restoration.is_correction else "networks and memory"
    effects = {
        "decoding": f"{counted(unfilled, restoration.unit)} left unfilled"
        if unfilled
        else "the remaining bytes were decoded in one step, with lower accuracy",
        "rescoring": f"the text is the result of the {models}",
        "alternatives": "no alternatives",
        "correcting": "lines that were not reached are unchanged",
    }
    return f"time limit reached while {STAGES[stage]}: {effects[stage]}"


def describe_change(observed: str, change: "dict[str, Any]") -> str:
    """Describe a change within the words that it is part of."""
    start, stop = change["at"]
    line_start = observed.rfind("\n", 0, start) + 1
    first = observed.rfind(" ", line_start, start) + 1 or line_start
    ends = (observed.find(" ", stop), observed.find("\n", stop), len(observed))
    last = min(end for end in ends if end >= 0)
    before = observed[max(first, start - CONTEXT_CHARACTERS) : start]
    after = observed[stop : min(last, stop + CONTEXT_CHARACTERS)]
    old, new = (change[name].replace(" ", "\u2423") for name in ("observed", "text"))  # makes spaces visible
    probability = change["probability"]
    percentage = "over 99" if probability > MAX_LISTED_PROBABILITY else f"{100 * probability:.0f}"
    log_odds = "" if change["log_odds"] is None else f", log-odds {change['log_odds']:.1f}"
    return (
        f"  line {change['line']}: {before}{old}{after} -> {before}{new}{after}  (confidence {percentage} %{log_odds})"
    )


def describe_loss(restoration: "Restoration") -> str:
    """Describe the damage: lost bytes, or marks that stand for characters."""
    counts = restoration.summary
    if restoration.unit == "character":
        encoding = "" if restoration.lost_by is None else f" ({restoration.lost_by} text, read as UTF-8)"
        return f"{counted(counts.lost, 'mark')}, each for one lost character outside ASCII{encoding}"
    return f"{counts.lost} of {counted(counts.bytes, 'byte')} lost, in {counted(counts.spans, 'span')}"


def describe_unfilled_gaps(restoration: "Restoration") -> list[str]:
    """List the gaps that were left unfilled, each with its best candidates and their probabilities."""
    damaged = restoration.damaged
    marks = damaged.marker_of(restoration.unfilled_positions)
    gaps = [mark for mark in dict.fromkeys(marks.tolist()) if mark >= 0 and damaged.is_gap[mark]]
    lines = []
    for gap in gaps[:LISTED_GAPS]:
        candidates = ", ".join(
            f'"{text}" {f"{100 * probability:.0f}" if probability >= MIN_LISTED_PROBABILITY else "under 1"} %'
            for text, probability in restoration.proposals(gap)
        )
        lines.append(f"gap at byte {damaged.spans[gap, 0]} left unfilled; candidates: {candidates}")
    if len(gaps) > LISTED_GAPS:
        lines.append(f"and {counted(len(gaps) - LISTED_GAPS, 'other gap')} left unfilled")
    return lines


def describe_sources(sources: dict[str | None, int]) -> list[str]:
    """Count the bytes that the memory copied from the document and from the most used references."""
    references = [(name, count) for name, count in sources.items() if name is not None]
    parts = [f"{sources[None]} from the document"] if None in sources else []
    parts += [f"{count} from {name}" for name, count in references[:LISTED_REFERENCES]]
    if len(references) > LISTED_REFERENCES:
        rest = sum(count for _, count in references[LISTED_REFERENCES:])
        parts.append(f"{rest} from {counted(len(references) - LISTED_REFERENCES, 'other reference')}")
    return parts


def counted(number: int, noun: str) -> str:
    """Format a number with a noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
