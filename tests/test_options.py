"""The options of a restoration: every surface derives them from one declaration.

``python tests/test_options.py`` writes docs/options.md.
"""

import inspect
import re
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from string import Template

import pytest
import typer
from pydantic import ValidationError, create_model
from typer.testing import CliRunner

from conservator.cli import app
from conservator.cli.batch import batch
from conservator.cli.options import flag_of, with_options
from conservator.cli.restore import restore
from conservator.errors import OptionError
from conservator.options import DEFAULTS, OPTIONS, SURFACES, RestoreOptions, option, options_of
from conservator.web.app import PAGE_VALUES, sequence_input
from conservator.web.requests import FIELDS, RestoreRequest, option_field

DOCUMENT = Path(__file__).parent.parent / "docs" / "options.md"
NAMES = [item.name for item in fields(RestoreOptions)]
COMMANDS = {"cli": restore, "batch": batch}
LABELS = {"cli": "restore", "batch": "batch", "web": "web"}
# An invalid value of each option in Python, and on the command line, where None means that there is none.
INVALID = {
    "mark": ("", ""),
    "gap": ("", ""),
    "notation": ("brackets", "brackets"),
    "max_gap": (0, "0"),
    "lost": ("all", "all"),
    "encoding": ("klingon", "klingon"),
    "channel": ("scratch", "scratch"),
    "ocr_language": ("", ""),
    "min_log_odds": (-1.0, "-1"),
    "min_confidence": (1.5, "1.5"),
    "min_gap_confidence": (-0.5, "-0.5"),
    "fill_undetermined": ("perhaps", None),
    "alternatives": (-1, "-1"),
    "effort": ("most", "most"),
    "language_models": ("a,,b", "a,,b"),
    "words": ("Smith", "missing.txt"),
    "memory": ("perhaps", None),
    "max_seconds": (0, "0"),
    "evidence_radius": (-1, "-1"),
    "seed": (-1, "-1"),
}


def option_table():
    """docs/options.md: a table of all options."""
    lines = [
        "# Options",
        "",
        "The options of a restoration have the same names and defaults in Python (`conservator.restore`,",
        "`RestoreOptions`), on the command line (`conservator restore`, `conservator batch`) and in web requests, as",
        "fields of the JSON object. Python has all options. `tests/test_options.py` writes this file from",
        "`src/conservator/options.py`.",
        "",
        "| option | flag | default | available | meaning |",
        "|---|---|---|---|---|",
    ]
    for name, declared in OPTIONS.items():
        defaults = [declared.describe_default()]
        defaults += [f"{LABELS[surface]}: {text}" for surface, text in declared.automatic.items()]
        available = ", ".join(LABELS[surface] for surface in SURFACES if surface not in declared.excluded)
        meaning = [declared.help]
        if declared.type in (int, float):
            limits = {limit: surfaces_with(declared.limits, limit) for limit in declared.limits.values()}
            values = [declared.describe_values(), *(f"at most {limit} in {where}" for limit, where in limits.items())]
            meaning.append(f"Value: {'; '.join(values)}.")
        if declared.needs:
            meaning.append(f"Needs `{declared.needs}`.")
        for reason in dict.fromkeys(declared.excluded.values()):
            meaning.append(f"Not available in {surfaces_with(declared.excluded, reason)}: {reason}.")
        cells = (f"`{name}`", f"`{declared.flag}`", "; ".join(defaults), available, " ".join(meaning))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def surfaces_with(values, value):
    return ", ".join(LABELS[surface] for surface in values if values[surface] == value)


def invoke(*words):
    return CliRunner().invoke(app, list(words), terminal_width=300)


def cli_options(surface):
    """The options of a command by name: the default, and the typer.Option."""
    parameters = inspect.signature(COMMANDS[surface]).parameters
    return {name: (item.default, item.annotation.__metadata__[0]) for name, item in parameters.items() if name in NAMES}


def test_the_documentation_is_up_to_date():
    assert DOCUMENT.read_text() == option_table(), "run python tests/test_options.py"


def test_every_option_is_declared_and_described():
    assert list(OPTIONS) == NAMES
    assert set(INVALID) == set(NAMES)
    assert all(declared.help.endswith(".") for declared in OPTIONS.values())
    assert {name: declared.default for name, declared in OPTIONS.items()} == vars(DEFAULTS)


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("name", NAMES)
def test_an_option_is_available_or_excluded_with_a_reason(name, surface):
    available = FIELDS if surface == "web" else cli_options(surface)
    reason = OPTIONS[name].excluded.get(surface)
    assert (name in available) == (reason is None)
    assert reason is None or len(reason.split()) >= 4


