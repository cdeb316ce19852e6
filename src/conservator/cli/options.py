"""Options that several commands share, and helper functions for them."""

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from conservator.cli.console import messages
from conservator.errors import Advice, OptionError
from conservator.options import EXPERTS, OPTIONS, Option, RestoreOptions, expert_names, options_of
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
Mark = Annotated[str, typer.Option(help="Text that stands for one lost byte (default: U+FFFD).", show_default=False)]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite existing files.")]
Parents = Annotated[bool, typer.Option("--parents", "-p", help="Create missing folders.")]
Device = Annotated[str, typer.Option(help="Torch device for the experts, such as cpu or cuda.")]
Precision = Annotated[
    Literal["float32", "bfloat16"] | None,
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


def flag_of(name: str) -> str:
    """Return the flag of an option."""
    if name == "references":
        return "--reference"
    return OPTIONS[name].flag if name in OPTIONS else f"--{name.replace('_', '-')}"


def flag_option(option: Option, surface: str) -> Any:
    """Return the ``typer.Option`` of an option; options in its description are named by their flags."""
    text = option.help
    if option.default is True:
        text = f"Do not {text[0].lower()}{text[1:]}"
    default = option.describe_default(surface)
    is_shown = default == str(option.default) and not option.cli_parse
    if not is_shown and option.type is not bool:
        text = f"{text.removesuffix('.')} (default: {default})."
    text = re.sub(r"`(\w+)=?([^`]*)`", lambda match: f"{flag_of(match[1])} {match[2]}".rstrip(), text)
    is_number = option.type in (int, float) and not option.cli_parse
    return typer.Option(
        option.flag,
        metavar=option.metavar or "|".join(option.choices) or None,
        help=text,
        min=option.min if is_number else None,
        max=option.upper_bound(surface) if is_number else None,
        show_default=is_shown,
    )


def field_parameters(group: Any, surface: str) -> Iterator[inspect.Parameter]:
    """Yield the parameters of a command for the fields of a dataclass that are available on a surface."""
    options = options_of(group)
    for item in fields(group):
        annotation, default, option = item.type, item.default, options.get(item.name)
        if option is not None:
            kind = str if option.cli_parse else list[str] if option.is_repeatable else option.type
            kind = kind | None if option.is_optional or option.cli_parse else kind
            annotation = Annotated[kind, flag_option(option, surface)]
            default = None if option.cli_parse else False if option.type is bool else default
        if option is None or surface not in option.excluded:
            yield inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def make_group(group: Any, arguments: dict[str, Any], given: frozenset[str]) -> Any:
    """Remove the fields of a dataclass from the arguments of a command, and return it; ``given``: see with_options."""
    values = {item.name: arguments.pop(item.name) for item in fields(group) if item.name in arguments}
    options = {name: option for name, option in options_of(group).items() if name in values}
    with as_usage_errors():
        for name, option in options.items():
            if option.cli_parse:
                values[name] = option.default if values[name] is None else option.cli_parse(values[name])
            elif option.type is bool:
                values[name] = values[name] != option.default
            elif option.is_repeatable:
                values[name] = tuple(values[name]) if values[name] else option.default
        result = group(**values)
        for name in given & options.keys():
            needed, _, value = options[name].needs.partition("=")
            if options[name].is_rejected_alone and str(getattr(result, needed)) != value:
                raise OptionError(name, f"has no effect without {flag_of(needed)} {value}")
    return result


def with_options(surface: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that replaces parameters of a command that are dataclasses by the options of their fields.

    typer sees one parameter for each field: an option of ``conservator.options`` that is available on the surface, or a
    field that is annotated with a ``typer.Option``. The command receives the dataclasses. A parameter ``given`` of the
    command receives the names of the options on the command line.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        declared = inspect.signature(command).parameters
        groups = {name: item.annotation for name, item in declared.items() if is_dataclass(item.annotation)}
        parameters = [inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
        for name, item in declared.items():
            if name in groups:
                parameters += field_parameters(groups[name], surface)
            elif name != "given":
                parameters.append(item.replace(kind=inspect.Parameter.KEYWORD_ONLY))

        def run(context: typer.Context, **arguments: Any) -> None:
            sources = {name: context.get_parameter_source(name) for name in arguments}
            given = frozenset(name for name, source in sources.items() if source and source.name != "DEFAULT")
            built = {name: make_group(group, arguments, given) for name, group in groups.items()}
            command(**arguments, **built, **({"given": given} if "given" in declared else {}))

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {item.name: item.annotation for item in parameters}
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        return run

    return decorate


Seed = Annotated[int, flag_option(OPTIONS["seed"], "cli")]


@dataclass(frozen=True)
class ModelArguments:
    """Arguments about experts and references of a command."""

    experts: Experts = None
    references: Reference = None
    device: Device = "cpu"
    precision: Precision = None
    trust_remote_code: TrustRemoteCode = False

    def check(self, options: RestoreOptions) -> None:
        """Raise a usage error for invalid references."""
        if self.references and not options.memory:
            raise typer.BadParameter(f"has no effect with {flag_of('memory')}", param_hint="--reference")
        if self.references and "" in self.references:
            raise typer.BadParameter("expected a file or a folder, got an empty name", param_hint="--reference")

    def load(self) -> "list[Expert]":
        """Load the experts."""
        names = expert_names(self.experts)
        return load_named(names, self.device, self.precision, trust_remote_code=self.trust_remote_code)


def read_text(name: str, encoding: str | None = None, *, marks: tuple[str | None, ...]) -> "InputText":
    """Read the text of a file or of standard input; raise a NotTextError for other files."""
    data = read_document(name)

    from conservator.documents import read_input

    shown_name = "standard input" if name == "-" else display_name(name)
    return read_input(data, encoding, name=shown_name, markers=marks)


def load_named(
    names: list[str], device: str, precision: Precision, *, trust_remote_code: bool, native_tokens: bool = False
) -> "list[Expert]":
    """Load experts by name; print the memory that pretrained ones need."""
    from conservator.experts import load_experts
    from conservator.experts.denoisers import find_denoiser, size_of
    from conservator.experts.language_models.loading import HUB

    for name in (name for name in names if name.startswith(HUB)):
        size = size_of(find_denoiser(name), precision or "float32")
        messages.print(f"{name} needs {size / 1e6:.0f} MB of memory", soft_wrap=True)
    return load_experts(
        names, device, precision=precision, trust_remote_code=trust_remote_code, native_tokens=native_tokens
    )


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
        raise typer.BadParameter(error.problem, param_hint=flag_of(error.option)) from error


def as_option(advice: Advice) -> str:
    """Format an option as a command-line flag."""
    return f"{flag_of(advice.option)} {advice.value}"
