"""Options that several commands have, and what they do."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from conservator.cli.console import messages
from conservator.errors import Advice, OptionError
from conservator.options import DEFAULTS, EFFORTS, EXPERTS, LARGEST_SEED, LONGEST_GAP
from conservator.system.files import check_writable, read_document, real_path, shown

if TYPE_CHECKING:
    from conservator.documents import InputText
    from conservator.experts import Expert


def be_quiet(wanted: bool) -> bool:
    """Say nothing but errors and results from now on."""
    if wanted:
        messages.quiet = True
    return wanted


def choose_threads(threads: int | None) -> int | None:
    """Settle how torch works, before it is imported.

    Threads of OpenMP that wait for work spin by default; on a busy machine that makes a restoration many times slower.
    What the environment says stays, unless ``--threads`` says otherwise.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(threads)
        if "torch" in sys.modules:
            import torch

            torch.set_num_threads(threads)
    return threads


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors and results.", callback=be_quiet)]
Threads = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1024,
        help="The most threads of one computation; by default what OMP_NUM_THREADS says, or one for each core. A "
        "restoration of less than 50 KB uses one, which is faster.",
        callback=choose_threads,
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite files that exist already.")]
Parents = Annotated[bool, typer.Option("--parents", "-p", help="Make folders that are missing.")]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The encoding of the document, such as windows-1252 or utf-16; told by its bytes, by default.",
        show_default=False,
    ),
]
Device = Annotated[str, typer.Option(help="Where experts compute: cpu, cuda, or another device of torch.")]
Precision = Annotated[
    str | None,
    typer.Option(
        metavar="float32|bfloat16",
        help="How pretrained models compute; bfloat16 if the processor has instructions for it, else float32.",
        show_default=False,
    ),
]
TrustRemoteCode = Annotated[
    bool,
    typer.Option("--trust-remote-code", help="Run the code that some pretrained models (hf:) have in their folders."),
]
Seed = Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="The seed that everything random follows from.")]
Experts = Annotated[
    str | None,
    typer.Option(
        help="Experts that may be trusted: built-in names, folders, or pretrained models over tokens "
        "(hf:OWNER/NAME, hf:FOLDER), with commas between; by default those of "
        f"{', '.join(EXPERTS)} that have something to say about the document.",
        show_default=False,
    ),
]
Reference = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="PATH",
        help="A text like the document, which is remembered where it fits: a file, a folder of text files, or a "
        ".jsonl or .jsonl.gz file with a field text. May be given several times.",
        show_default=False,
    ),
]
Effort = Annotated[
    str,
    typer.Option(
        metavar="|".join(EFFORTS),
        help="fast: small networks and the memory. best: language models write again what these leave in doubt; "
        "more comes back, and it takes ten times as long.",
    ),
]
LanguageModel = Annotated[
    str | None,
    typer.Option(
        "--language-model",
        metavar="NAME",
        help="The language model of --effort best, or several with commas between: names that conservator experts "
        f"add knows, hf:OWNER/NAME, folders or .gguf files; {DEFAULTS.language_models} by default.",
        show_default=False,
    ),
]
NoMemory = Annotated[
    bool, typer.Option("--no-memory", help="Remember nothing of the document's other parts, nor of other texts.")
]
Mark = Annotated[
    str, typer.Option(help="What stands for one lost byte or character; U+FFFD by default.", show_default=False)
]
Gap = Annotated[str | None, typer.Option(help='What stands for a stretch of unknown length, such as "[...]".')]
MaxGap = Annotated[int, typer.Option(min=1, max=LONGEST_GAP, help="The longest such stretch, in bytes.")]
Lost = Annotated[
    str,
    typer.Option(
        metavar="WHAT",
        help="What is lost: a byte at each mark (bytes), bytes that are not UTF-8 as well (invalid), a character "
        "outside ASCII at each mark (characters), or one of an encoding (encoding:windows-1252). auto tells bytes "
        "and characters apart, unless experts or a mark are named.",
    ),
]
Channel = Annotated[
    str,
    typer.Option(
        help="How the document was damaged: mask (what is not marked is right), replacement:RATE (any byte may be "
        "wrong, and about that share is), ocr (a reader of pages took some characters for others), or a file that "
        "conservator channel fit wrote.",
    ),
]
MinLogOdds = Annotated[
    float,
    typer.Option(min=0.0, help="By how many nats evidence must favour a change of what a reader of pages wrote."),
]
MaxSeconds = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="Keep what was reached after so many seconds; loading experts does not count. Bytes that were not reached "
        "stay open.",
        show_default=False,
    ),
]
MinConfidence = Annotated[float, typer.Option(min=0.0, max=1.0, help="Leave what is less sure than this as it was.")]
MinGapConfidence = Annotated[
    float,
    typer.Option(
        min=0.0, max=1.0, help="Leave a gap of unknown length open if its whole fill is less probable than this."
    ),
]
FillUndetermined = Annotated[
    bool,
    typer.Option(
        "--fill-undetermined",
        help="Fill in also marks that the visible text does not determine: most of the text around them is lost, or "
        "they probably stand for characters of several bytes.",
    ),
]


