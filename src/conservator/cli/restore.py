"""``conservator restore``: a damaged document, whole again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from conservator.cli.console import SafeConsole, messages, without_collection
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
    MaxSeconds,
    MinConfidence,
    MinGapConfidence,
    MinLogOdds,
    NoMemory,
    Parents,
    Precision,
    Quiet,
    Reference,
    Seed,
    Threads,
    TrustRemoteCode,
    as_usage_errors,
    check_targets,
    load_named,
)
from conservator.cli.pages import is_pages, ocr_confidence_in, picture_changes, read_any, write_pages
from conservator.options import (
    DEFAULTS,
    SHOWN_ALTERNATIVES,
    RestoreOptions,
    expert_names,
)
from conservator.system.files import read_document, shown, write_document

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
    "Exit codes: 0 restored, or corrected, also where nothing had to be corrected; 2 bad usage; 3 bad input or output "
    "(with what and where), or nothing was reached in --max-seconds; 4 nothing to restore: no mark was found; 5 left "
    "unchanged: the models do not cover this text; 130 interrupted (no file is left half-written)."
)
NOT_COVERED = 5  # the exit code if nothing was filled in or corrected because the models do not cover the text
STAGES = {
    "references": "indexing references",
    "choosing experts": "choosing experts",
    "lengths": "finding lengths",
    "inferring": "reading",
    "decoding": "filling in",
    "writing again": "writing again",
    "alternatives": "weighing alternatives",
    "correcting": "correcting",
    "scan": "reading the scan",
}
NAMED = 3  # references that the summary names
OPEN_GAPS = 10  # gaps left open that it names
LISTED = 10  # changes that it names
AROUND = 24  # the most characters on either side of a change


def restore(
    damaged: Annotated[
        str,
        typer.Argument(
            help="The damaged document: a text, a file of an OCR engine (hOCR, ALTO, PAGE, Tesseract's TSV), an image "
            "or a PDF file that the installed Tesseract reads; - for standard input."
        ),
    ],
    out: Annotated[
        str, typer.Option("--out", "-o", help="Where to write the restored document; - for standard output.")
    ] = "-",
    experts: Experts = None,
    references: Reference = None,
    effort: Effort = DEFAULTS.effort,
    language: LanguageModel = None,
    no_memory: NoMemory = not DEFAULTS.memory,
    mark: Mark = DEFAULTS.mark,
    gap: Gap = DEFAULTS.gap,
    max_gap: MaxGap = DEFAULTS.max_gap,
    lost: Lost = DEFAULTS.lost,
    encoding: Encoding = DEFAULTS.encoding,
    channel: Channel = str(DEFAULTS.channel),
    ocr_language: Annotated[
        str, typer.Option(metavar="NAME", help="The language of a scan, by Tesseract's names, such as eng or deu+lat.")
    ] = "eng",
    min_log_odds: MinLogOdds = DEFAULTS.min_log_odds,
    min_confidence: MinConfidence = DEFAULTS.min_confidence,
    min_gap_confidence: MinGapConfidence = DEFAULTS.min_gap_confidence,
    fill_undetermined: FillUndetermined = DEFAULTS.fill_undetermined,
    alternatives: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=100,
            help=f"Give so many joint fills of each gap, in the report and the JSON file; {SHOWN_ALTERNATIVES} for "
            "these and with --gap, else none. They cost more time; the text is the same with and without them.",
            show_default=False,
        ),
    ] = None,
    max_seconds: MaxSeconds = DEFAULTS.max_seconds,
    report: Annotated[str | None, typer.Option(help="Write the report, one HTML file, here.")] = None,
    json: Annotated[str | None, typer.Option(help="Write everything that was found as JSON here.")] = None,
    device: Device = "cpu",
    precision: Precision = None,
    trust_remote_code: TrustRemoteCode = False,
    seed: Seed = DEFAULTS.seed,
    force: Force = False,
    parents: Parents = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Restore the lost bytes or characters of a document, each by the experts that are at home there.

    Visible bytes stay as they are. The document is written in the encoding that it was read in.
    """
    explained = report is not None or json is not None or gap is not None
    if alternatives is None:
        alternatives = SHOWN_ALTERNATIVES if explained and channel == DEFAULTS.channel else DEFAULTS.alternatives
    if references and no_memory:
        raise typer.BadParameter(
            "the memory reads these texts, and --no-memory leaves it out", param_hint="--reference"
        )
    if language is not None and effort != "best":
        raise typer.BadParameter("language models are for --effort best", param_hint="--language-model")
    if references and "" in references:
        raise typer.BadParameter("a file or a folder is needed, not an empty name", param_hint="--reference")
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
            alternatives=alternatives,
            seed=seed,
            memory=not no_memory,
            encoding=encoding,
            effort=effort,
            language_models=DEFAULTS.language_models if language is None else language,
            max_seconds=max_seconds,
        )
    targets = check_targets({"--out": out, "--report": report, "--json": json}, force=force, parents=parents)
    data = read_document(damaged)
    name = "standard input" if damaged == "-" else shown(damaged)
    with without_collection():
        pages = is_pages(data)

        from conservator.channels import as_edit_channel
        from conservator.documents import read_input
        from conservator.restorer import Restorer

    if pages and channel == DEFAULTS.channel:
        options = replace(options, channel="ocr", alternatives=0)
    with as_usage_errors():
        edits = as_edit_channel(options.channel)
    if pages and edits is None:
        problem = f"{channel!r} is not for pages that were read; ocr or a fitted channel (NAME.json) is needed"
        raise typer.BadParameter(problem, param_hint="--channel")
    with progress_bar() as progress, as_usage_errors():
        transcript = read_any(data, name, ocr_language, progress) if pages else None
        if transcript is not None:
            document = read_input(transcript.text)
        else:
            document = read_input(
                data, encoding, name=name, markers=(mark, gap), allow_invalid_utf8=options.allow_invalid_utf8
            )
        select, loaded = experts is None, None
        if experts is not None or edits is None:
            loaded = load_named(expert_names(experts), device, precision, with_confidence=trust_remote_code)
        restorer = Restorer(loaded, options, select=select)
        if effort == "best" and messages.is_terminal:
            doing = "writing it again" if edits is None else "judging it by language models"
            messages.print(f"{doing} takes about {restorer.seconds_to_rewrite(document):.0f} s", soft_wrap=True)
        if references:
            progress("references", 0.0)
        ocr_confidence = None if transcript is None else ocr_confidence_in(transcript)
        found = restorer.restore(
            document,
            references=read_references_of(references or [], damaged),
            ocr_confidence=ocr_confidence,
            progress=progress,
        )
    name = "standard input" if damaged == "-" else shown(Path(damaged).name)
    restored, written = found.encoded
    write_document(out, restored if transcript is None else write_pages(transcript, found, out))
    if report is not None:
        pictures = picture_changes(transcript, found, damaged, data) if transcript is not None else []
        write_document(report, found.to_html(name, pictures))
    if json is not None:
        write_document(json, found.to_json())
    if not found.spans and found.out_of_time is not None:
        messages.print(f"nothing was changed in {name}; {describe_time(found)}", soft_wrap=True)
        raise typer.Exit
    if not found.spans:
        read = f", read as {found.encoding}" if found.encoding != "utf-8" else ""
        doing = "correct" if found.corrects else "restore"
        if found.not_covered:
            messages.print("\n".join(f"{name}: {notice.message}" for notice in found.notices), soft_wrap=True)
            raise typer.Exit(NOT_COVERED)
        messages.print(f"nothing to {doing}: {name}{read} has no {describe_damage(options)}", soft_wrap=True)
        raise typer.Exit(0 if options.channel != DEFAULTS.channel else 4)
    if found.encoding != "utf-8":
        told = " (detected)" if document.detected else ""
        without = (
            "" if written == found.encoding else f", because a restored character has no place in {found.encoding}"
        )
        messages.print(f"read as {found.encoding}{told}; written as {written}{without}", soft_wrap=True)
    console = messages if "-" in targets else SafeConsole(highlight=False, markup=False, quiet=quiet)
    console.print("\n".join(summary(found)), soft_wrap=True)
    if found.not_covered and not found.summary.restored:
        raise typer.Exit(NOT_COVERED)


