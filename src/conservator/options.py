"""Options of a restoration. The command line, web requests, checks and documentation are derived from this module."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args
from unicodedata import category

from conservator.channel_names import AUTO, MASK, OCR, TEXT_CHANNELS
from conservator.errors import ConservatorError, OptionError
from conservator.system.files import check_encoding, display_name, read_file

if TYPE_CHECKING:
    from conservator.channels import Channel, EditChannel

EXPERTS = ("prose", "code", "config", "markdown", "math")  # built-in experts that are selected from by default
ANY_CHARACTER = "any"  # value of the option lost: each mark is one character of any kind
LOST = ("auto", ANY_CHARACTER, "bytes", "invalid", "characters")  # values of the option lost, or ENCODING and a name
ENCODING = "encoding:"  # prefix of a value of the option lost
EFFORTS = ("fast", "best")
NOTATIONS = ("auto", "plain", "leiden", "epidoc")
DEFAULT_LANGUAGE_MODEL = "smollm2"
EXAMPLES = ("windows-1252", "windows-1250", "iso-8859-15")  # one-byte encodings that messages name
SURFACES = ("cli", "batch", "web")  # conservator restore, conservator batch, web requests; the API has every option
MAX_GAP_BYTES = 256  # bytes: upper bound of max_gap on the command line and the web page [safety limit]
MAX_TEXT_CHARS = 64  # characters: length of a mark or a name in a web request [safety limit]
REPORT_ALTERNATIVES = 4  # candidates per gap: default number of alternatives in a report [untuned]
MAX_SEED = 10**12  # seed: upper bound [safety limit]
MAX_WORDS = 10_000  # words: in a web request [safety limit]
MAX_WORD_CHARS = 200  # characters: length of a word or phrase [safety limit]
MAX_WORDS_BYTES = 2**20  # bytes: size of a file of words [safety limit]
NAME_LIMITS = {"web": MAX_TEXT_CHARS}
# regular expression: a channel that is not a file
CHANNEL_NAME = f"({'|'.join((AUTO, MASK, OCR, *TEXT_CHANNELS))}|replacement:[0-9.eE+-]+)"
NUMBER_NOUNS = {int: "integer", float: "number"}


@dataclass(frozen=True)
class Option:
    """Declaration of an option. A surface is one of ``SURFACES``."""

    help: str  # description; names other options as `name` or `name=value`
    min: float | None = None
    max: float | None = None
    is_positive: bool = False  # 0 is not valid
    limits: Mapping[str, int] = field(default_factory=dict)  # surface -> maximum of the value, or of its length
    max_item_chars: int | None = None  # maximum length of each text of a sequence
    choices: tuple[str, ...] = ()
    web_pattern: str | None = None  # regular expression of the values in web requests
    metavar: str | None = None  # placeholder for the value on the command line
    cli_parse: Callable[[str], Any] | None = None  # converts the text on the command line
    default_text: str = ""  # description of the default
    automatic: Mapping[str, str] = field(default_factory=dict)  # surface -> value that it selects if none is given
    is_repeatable: bool = False  # the value may also be a sequence of such texts; the flag may be repeated
    needs: str = ""  # option without which this option has no effect: name, or name=value
    is_rejected_alone: bool = False  # the command line rejects the option without the option that it needs
    excluded: Mapping[str, str] = field(default_factory=dict)  # surface without the option -> reason
    is_checked: bool = True  # False: other types are valid in Python, and the pipelines check the value
    flag: str = ""  # by default the name; if the default is True, the flag selects False
    name: str = ""
    default: Any = None
    type: Any = str
    is_optional: bool = False  # None is valid

    @property
    def is_sequence(self) -> bool:
        """Whether the value is a sequence of texts."""
        return self.type not in (str, bool, *NUMBER_NOUNS)

    def upper_bound(self, surface: str) -> float | None:
        """Return the maximum of the value, or of its length, on a surface."""
        return self.limits.get(surface, self.max)

    def describe_default(self, surface: str = "") -> str:
        """Describe the default value on a surface."""
        shown = "none" if self.default is None else str(self.default)
        return self.automatic.get(surface) or self.default_text or shown

    def check(self, value: Any) -> None:
        """Raise an OptionError for an invalid value."""
        if not self.is_checked or (value is None and self.is_optional):
            return
        if self.is_repeatable and isinstance(value, list | tuple):
            for item in value:
                replace(self, is_repeatable=False, is_optional=False).check(item)
            valid = len(value) > 0
        elif self.type in NUMBER_NOUNS:
            valid = isinstance(value, int | self.type) and not isinstance(value, bool)
            valid = valid and (self.min is None or value >= self.min) and (self.max is None or value <= self.max)
            valid = valid and (value > 0 or not self.is_positive)
        elif self.type in (str, bool):
            valid = isinstance(value, self.type) and value != "" and (not self.choices or value in self.choices)
        else:
            valid = isinstance(value, list | tuple)
            invalid = [item for item in value if not self.is_valid_item(item)] if valid else []
            if invalid:  # the message has one item only, because a sequence may be long
                raise OptionError(self.name, f"must be {self.describe_values()}, got the item {invalid[0]!r}")
        if not valid:
            raise OptionError(self.name, f"must be {self.describe_values()}, got {value!r}")

    def is_valid_item(self, item: Any) -> bool:
        """Return whether an item of a sequence is valid."""
        is_text = isinstance(item, str) and item.strip() != ""
        return is_text and (self.max_item_chars is None or len(item) <= self.max_item_chars)

    def describe_values(self) -> str:
        """Describe the valid values."""
        noun = NUMBER_NOUNS.get(self.type)
        if noun is None:
            nouns = {bool: "true or false", str: "a text of at least one character"}
            limit = f" of at most {self.max_item_chars} characters each" if self.max_item_chars else ""
            values = nouns.get(self.type, f"a sequence of texts{limit}")
            values = f"one of {', '.join(self.choices)}" if self.choices else values
            values = f"{values}, or a sequence of such texts" if self.is_repeatable else values
        elif self.max is None and (self.is_positive or self.min == 0):
            values = f"a {'positive' if self.is_positive else 'non-negative'} {noun}"
        else:
            bounds = f" between {self.min} and {self.max}" if self.max is not None else f" of at least {self.min}"
            values = f"{'an' if noun == 'integer' else 'a'} {noun}{'' if self.min is None else bounds}"
        return f"{values} or None" if self.is_optional else values


def option(default: Any, description: str, **declaration: Any) -> Any:
    """Return a dataclass field that is an option; ``declaration``: attributes of ``Option``."""
    return field(default=default, metadata={"option": Option(description, **declaration)})


def options_of(cls: Any) -> dict[str, Option]:
    """Return the options of a dataclass by name."""
    options = {}
    for item in fields(cls):
        if declared := item.metadata.get("option"):
            types = get_args(item.type) if NoneType in get_args(item.type) else (item.type,)
            options[item.name] = replace(
                declared,
                name=item.name,
                flag=declared.flag or f"--{'no-' if item.default is True else ''}{item.name.replace('_', '-')}",
                default=item.default,
                type=types[0] if declared.is_checked else str,
                is_optional=NoneType in types,
            )
    return options


def integer_or_none(text: str) -> int | str | None:
    """Convert the text of an integer, or ``none``; other texts are returned unchanged and rejected by the check."""
    try:
        return None if text == "none" else int(text)
    except ValueError:
        return text


def read_words(name: str) -> tuple[str, ...]:
    """Read a file of words: one word or phrase per line, in UTF-8; blank lines and lines with # are ignored."""
    try:
        lines = read_file(Path(name), MAX_WORDS_BYTES).decode("utf-8-sig").splitlines()
    except ConservatorError as error:
        raise OptionError("words", error.problem) from error
    except UnicodeDecodeError as error:
        problem = f"{display_name(name)} must be a text file in UTF-8, but byte {error.start} is invalid"
        raise OptionError("words", problem) from error
    words = tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))
    for word in words:
        if not is_word(word):
            problem = (
                f"each line of {display_name(name)} must be a word or phrase of at most {MAX_WORD_CHARS} characters"
            )
            raise OptionError("words", f"{problem}, got {word[:MAX_WORD_CHARS]!r}")
    return words