def read_text(
    name: str, encoding: str | None = None, *, markers: tuple[str | None, ...], allow_invalid_utf8: bool = False
) -> "InputText":
    """The text of a file, or of standard input; a file that is not text is refused."""
    data = read_document(name)

    from conservator.documents import read_input

    told = "standard input" if name == "-" else shown(name)
    return read_input(data, encoding, name=told, markers=markers, allow_invalid_utf8=allow_invalid_utf8)


def load_named(
    names: list[str], device: str, precision: str | None, *, with_confidence: bool, own_tokens: bool = False
) -> "list[Expert]":
    """Load experts by name, and say first how much memory pretrained ones take."""
    from conservator.experts import load_experts
    from conservator.experts.denoisers import find_denoiser, size_of
    from conservator.experts.language_models.loading import HUB

    precisions: dict[str | None, Literal["float32", "bfloat16"]] = {"float32": "float32", "bfloat16": "bfloat16"}
    if precision not in (None, *precisions):
        raise typer.BadParameter(f"{precision!r}: expected float32 or bfloat16", param_hint="--precision")
    chosen = precisions.get(precision)
    for name in (name for name in names if name.startswith(HUB)):
        size = size_of(find_denoiser(name), chosen or "float32")
        messages.print(f"{name}: {size / 1e6:.0f} MB of memory", soft_wrap=True)
    return load_experts(names, device, precision=chosen, trust_remote_code=with_confidence, own_tokens=own_tokens)


def check_targets(targets: dict[str, str | None], *, force: bool, parents: bool) -> list[str]:
    """Check the files that a command will write, before it does any work.

    Args:
        targets: option -> the file, ``-`` for standard output, or None.
        force: files that exist may be overwritten.
        parents: missing folders are made.

    Returns:
        The files that are given.
    """
    given = {option: name for option, name in targets.items() if name is not None}
    known: dict[object, str] = {}
    for option, name in given.items():
        place: object = name if name == "-" else real_path(Path(name))
        if place in known:
            where = "standard output" if name == "-" else name
            raise typer.BadParameter(f"{known[place]} goes to {where}, too; each needs its own", param_hint=option)
        known[place] = option
    for name in given.values():
        if name != "-":
            check_writable(Path(name), force=force, parents=parents)
    return list(given.values())


@contextmanager
def as_usage_errors() -> Iterator[None]:
    """Report a bad option as a usage error of the command, with exit code 2."""
    try:
        yield
    except OptionError as error:
        raise typer.BadParameter(error.problem, param_hint=f"--{error.option.replace('_', '-')}") from error


def as_option(advice: Advice) -> str:
    """An option as the command calls it."""
    return f"--{advice.option.replace('_', '-')} {advice.value}"