@pytest.mark.parametrize("surface", COMMANDS)
@pytest.mark.parametrize("name", NAMES)
def test_a_flag_has_the_default_the_bounds_and_the_description(name, surface):
    declared = OPTIONS[name]
    if surface in declared.excluded:
        return
    default, info = cli_options(surface)[name]
    assert (info.default, *info.param_decls) == (declared.flag,)  # Annotated: the first name is the attribute default
    assert default == (None if declared.cli_parse else False if declared.type is bool else declared.default)
    if declared.type in (int, float) and not declared.cli_parse:
        assert (info.min, info.max) == (declared.min, declared.upper_bound(surface))
    words = re.sub(r"`.*", "", declared.help).rstrip(".")
    assert (words[1:] if declared.default is True else words) in info.help
    assert (
        info.show_default or declared.type is bool or f"(default: {declared.describe_default(surface)[:1]}" in info.help
    )
    assert "`" not in info.help


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_of_a_request_has_the_default_the_bounds_and_the_description(name):
    declared, schema = OPTIONS[name], RestoreRequest.model_json_schema()["properties"][name]
    default = list(declared.default) if declared.is_sequence else declared.default
    assert schema["default"] == (None if "web" in declared.automatic else default)
    assert declared.help in schema["description"]
    variant = schema["anyOf"][0] if "anyOf" in schema else schema
    assert ("anyOf" in schema) == (schema["default"] is None or declared.is_optional)
    assert variant.get("minimum") == declared.min
    assert {"type": "array"}.items() <= schema["anyOf"][1].items() if declared.is_repeatable else True
    bounds = [variant[key] for key in ("maximum", "maxLength", "maxItems") if key in variant]
    assert bounds == ([] if declared.upper_bound("web") is None else [declared.upper_bound("web")])
    assert variant.get("items", {}).get("maxLength") == declared.max_item_chars
    assert tuple(variant.get("enum", ())) == declared.choices
    assert variant.get("pattern") == declared.web_pattern


def test_the_page_has_an_input_for_each_option():
    page = Template((files("conservator.web") / "index.html").read_text()).safe_substitute(PAGE_VALUES)
    names = set(re.findall(r'id="[\w-]+" name="(\w+)"', page))
    assert names | {"encoding", "channel"} == set(FIELDS)  # the type of damage is lost or channel
    assert PAGE_VALUES["max_gap_max"] == OPTIONS["max_gap"].limits["web"]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "channel"])
def test_the_api_rejects_invalid_values(name):
    value, _ = INVALID[name]
    with pytest.raises(OptionError, match=re.escape(repr(value))) as error:
        RestoreOptions(**{name: value})
    assert error.value.option == name


@pytest.mark.parametrize("surface", COMMANDS)
@pytest.mark.parametrize("name", [name for name in NAMES if INVALID[name][1] is not None])
def test_the_command_line_rejects_invalid_values(name, surface, tmp_path):
    declared = OPTIONS[name]
    if surface in declared.excluded:
        return
    (tmp_path / "damaged.txt").write_text("a\ufffd")
    words = ["restore"] if surface == "cli" else ["batch", "--out", str(tmp_path / "out"), "--dry-run"]
    done = invoke(*words, str(tmp_path / "damaged.txt"), declared.flag, INVALID[name][1])
    assert done.exit_code == 2
    assert declared.flag in done.output


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "encoding"])
def test_a_request_with_an_invalid_value_is_rejected(name):
    with pytest.raises(ValidationError) as error:
        RestoreRequest.model_validate({"text": "a", name: INVALID[name][0]})
    assert error.value.errors()[0]["loc"][0] == name


def test_messages_name_the_flag():
    assert flag_of("memory") == "--no-memory"
    assert flag_of("language_models") == "--language-model"
    assert flag_of("references") == "--reference"
    assert flag_of("cross_reference") == "--cross-reference"


@pytest.mark.parametrize("command", [("restore",), ("batch", "--out", "out")])
def test_a_language_model_needs_the_effort_best(command):
    done = invoke(*command, "document.txt", "--language-model", "smollm2")
    assert done.exit_code == 2
    assert "--language-model: has no effect without --effort best" in done.output


def read_lines(name):
    return tuple(Path(name).read_text().split())


@dataclass(frozen=True)
class WordOptions:
    words: tuple[str, ...] = option(
        (),
        "Words & names.",
        metavar="FILE",
        cli_parse=read_lines,
        default_text="no",
        limits={"web": 2},
        max_item_chars=5,
    )
    loud: bool = option(True, "Print the words.")


def test_a_flag_can_be_converted(tmp_path):
    received = []
    program = typer.Typer()

    @program.command()
    @with_options("cli")
    def command(*, options: WordOptions, given: frozenset[str]) -> None:
        received.append((options, given))

    (tmp_path / "words.txt").write_text("some words\n")
    assert CliRunner().invoke(program, ["--words", str(tmp_path / "words.txt"), "--no-loud"]).exit_code == 0
    assert CliRunner().invoke(program, []).exit_code == 0
    assert received == [(WordOptions(("some", "words"), False), {"words", "loud"}), (WordOptions(), frozenset())]


def test_an_option_can_be_a_sequence_of_texts():
    declared = options_of(WordOptions)["words"]
    declared.check(["some", "words"])
    for value in ("words", [""], ["\n"], [1], ["longer"]):
        with pytest.raises(OptionError, match=r"must be a sequence of texts of at most 5 characters each, got"):
            declared.check(value)
    request = create_model("Request", words=option_field(declared))
    assert request.model_validate({"words": ["some", "words"]}).words == ("some", "words")
    assert request.model_validate({}).words == ()
    for value in ("words", ["a"] * 3, [""], ["longer"]):
        with pytest.raises(ValidationError):
            request.model_validate({"words": value})
    assert sequence_input(declared) == (
        '<label>Words &amp; names; one per line<textarea id="words" name="words" rows="3"></textarea></label>'
    )


if __name__ == "__main__":
    DOCUMENT.write_text(option_table())