def read_references_of(paths: list[str], damaged: str) -> list[tuple[str, str]]:
    """The texts that are like the document, by name. The document itself, which a folder may hold, is none of them."""
    from conservator.training import read_texts

    own = None if damaged == "-" else Path(damaged)
    return [one for path in paths for one in read_texts(Path(path), but=own)]


@contextmanager
def progress_bar() -> "Iterator[Callable[[str, float], None]]":
    """A bar on standard error, if that is a terminal."""
    columns = (TextColumn("{task.description:22}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"))
    hidden = messages.quiet or not messages.is_terminal
    with Progress(*columns, TimeElapsedColumn(), console=messages, transient=True, disable=hidden) as bar:
        task = bar.add_task("loading experts", total=1.0)
        yield lambda doing, share: bar.update(task, description=STAGES[doing], completed=share)


def describe_damage(options: RestoreOptions) -> str:
    """What was looked for and not found."""
    if options.channel != DEFAULTS.channel:
        unit = "byte" if str(options.channel).startswith("replacement") else "character"
        return f"{unit} that another is more likely for"
    signs = ["mark U+FFFD" if options.mark == DEFAULTS.mark else f"mark {options.mark!r}"]
    if options.gap is not None:
        signs.append(f"gap {options.gap!r}")
    if options.lost == "invalid":
        signs.append("byte that is not UTF-8")
    return " and no ".join(signs)