def is_word(text: str) -> bool:
    """Return whether a text can be a word or phrase: it has no control characters and is not too long."""
    return len(text) <= MAX_WORD_CHARS and not any(category(character) in ("Cc", "Cs") for character in text)


@dataclass(frozen=True)
class RestoreOptions:
    """Options of a restoration."""

    mark: str = option(
        "\ufffd", "Text that stands for one lost byte or character.", default_text="U+FFFD", limits=NAME_LIMITS
    )
    gap: str | Sequence[str] | None = option(
        None,
        'Text that stands for a gap: a lost span of unknown length, such as "[...]". May be repeated, if several texts '
        "do.",
        limits=NAME_LIMITS,
        is_repeatable=True,
    )
    notation: str = option(
        "auto",
        "Editorial notation of the document. leiden: Leiden conventions; [...] is three lost characters, [c. 5] about "
        "five, [---] an unknown number, and other brackets are kept. epidoc: EpiDoc XML, whose gap elements become "
        "supplied elements. plain: none of them. auto: epidoc if the root element is TEI and there are gaps, else "
        "plain.",
        choices=NOTATIONS,
    )
    max_gap: int = option(
        32,  # bytes: bound on the lengths that are compared [untuned]
        "Maximum length of a gap, in bytes.",
        min=1,
        limits=dict.fromkeys(SURFACES, MAX_GAP_BYTES),
        needs="gap",
    )
    lost: str = option(
        "auto",
        "What each mark stands for. any: one character of any kind. bytes: one byte. invalid: one byte, and invalid "
        "UTF-8 bytes are also lost. characters: one character outside ASCII, lost in a wrong encoding. "
        f"{ENCODING}NAME: one character of an encoding, such as {ENCODING}{EXAMPLES[0]}. auto: detected from the "
        "document; bytes if parts of characters are beside marks.",
        metavar="UNIT",
        web_pattern=f"^({'|'.join(LOST)}|{ENCODING}.{{1,40}})$",
    )
    encoding: str | None = option(
        None,
        "Encoding of the document, such as windows-1252 or utf-16.",
        metavar="NAME",
        default_text="detected",
        limits=NAME_LIMITS,
    )
    channel: "str | Path | Channel | EditChannel" = option(  # noqa: RUF009
        "mask",
        "How the document was damaged. mask: only the marked positions are lost. auto: detected from the document. "
        "replacement:RATE: this share of the bytes was replaced, without marks. ocr: OCR errors. mojibake: decoded "
        "with a wrong encoding. typing: typing errors. spaces: missing or additional spaces. case: lost capital "
        "letters. hyphenation: words broken at line ends. FILE.json: a channel that conservator channel fit wrote (not "
        "in web requests). Several are separated by commas.",
        limits=NAME_LIMITS,
        web_pattern=rf"^{CHANNEL_NAME}(,{CHANNEL_NAME})*$",
        is_checked=False,
    )
    ocr_language: str = option(
        "eng",
        "Language of a scan, as a Tesseract code such as eng or deu+lat.",
        metavar="NAME",
        excluded=dict.fromkeys(("batch", "web"), "scans are read by conservator restore and the API only"),
    )
    min_log_odds: float = option(
        2.0,  # nats: between 1 and 2, corrections harm too much [LOG: ocr-correction]
        "Minimum log-odds, in nats, for a correction of OCR text.",
        min=0,
        needs="channel=ocr",
    )
    min_confidence: float = option(0.0, "Leave bytes or characters with a lower confidence unfilled.", min=0, max=1)
    min_gap_confidence: float = option(
        0.5,  # probability: at least even odds of the whole gap [LOG: gap-lengths]
        "Leave a gap unfilled if the probability of its whole text is lower than this.",
        min=0,
        max=1,
        needs="gap",
    )
    fill_undetermined: bool = option(
        False,
        "Also fill marks that the visible text does not determine, because most of the text around them is lost.",
    )
    alternatives: int = option(
        0,
        "Number of alternative texts for each lost span and each correction, in the report and the JSON result; they "
        "take time and do not change the restored text.",
        min=0,
        limits={"cli": 100, "web": 20},
        automatic={
            "cli": f"{REPORT_ALTERNATIVES} with `report`, `json` or `gap`, else 0",
            "web": f"{REPORT_ALTERNATIVES} with the channel mask, else 0",
        },
        excluded={"batch": "a batch writes no lists of alternatives"},
    )
    effort: str = option(
        "fast",
        "fast: small networks and the memory. best: a language model also rescores uncertain text; more accurate, "
        "about ten times slower.",
        choices=EFFORTS,
    )
    language_models: str = option(
        DEFAULT_LANGUAGE_MODEL,
        "Language model for `effort=best`, or several, separated by commas: names of added models (conservator experts "
        "add), hf:OWNER/NAME, folders or .gguf files.",
        flag="--language-model",
        metavar="NAME",
        needs="effort=best",
        is_rejected_alone=True,
        excluded={"web": "a request must not name files of the server"},
    )
    words: tuple[str, ...] = option(
        (),
        "Words and phrases to prefer where they match, such as names and jargon. On the command line a text file with "
        "one word or phrase per line; lines that start with # are ignored.",
        metavar="FILE",
        cli_parse=read_words,
        default_text="none",
        limits={"web": MAX_WORDS},
        max_item_chars=MAX_WORD_CHARS,
    )
    memory: bool = option(
        True, "Copy text from other parts of the document or from references, and look up words in word lists."
    )
    max_seconds: float | None = option(
        None,
        "Time limit, without loading the experts. The result so far is kept; bytes that were not reached stay "
        "unfilled.",
        is_positive=True,
        metavar="SECONDS",
        default_text="no limit",
        excluded={
            "batch": "results must not depend on the speed of the machine",
            "web": "the server sets the time limit",
        },
    )
    evidence_radius: int | None = option(
        256,  # bytes: distance from damage [LOG: sampling-the-evidence]
        "Infer the weights of the experts from the text within this many bytes of the damage; none: from all text.",
        min=0,
        metavar="BYTES",
        cli_parse=integer_or_none,
    )
    seed: int = option(0, "Random seed.", min=0, max=MAX_SEED)

    def __post_init__(self) -> None:
        """Raise an OptionError for an invalid value."""
        for declared in OPTIONS.values():
            declared.check(getattr(self, declared.name))
        if self.mark in self.gap_markers:
            raise OptionError("gap", f"the mark and the gap marker must differ, both are {self.mark!r}")
        _check_lost(self.lost)
        for word in self.words:
            if not is_word(word):
                raise OptionError("words", f"must be words and phrases without control characters, got {word!r}")
        if self.encoding is not None:
            check_encoding(self.encoding)
        if not all(name.strip() for name in self.language_models.split(",")):
            problem = f"must be names of language models separated by commas, got {self.language_models!r}"
            raise OptionError("language_models", problem)

    @property
    def gap_markers(self) -> tuple[str, ...]:
        """The texts that stand for gaps."""
        return as_texts(self.gap)

    @property
    def markers(self) -> tuple[str, ...]:
        """The texts that stand for lost text: the mark and the gap markers."""
        return self.mark, *self.gap_markers

    @property
    def allow_invalid_utf8(self) -> bool:
        """Whether the document may contain invalid UTF-8: such bytes count as lost, or any byte may be wrong."""
        if isinstance(self.channel, str | Path):
            return self.lost == "invalid" or "replacement:" in str(self.channel)
        from conservator.channels import needs_experts

        return self.lost == "invalid" or needs_experts(self.channel)


