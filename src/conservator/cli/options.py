"""Options that several commands share, and helper functions for them."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from conservator.cli.console import messages
from conservator.errors import Advice, OptionError
from conservator.options import DEFAULTS, EFFORTS, EXPERTS, MAX_GAP_BYTES, MAX_SEED
from conservator.system.files import check_writable, display_name, read_document, real_path

if TYPE_CHECKING:
    from conservator.documents import InputText
    from conservator.experts import Expert


def set_quiet(quiet: bool) -> bool:
    """Suppress messages and progress bars, if ``--quiet`` was given."""
    if quiet:
        messages.quiet = True
    return quiet


def set_threads(threads: int | None) -> int | None:
    """Set the environment variables of OpenMP before torch is imported.

    By default, idle OpenMP threads spin; on a busy machine this makes a restoration many times slower. Variables that
    are already set are kept; ``--threads`` overrides OMP_NUM_THREADS.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(threads)
        if "torch" in sys.modules:
            import torch

            torch.set_num_threads(threads)
    return threads


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors and results.", callback=set_quiet)]
Threads = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1024,
        help="Maximum number of threads (default: OMP_NUM_THREADS, or one for each core). Documents below 50 KB use "
        "one thread, which is faster.",
        callback=set_threads,
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite existing files.")]
Parents = Annotated[bool, typer.Option("--parents", "-p", help="Create missing folders.")]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Encoding of the document, such as windows-1252 or utf-16 (default: detected).",
        show_default=False,
    ),
]
Device = Annotated[str, typer.Option(help="Torch device for the experts, such as cpu or cuda.")]
Precision = Annotated[
    str | None,
    typer.Option(
        metavar="float32|bfloat16",
        help="Number format of pretrained models (default: bfloat16 if the processor supports it, else float32; batch: "
        "float32).",
        show_default=False,
    ),
]
TrustRemoteCode = Annotated[
    bool,
    typer.Option("--trust-remote-code", help="Allow pretrained models (hf:) to run the Python code in their folders."),
]
Seed = Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Random seed.")]
Experts = Annotated[
    str | None,
    typer.Option(
        help="Experts to use, separated by commas: built-in names, folders, or pretrained token models "
        "(hf:OWNER/NAME, hf:FOLDER). Default: selected for each document from "
        f"{', '.join(EXPERTS)}.",
        show_default=False,
    ),
]
Reference = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="PATH",
        help="Undamaged reference text to copy from where it matches: a file, a folder of text files, or a .jsonl or "
        ".jsonl.gz file with a field text. May be repeated.",
        show_default=False,
    ),
]
Effort = Annotated[
    str,
    typer.Option(
        metavar="|".join(EFFORTS),
        help="fast: small networks and the memory. best: a language model also rescores uncertain text; more accurate, "
        "about ten times slower.",
    ),
]
LanguageModel = Annotated[
    str | None,
    typer.Option(
        "--language-model",
        metavar="NAME",
        help="Language model for --effort best, or several, separated by commas: names of added models (conservator "
        f"experts add), hf:OWNER/NAME, folders or .gguf files (default: {DEFAULTS.language_models}).",
        show_default=False,
    ),
]
NoMemory = Annotated[
    bool, typer.Option("--no-memory", help="Do not copy from other parts of the document or from references.")
]
Mark = Annotated[
    str, typer.Option(help="Text that stands for one lost byte or character (default: U+FFFD).", show_default=False)
]
Gap = Annotated[
    str | None,
    typer.Option(help='Text that stands for a gap: a lost span of unknown length, such as "[...]" (default: none).'),
]
MaxGap = Annotated[int, typer.Option(min=1, max=MAX_GAP_BYTES, help="Maximum length of a gap, in bytes.")]
Lost = Annotated[
    str,
    typer.Option(
        metavar="UNIT",
        help="What each mark stands for. bytes: one byte. invalid: one byte, and invalid UTF-8 bytes are also lost. "
        "characters: one character outside ASCII. encoding:NAME: one character of an encoding, such as "
        "encoding:windows-1252. auto: bytes or characters, detected from the document; bytes if --experts or --mark "
        "is given.",
    ),
]
Channel = Annotated[
    str,
    typer.Option(
        help="How the document was damaged. mask: only the marked positions are lost. replacement:RATE: this share of "
        "the bytes was replaced, without marks. ocr: OCR errors. FILE.json: a channel that conservator channel fit "
        "wrote.",
    ),
]
MinLogOdds = Annotated[
    float,
    typer.Option(min=0.0, help="Minimum log-odds, in nats, for a correction of OCR text."),
]
MaxSeconds = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="Time limit, without loading the experts. The result so far is kept; bytes that were not reached stay "
        "unfilled (default: no limit).",
        show_default=False,
    ),
]
MinConfidence = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="Leave bytes or characters with a lower confidence unfilled.")
]
MinGapConfidence = Annotated[
    float,
    typer.Option(
        min=0.0, max=1.0, help="Leave a gap unfilled if the probability of its whole text is lower than this."
    ),
]
FillUndetermined = Annotated[
    bool,
    typer.Option(
        "--fill-undetermined",
        help="Also fill marks that the visible text does not determine: most of the text around them is lost, or they "
        "probably stand for characters of several bytes.",
    ),
]