def summary(found: "Restoration") -> list[str]:
    """What was lost, restored and left open, how sure that is, and what it cost."""
    one = found.summary
    if found.changes:
        return describe_changes(found)
    lines = [describe_loss(found)]
    if one.expected_accuracy is not None:
        lines.append(
            f"{one.restored} restored, {one.confident} of them at least 90 % sure; {100 * one.expected_accuracy:.1f} % "
            "should be right"
        )
    if found.out_of_time is not None:
        lines.append(describe_time(found))
    if one.left_open and found.out_of_time != "decoding":
        lines.append(f"{one.left_open} left open{'' if found.not_covered else ', not confident enough'}")
    lines += describe_open_gaps(found)
    if one.provenance:
        lines.append(f"{one.provenance} remembered: {', '.join(describe_sources(found.sources))}")
    lines += [f"warning: {notice.message}" for notice in found.notices]
    shares = (f"{name} {100 * share:.0f} %" for name, share in zip(found.experts, one.weights, strict=True))
    lines.append(f"trusted there: {', '.join(shares)}")
    if found.global_weight_suffices:
        lines.append("one weight for the whole document would have done about as well: its regions tell little")
    lines.append(f"{counted(found.cost.evaluations, 'network evaluation')}, {found.cost.seconds:.1f} s")
    return lines


def describe_changes(found: "Restoration") -> list[str]:
    """How much of what a reader of pages wrote was changed, the changes that are least sure, and by whom they are."""
    from conservator.results import list_changes, sum_changes

    numbers = sum_changes(found.seen, found.changes)
    share = 100 * numbers.changed / max(1, numbers.characters)
    listed = list_changes(found.seen, found.changes)
    shown = sorted(listed, key=lambda one: one["probability"])[:LISTED]
    shares = (f"{name} {100 * share:.0f} %" for name, share in zip(found.experts, found.summary.weights, strict=True))
    rate = "" if found.rate is None else f"; the reader erred {found.rate:.2g} times as often as the channel says"
    return [
        f"{counted(numbers.changed, 'character')} of {numbers.characters} changed ({share:.1f} %), in "
        f"{counted(numbers.changes, 'change')}",
        f"{numbers.confident} of them at least 90 % sure; {100 * (numbers.expected_accuracy or 0):.1f} % should be right",
        *(describe_change(found.seen, one) for one in sorted(shown, key=lambda one: one["at"])),
        *([f"and {numbers.changes - LISTED} that are surer"] if numbers.changes > LISTED else []),
        *([describe_time(found)] if found.out_of_time is not None else []),
        *(f"warning: {notice.message}" for notice in found.notices),
        f"read by: {', '.join(shares)}{rate}",
        f"{found.cost.seconds:.1f} s",
    ]