def as_texts(texts: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return a text, or a sequence of texts, as a tuple; None is empty."""
    return () if texts is None else (texts,) if isinstance(texts, str) else tuple(texts)


def encoding_of(lost: str) -> str | None:
    """Return the encoding that a value of the option ``lost`` names, or None."""
    return lost.removeprefix(ENCODING) if lost.startswith(ENCODING) else None


def are_marks_characters(lost: str) -> bool:
    """Return whether every mark stands for a character outside ASCII, given a value of the option ``lost``."""
    return lost == "characters" or lost.startswith(ENCODING)


def _check_lost(lost: str) -> None:
    encoding = encoding_of(lost)
    if encoding is None:
        if lost not in LOST:
            choices = f"{', '.join(LOST)}, {ENCODING}NAME (such as {ENCODING}{EXAMPLES[0]})"
            raise OptionError("lost", f"must be one of {choices}, got {lost!r}")
        return
    from conservator.vocabularies import CHARACTERS

    try:
        CHARACTERS.repertoire(encoding)
    except LookupError as error:
        examples = ", ".join(EXAMPLES)
        problem = f"the encoding must have one byte for each character, such as {examples}, got {lost!r}"
        raise OptionError("lost", problem) from error


def expert_names(experts: str | Sequence[Any] | None) -> list[Any]:
    """Return the experts as a list: ``"prose,code"`` is split at its commas, and None means the default experts."""
    if experts is None:
        return list(EXPERTS)
    if isinstance(experts, str):
        return [name.strip() for name in experts.split(",")]
    if isinstance(experts, Path):
        return [experts]
    return [name.strip() if isinstance(name, str) else name for name in experts]


OPTIONS = options_of(RestoreOptions)
RestoreOptions.__doc__ = "\n".join(
    [
        f"{RestoreOptions.__doc__}\n\nAttributes:",
        *(f"    {name}: {described.help}" for name, described in OPTIONS.items()),
    ]
)
DEFAULTS = RestoreOptions()
