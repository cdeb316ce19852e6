"""All options of a restoration, with their defaults and valid values, for the API, the command line and the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conservator.errors import OptionError
from conservator.system.files import check_encoding

if TYPE_CHECKING:
    from conservator.channels import Channel, EditChannel

EXPERTS = ("prose", "code", "config", "markdown", "math")  # the experts to choose from, if none are named
LOST = ("auto", "bytes", "invalid", "characters")  # or ENCODING and the name of an encoding
ENCODING = "encoding:"
EFFORTS = ("fast", "best")
LANGUAGE = "smollm2"  # the language model that writes damaged text again, if none is named
EXAMPLES = ("windows-1252", "windows-1250", "iso-8859-15")  # of encodings
LONGEST_GAP = 256  # bytes: the largest max_gap of the command line and the page
SHOWN_ALTERNATIVES = 4  # joint fills of each gap that a report shows, if no number is given
LARGEST_SEED = 10**12


@dataclass(frozen=True)
class RestoreOptions:
    """How a document is restored.

    Attributes:
        mark: the text that stands for one lost byte or character.
        gap: the text that stands for a lost stretch of unknown length, such as ``"[...]"``; None for no such stretches.
        max_gap: the longest length that is considered for such a stretch, in bytes.
        lost: what is lost: a byte at each mark (``bytes``), bytes that are not UTF-8 too (``invalid``), a character
            outside ASCII at each mark (``characters``), or one of a one-byte encoding (``encoding:NAME``). ``auto``
            tells bytes and characters apart by the document, where it also chooses the experts.
        channel: how the document was damaged: ``mask`` (marked bytes are lost, all others are right),
            ``replacement:RATE`` (any byte may be wrong), ``ocr`` (a reader of pages took some characters for others),
            the path of a fitted channel, or a Channel.
        min_log_odds: by how many nats the evidence must favour a change of text that a reader of pages wrote.
        min_confidence: a lost byte whose best guess has a confidence below this is not filled in.
        min_gap_confidence: a gap of unknown length whose best fill has a probability below this, as a whole, is not
            filled in; 0 fills in every gap.
        fill_undetermined: whether marks are filled in, too, that the visible text does not determine, because most of
            the text around them is lost, or because they probably stand for characters of several bytes.
        alternatives: how many joint fills of each gap to find, with the one that it got; the text is the same with and
            without them.
        seed: the seed of all randomness.
        evidence_radius: evidence for the field is gathered within this many bytes of damage; None gathers it everywhere.
        memory: whether text that stands elsewhere in the document, or in references, is recalled.
        encoding: the encoding of a document that is given as a file or as bytes; None tells it by the bytes.
        effort: ``fast`` (networks and memory) or ``best`` (language models write what these leave in doubt again).
        language_models: the language models of ``best``: names with commas between, or folders.
        max_seconds: how long the restoration may take, without loading experts; what was reached by then is kept. None
            sets no limit. The result then depends on how fast the machine is.
    """

    mark: str = "\ufffd"
    gap: str | None = None
    max_gap: int = 32
    lost: str = "auto"
    channel: "str | Path | Channel | EditChannel" = "mask"
    min_log_odds: float = 2.0
    min_confidence: float = 0.0
    min_gap_confidence: float = 0.5
    fill_undetermined: bool = False
    alternatives: int = 0
    seed: int = 0
    evidence_radius: int | None = 256
    memory: bool = True
    encoding: str | None = None
    effort: str = "fast"
    language_models: str = LANGUAGE
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        """Raise an OptionError for an invalid value."""
        for name in ("mark", "gap"):
            sign = getattr(self, name)
            if sign is not None or name == "mark":
                _check(isinstance(sign, str) and sign != "", name, f"{sign!r}; it must be at least one character")
        _check(self.gap != self.mark, "gap", f"{self.gap!r}, as the mark; they must differ")
        _check(_whole(self.max_gap) and self.max_gap >= 1, "max_gap", f"{self.max_gap!r}; at least 1 is needed")
        _check_lost(self.lost)
        for name in ("min_confidence", "min_gap_confidence"):
            share = getattr(self, name)
            valid = isinstance(share, int | float) and 0 <= share <= 1
            _check(valid, name, f"{share!r}; it must lie between 0 and 1")
        _check(
            _whole(self.alternatives) and self.alternatives >= 0,
            "alternatives",
            f"{self.alternatives!r}; it must be a whole number, not negative",
        )
        gain = _number(self.min_log_odds) and self.min_log_odds >= 0
        _check(gain, "min_log_odds", f"{self.min_log_odds!r}; it must be a number, not negative")
        _check(_whole(self.seed), "seed", f"{self.seed!r}; it must be a whole number")
        for name in ("memory", "fill_undetermined"):
            chosen = getattr(self, name)
            _check(isinstance(chosen, bool), name, f"{chosen!r}; it must be true or false")
        _check(self.effort in EFFORTS, "effort", f"{self.effort!r}; known: {', '.join(EFFORTS)}")
        named = isinstance(self.language_models, str) and all(name.strip() for name in self.language_models.split(","))
        _check(
            named,
            "language_models",
            f"{self.language_models!r}; names of language models are needed, with commas between",
        )
        if self.encoding is not None:
            _check(isinstance(self.encoding, str), "encoding", f"{self.encoding!r}; it must be a name, or None")
            check_encoding(self.encoding)
        _check(
            self.max_seconds is None or (_number(self.max_seconds) and self.max_seconds > 0),
            "max_seconds",
            f"{self.max_seconds!r}; it must be a positive number, or None",
        )
        evidence_radius = self.evidence_radius is None or (_whole(self.evidence_radius) and self.evidence_radius >= 0)
        _check(evidence_radius, "evidence_radius", f"{self.evidence_radius!r}; it must be a number of bytes, or None")

    @property
    def allow_invalid_utf8(self) -> bool:
        """Whether bytes that fit into no UTF-8 are expected: they count as lost, or any byte may be wrong."""
        if isinstance(self.channel, str | Path):
            return self.lost == "invalid" or str(self.channel).startswith("replacement")
        from conservator.channels import as_edit_channel

        return self.lost == "invalid" or as_edit_channel(self.channel) is None


def encoding_of(lost: str) -> str | None:
    """The encoding that an option ``lost`` names; None if it names none."""
    return lost.removeprefix(ENCODING) if lost.startswith(ENCODING) else None


def are_marks_characters(lost: str) -> bool:
    """Whether an option ``lost`` says that every mark is a character."""
    return lost == "characters" or lost.startswith(ENCODING)


def _check_lost(lost: object) -> None:
    known = f"known: {', '.join(LOST)}, {ENCODING}NAME such as {ENCODING}{EXAMPLES[0]}"
    encoding = encoding_of(lost) if isinstance(lost, str) else None
    if encoding is None:
        _check(lost in LOST, "lost", f"{lost!r}; {known}")
        return
    from conservator.vocabularies import CHARACTERS

    try:
        CHARACTERS.repertoire(encoding)
    except LookupError as error:
        problem = f"{lost!r}; expected an encoding with one byte for each character, such as {', '.join(EXAMPLES)}"
        raise OptionError("lost", problem) from error


def expert_names(experts: str | Sequence[Any] | None) -> list[Any]:
    """The experts as a list: ``"prose,code"`` is split at its commas, and None gives the default experts."""
    if experts is None:
        return list(EXPERTS)
    if isinstance(experts, str):
        return [name.strip() for name in experts.split(",")]
    if isinstance(experts, Path):
        return [experts]
    return [name.strip() if isinstance(name, str) else name for name in experts]


def _check(holds: bool, option: str, problem: str) -> None:
    if not holds:
        raise OptionError(option, problem)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


DEFAULTS = RestoreOptions()
