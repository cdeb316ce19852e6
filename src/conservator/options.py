"""Options of a restoration, with defaults and valid values, for the Python API, the command line and the web page."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conservator.errors import OptionError
from conservator.system.files import check_encoding

if TYPE_CHECKING:
    from conservator.channels import Channel, EditChannel

EXPERTS = ("prose", "code", "config", "markdown", "math")  # built-in experts that are selected from by default
LOST = ("auto", "bytes", "invalid", "characters")  # values of the option lost, or ENCODING and a name
ENCODING = "encoding:"  # prefix of a value of the option lost
EFFORTS = ("fast", "best")
DEFAULT_LANGUAGE_MODEL = "smollm2"
EXAMPLES = ("windows-1252", "windows-1250", "iso-8859-15")  # one-byte encodings that messages name
MAX_GAP_BYTES = 256  # bytes: upper bound of max_gap on the command line and the web page [safety limit]
REPORT_ALTERNATIVES = 4  # candidates per gap: default number of alternatives in a report [untuned]
MAX_SEED = 10**12  # seed: upper bound on the command line and the web page [safety limit]


@dataclass(frozen=True)
class RestoreOptions:
    """Options of a restoration.

    Attributes:
        mark: Text that stands for one lost byte or character.
        gap: Gap marker: text that stands for a lost span of unknown length, such as ``"[...]"``. None: no gaps.
        max_gap: Maximum length of such a gap, in bytes.
        lost: What one mark stands for: a byte (``bytes``), a non-ASCII character (``characters``), or a non-ASCII
            character of a one-byte encoding (``encoding:NAME``). ``invalid`` is ``bytes``, and bytes that are not valid
            UTF-8 count as lost, too. ``auto`` chooses between bytes and characters by the document, if the experts are
            also selected by it.
        channel: How the document was damaged: ``mask`` (marked bytes are lost, all others are correct),
            ``replacement:RATE`` (any byte may be wrong), ``ocr`` (text with OCR errors), the path of a fitted channel,
            or a Channel.
        min_log_odds: Minimum log-odds of an OCR correction, in nats.
        min_confidence: Lost bytes with a lower confidence are left unfilled.
        min_gap_confidence: Gaps of unknown length whose best candidate has a lower probability are left unfilled; 0
            fills every gap.
        fill_undetermined: Whether to fill marks that the visible text does not determine: most of the text around them
            is lost, or they probably stand for characters of several bytes.
        alternatives: Number of candidates to list for each gap, including the chosen one. It does not change the text.
        seed: Random seed.
        evidence_radius: Evidence for the weights is gathered within this many bytes of damage. None: everywhere.
        memory: Whether the memory copies text from elsewhere in the document and from references.
        encoding: Encoding of a document that is given as a file or as bytes. None: detect it.
        effort: ``fast`` (networks and memory) or ``best`` (language models rescore the bytes with low confidence).
        language_models: Language models of ``best``: names or folders, separated by commas.
        max_seconds: Time limit without the loading of experts. The result keeps everything that was finished by then,
            and depends on the speed of the machine. None: no limit.
    """

    mark: str = "\ufffd"
    gap: str | None = None
    max_gap: int = 32  # bytes: bound on the lengths that are compared [untuned]
    lost: str = "auto"
    channel: "str | Path | Channel | EditChannel" = "mask"
    min_log_odds: float = 2.0  # nats: between 1 and 2, corrections harm too much [LOG: ocr-correction]
    min_confidence: float = 0.0
    min_gap_confidence: float = 0.5  # probability: at least even odds of the whole gap [LOG: gap-lengths]
    fill_undetermined: bool = False
    alternatives: int = 0
    seed: int = 0
    evidence_radius: int | None = 256  # bytes: distance from damage [LOG: sampling-the-evidence]
    memory: bool = True
    encoding: str | None = None
    effort: str = "fast"
    language_models: str = DEFAULT_LANGUAGE_MODEL
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        """Raise an OptionError for an invalid value."""
        for name in ("mark", "gap"):
            marker = getattr(self, name)
            if marker is not None or name == "mark":
                valid = isinstance(marker, str) and marker != ""
                _check(valid, name, f"must be at least one character, got {marker!r}")
        _check(self.gap != self.mark, "gap", f"the mark and the gap marker must differ, both are {self.gap!r}")
        valid = _is_integer(self.max_gap) and self.max_gap >= 1
        _check(valid, "max_gap", f"must be an integer of at least 1, got {self.max_gap!r}")
        _check_lost(self.lost)
        for name in ("min_confidence", "min_gap_confidence"):
            probability = getattr(self, name)
            valid = isinstance(probability, int | float) and 0 <= probability <= 1
            _check(valid, name, f"must be between 0 and 1, got {probability!r}")
        valid = _is_integer(self.alternatives) and self.alternatives >= 0
        _check(valid, "alternatives", f"must be a non-negative integer, got {self.alternatives!r}")
        valid = _is_number(self.min_log_odds) and self.min_log_odds >= 0
        _check(valid, "min_log_odds", f"must be a non-negative number, got {self.min_log_odds!r}")
        _check(_is_integer(self.seed), "seed", f"must be an integer, got {self.seed!r}")
        for name in ("memory", "fill_undetermined"):
            flag = getattr(self, name)
            _check(isinstance(flag, bool), name, f"must be true or false, got {flag!r}")
        _check(self.effort in EFFORTS, "effort", f"must be one of {', '.join(EFFORTS)}, got {self.effort!r}")
        models = self.language_models
        valid = isinstance(models, str) and all(name.strip() for name in models.split(","))
        _check(valid, "language_models", f"must be names of language models separated by commas, got {models!r}")
        if self.encoding is not None:
            valid = isinstance(self.encoding, str)
            _check(valid, "encoding", f"must be the name of an encoding or None, got {self.encoding!r}")
            check_encoding(self.encoding)
        valid = self.max_seconds is None or (_is_number(self.max_seconds) and self.max_seconds > 0)
        _check(valid, "max_seconds", f"must be a positive number or None, got {self.max_seconds!r}")
        valid = self.evidence_radius is None or (_is_integer(self.evidence_radius) and self.evidence_radius >= 0)
        problem = f"must be a non-negative number of bytes or None, got {self.evidence_radius!r}"
        _check(valid, "evidence_radius", problem)

    @property
    def allow_invalid_utf8(self) -> bool:
        """Whether the document may contain invalid UTF-8: such bytes count as lost, or any byte may be wrong."""
        if isinstance(self.channel, str | Path):
            return self.lost == "invalid" or str(self.channel).startswith("replacement")
        from conservator.channels import as_edit_channel

        return self.lost == "invalid" or as_edit_channel(self.channel) is None


def encoding_of(lost: str) -> str | None:
    """Return the encoding that a value of the option ``lost`` names, or None."""
    return lost.removeprefix(ENCODING) if lost.startswith(ENCODING) else None


def are_marks_characters(lost: str) -> bool:
    """Return whether every mark stands for a character, given a value of the option ``lost``."""
    return lost == "characters" or lost.startswith(ENCODING)


def _check_lost(lost: object) -> None:
    encoding = encoding_of(lost) if isinstance(lost, str) else None
    if encoding is None:
        choices = f"{', '.join(LOST)}, {ENCODING}NAME (such as {ENCODING}{EXAMPLES[0]})"
        _check(lost in LOST, "lost", f"must be one of {choices}, got {lost!r}")
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


def _check(valid: bool, option: str, problem: str) -> None:
    if not valid:
        raise OptionError(option, problem)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


DEFAULTS = RestoreOptions()