def describe_time(found: "Restoration") -> str:
    """What came of it that time ran out."""
    left, stage = found.summary.left_open, found.out_of_time or ""
    outcomes = {
        "decoding": f"{counted(left, found.unit)} {'stays' if left == 1 else 'stay'} open"
        if left
        else "the last of it was chosen at once, less surely",
        "writing again": f"the text is that of {'models of characters' if found.corrects else 'networks and memory'}",
        "alternatives": "none are given",
        "correcting": "lines that were not reached stay as they were seen",
    }
    return f"time ran out while {STAGES[stage]}: {outcomes[stage]}"


def describe_change(seen: str, change: "dict[str, Any]") -> str:
    """A change, with the words that it is in."""
    start, stop = change["at"]
    line = seen.rfind("\n", 0, start) + 1
    first = seen.rfind(" ", line, start) + 1 or line
    last = min(place for place in (seen.find(" ", stop), seen.find("\n", stop), len(seen)) if place >= 0)
    before, after = seen[max(first, start - AROUND) : start], seen[stop : min(last, stop + AROUND)]
    old, new = (change[name].replace(" ", "\u2423") for name in ("seen", "text"))  # a blank that can be seen
    gain = "beyond measure" if change["gain"] is None else f"{change['gain']:.1f}"
    confident = "over 99" if change["probability"] > 0.995 else f"{100 * change['probability']:.0f}"
    return f"  line {change['line']}: {before}{old}{after} -> {before}{new}{after}  {confident} % sure, gain {gain}"


def describe_loss(found: "Restoration") -> str:
    """What was lost: bytes, or characters at the marks."""
    one = found.summary
    if found.unit == "character":
        encoding = "" if found.lost_by is None else f" ({found.lost_by} read as UTF-8)"
        return f"{counted(one.lost, 'mark')}, each one character outside ASCII{encoding}"
    verb = "was" if one.lost == 1 else "were"
    return f"{one.lost} of {counted(one.bytes, 'byte')} {verb} lost, in {counted(one.places, 'place')}"


def describe_open_gaps(found: "Restoration") -> list[str]:
    """The gaps of unknown length that were left open, each with its best fills and their probabilities."""
    signs = found.damaged.marker_of(found.open_positions)
    gaps = [sign for sign in dict.fromkeys(signs.tolist()) if sign >= 0 and found.damaged.is_gap[sign]]
    lines = []
    for sign in gaps[:OPEN_GAPS]:
        proposals = ", ".join(
            f'"{text}" {f"{100 * confident:.0f}" if confident >= 0.01 else "under 1"} %'
            for text, confident in found.proposals(sign)
        )
        lines.append(f"gap at byte {found.damaged.spans[sign, 0]} left open; proposals: {proposals}")
    if len(gaps) > OPEN_GAPS:
        lines.append(f"and {counted(len(gaps) - OPEN_GAPS, 'other gap')} left open")
    return lines


def describe_sources(sources: dict[str | None, int]) -> list[str]:
    """How many bytes were remembered from the document, and from other texts; the most used of these are named."""
    others = [(name, number) for name, number in sources.items() if name is not None]
    parts = [f"{sources[None]} from the document"] if None in sources else []
    parts += [f"{number} from {name}" for name, number in others[:NAMED]]
    if len(others) > NAMED:
        rest = sum(number for _, number in others[NAMED:])
        parts.append(f"{rest} from {counted(len(others) - NAMED, 'other text')}")
    return parts


def counted(number: int, noun: str) -> str:
    """A number of things."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