def read_text(
    name: str, encoding: str | None = None, *, marks: tuple[str | None, ...], allow_invalid_utf8: bool = False
) -> "InputText":
    """Read the text of a file or of standard input; raise a NotTextError for other files."""
    data = read_document(name)

    from conservator.documents import read_input

    shown_name = "standard input" if name == "-" else display_name(name)
    return read_input(data, encoding, name=shown_name, markers=marks, allow_invalid_utf8=allow_invalid_utf8)


def load_named(
    names: list[str], device: str, precision: str | None, *, trust_remote_code: bool, native_tokens: bool = False
) -> "list[Expert]":
    """Load experts by name; print the memory that pretrained ones need."""
    from conservator.experts import load_experts
    from conservator.experts.denoisers import find_denoiser, size_of
    from conservator.experts.language_models.loading import HUB

    precisions: dict[str | None, Literal["float32", "bfloat16"]] = {"float32": "float32", "bfloat16": "bfloat16"}
    if precision not in (None, *precisions):
        raise typer.BadParameter(f"expected float32 or bfloat16, got {precision!r}", param_hint="--precision")
    number_format = precisions.get(precision)
    for name in (name for name in names if name.startswith(HUB)):
        size = size_of(find_denoiser(name), number_format or "float32")
        messages.print(f"{name} needs {size / 1e6:.0f} MB of memory", soft_wrap=True)
    return load_experts(
        names, device, precision=number_format, trust_remote_code=trust_remote_code, native_tokens=native_tokens
    )


def check_dependent_options(
    references: list[str] | None, language_models: str | None, *, memory: bool, effort: str
) -> None:
    """Raise a usage error for options that have no effect without others.

    Args:
        references: ``--reference``; None if it was not given.
        language_models: ``--language-model``; None if it was not given.
        memory: False with ``--no-memory``.
        effort: ``--effort``.
    """
    if references and not memory:
        raise typer.BadParameter("has no effect with --no-memory", param_hint="--reference")
    if language_models is not None and effort != "best":
        raise typer.BadParameter("has no effect without --effort best", param_hint="--language-model")
    if references and "" in references:
        raise typer.BadParameter("expected a file or a folder, got an empty name", param_hint="--reference")


def check_targets(targets: dict[str, str | None], *, force: bool, parents: bool) -> list[str]:
    """Check the output files of a command before it does any work.

    Args:
        targets: option -> its file, ``-`` for standard output, or None if it was not given.
        force: existing files may be overwritten.
        parents: create missing folders.

    Returns:
        The files that were given.
    """
    given = {option: name for option, name in targets.items() if name is not None}
    options: dict[object, str] = {}
    for option, name in given.items():
        path: object = name if name == "-" else real_path(Path(name))
        if path in options:
            target = "standard output" if name == "-" else name
            raise typer.BadParameter(
                f"{options[path]} is also written to {target}; choose another file", param_hint=option
            )
        options[path] = option
    for name in given.values():
        if name != "-":
            check_writable(Path(name), force=force, parents=parents)
    return list(given.values())


@contextmanager
def as_usage_errors() -> Iterator[None]:
    """Convert an OptionError into a usage error, with exit code 2."""
    try:
        yield
    except OptionError as error:
        raise typer.BadParameter(error.problem, param_hint=f"--{error.option.replace('_', '-')}") from error


def as_option(advice: Advice) -> str:
    """Format an option as a command-line flag."""
    return f"--{advice.option.replace('_', '-')} {advice.value}"
