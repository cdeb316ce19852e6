"""The record of a restoration: typed plain values that the JSON file, the report and the web page show."""

import json
from dataclasses import dataclass
from typing import Any

from conservator.errors import ConservatorError
from conservator.results.notices import Notice
from conservator.results.summary import Counts, Summary
from conservator.results.validation import from_plain, to_plain

FORMAT = "conservator restoration 3"

Range = tuple[int, int]


@dataclass(frozen=True)
class Alternative:
    """A candidate for an edit, and its probability."""

    text: str
    probability: float


@dataclass(frozen=True)
class Piece:
    """A piece of the document. The pieces follow each other; together their texts are the document.

    Visible text has the first three values only; a piece with an ``origin`` is an edit. If a part of a character was
    lost, the edit contains the whole character. An edit that is partly unfilled consists of several pieces with the
    same origin.

    Attributes:
        at: Half-open range of positions.
        text: The text; the mark where it is unfilled.
        expert: Index of the expert whose domain it belongs to; None where nothing was read.
        origin: Half-open range of bytes in the damaged document.
        unfilled: Whether ``text`` is the mark.
        guess: The new text, or the best candidate if the piece is unfilled.
        probability: Probability that the whole ``guess`` is correct.
        log_odds: Log-probability of a correction minus that of the observed text, in nats; None if that was pruned, and
            for lost text.
        confidence: Confidence of each character of ``guess``.
        sources: Provenance of each character of ``guess``: the text and the line that the memory copied it from, or
            None. The text is an index into ``references``, or None for the document itself. Lines count from 1 and end
            at visible line ends.
        weights: Mean weight of each expert.
        alternatives: Best candidates of the edit, also if it is unfilled. For a gap of unknown length they have the
            chosen length, and their probability includes that of the length.
        counts: Counts of the piece.
        fixed: True for a text that the user supplied; its characters have confidence 1.
        observed: Text before a correction.
        line: Line of a correction in the damaged document, counted from 1.
    """

    at: Range
    text: str
    expert: int | None
    origin: Range | None = None
    unfilled: bool | None = None
    guess: str | None = None
    probability: float | None = None
    log_odds: float | None = None
    confidence: tuple[float, ...] | None = None
    sources: tuple[tuple[int | None, int] | None, ...] | None = None
    weights: tuple[float, ...] | None = None
    alternatives: tuple[Alternative, ...] | None = None
    counts: Counts | None = None
    fixed: bool | None = None
    observed: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class Reference:
    """A text that bytes were copied from: its name, and the number of these bytes."""

    name: str
    provenance: int


@dataclass(frozen=True)
class RecordedCost:
    """Network evaluations, and the seconds in all and in the experts."""

    evaluations: int
    seconds: float
    expert_seconds: float


@dataclass(frozen=True)
class Curves:
    """The field and the damage along the document, as means over bins of positions.

    Attributes:
        edges: Positions between the bins.
        weights: Weight of each expert in each bin; None in bins where nothing was read.
        lost_fraction: Fraction of lost or changed bytes in each bin.
        provenance: Mean weight of the memory at these bytes; None in bins without any; empty without a memory.
    """

    edges: tuple[int, ...]
    weights: tuple[tuple[float | None, ...], ...]
    lost_fraction: tuple[float, ...]
    provenance: tuple[float | None, ...]


@dataclass(frozen=True)
class CorrectionCounts:
    """Counts of a text that was corrected.

    Attributes:
        channels: Names of the channels whose errors were corrected, in order.
        characters: Number of characters of the observed text.
        changed: Number of characters that were replaced, deleted or inserted.
        rate: Error rate of this document, as a multiple of the channel's; None if the channel has no rate.
    """

    channels: tuple[str, ...]
    characters: int
    changed: int
    rate: float | None


@dataclass(frozen=True)
class Record:
    """The record of a restoration.

    Attributes:
        format: Name and version of this format.
        lost: What each mark stands for, a value of the option ``lost``.
        unit: Unit of the counts: ``byte``, ``character`` or ``correction``.
        lost_by: If marks are characters, the encoding that lost them, or None if no known encoding has them all.
        encoding: Encoding that the document was read in; ``origin`` counts the bytes of its text in UTF-8.
        notices: Statements for the user.
        global_weight_suffices: True if a global weight would have restored about as much; None if unknown.
        out_of_time: The stage that the time limit interrupted, or None. In ``decoding``, pieces that were not reached
            are unfilled, or, if all were reached, decoded in fewer iterations; in ``rescoring``, the language models
            have no effect; in ``alternatives``, there are none; in ``correcting``, lines that were not reached are
            unchanged.
        experts: Names of the experts.
        precision: Expert -> the number format of its arithmetic, such as ``bfloat16``, for pretrained experts.
        memory: Index of the memory among the experts; None if there is none.
        references: Texts that bytes were copied from, the most used first.
        summary: Counts of the whole document.
        cost: Cost of the restoration.
        field: Curves along the document.
        pieces: The document in pieces.
        correction: Counts of a text that was corrected; None if lost text was restored.
    """

    format: str
    lost: str
    unit: str
    lost_by: str | None
    encoding: str
    notices: tuple[Notice, ...]
    global_weight_suffices: bool | None
    out_of_time: str | None
    experts: tuple[str, ...]
    precision: dict[str, str]
    memory: int | None
    references: tuple[Reference, ...]
    summary: Summary
    cost: RecordedCost
    field: Curves
    pieces: tuple[Piece, ...]
    correction: CorrectionCounts | None = None

    @property
    def text(self) -> str:
        """The document."""
        return "".join(piece.text for piece in self.pieces)

    def to_dict(self) -> dict[str, Any]:
        """Return the record and the text as plain values."""
        return {**to_plain(self), "text": self.text}

    def to_json(self) -> str:
        """Return the record and the text as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_dict(cls, value: Any) -> "Record":
        """Return the record that ``to_dict`` converted; other entries at the top level are ignored.

        Raises:
            ConservatorError: the value is not a record of this version.
        """
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise ConservatorError(f"expected a record with the format {FORMAT!r}")
        entries = {name: item for name, item in value.items() if name in cls.__dataclass_fields__}
        record = from_plain(cls, entries, "record")
        record.check()
        return record

    @classmethod
    def from_json(cls, text: str | bytes) -> "Record":
        """Return the record that ``to_json`` wrote; raise a ConservatorError if it is invalid."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConservatorError(f"the record is not JSON: {error}") from error
        return cls.from_dict(value)

    def check(self) -> None:
        """Raise a ConservatorError if parts of the record contradict each other."""
        experts, references = len(self.experts), len(self.references)
        _check(self.memory is None or 0 <= self.memory < experts, "memory is not an index of an expert")
        _check(len(self.summary.weights) == experts, "summary.weights has not one value for each expert")
        done = 0
        for piece in self.pieces:
            is_edit = piece.origin is not None
            position = f"the piece at position {piece.at[0]}"
            _check(piece.at[0] == done <= piece.at[1], f"{position} does not follow the piece before it")
            _check(piece.expert is None or 0 <= piece.expert < experts, f"{position} has an unknown expert")
            done = piece.at[1]
            text, parts = (
                piece.guess,
                (piece.confidence, piece.sources, piece.weights, piece.alternatives, piece.counts),
            )
            complete = text is not None and piece.probability is not None and None not in parts
            _check(is_edit == (complete and piece.unfilled is not None), f"{position} is an incomplete edit")
            length = len(_encode(text if text is not None else piece.text))
            _check(length == piece.at[1] - piece.at[0], f"{position} has a text of another length")
            _encode(piece.text)
            if piece.origin is None or text is None or piece.confidence is None or piece.sources is None:
                continue
            _check(0 <= piece.origin[0] < piece.origin[1] or piece.observed is not None, f"{position} has no origin")
            _check(len(text) == len(piece.confidence) == len(piece.sources), f"{position} lacks confidences or sources")
            _check(len(piece.weights or ()) == experts, f"{position} has not one weight for each expert")
            for source in piece.sources:
                valid = source is None or source[0] is None or 0 <= source[0] < references
                _check(valid, f"{position} has an unknown reference")
        _check(done == self.summary.bytes, "the pieces do not have as many bytes as the summary")
        edges, curves = self.field.edges, [*self.field.weights, self.field.lost_fraction]
        curves += [self.field.provenance] if self.memory is not None else []
        bins = len(edges) - 1
        _check(
            bins >= 0 and list(edges) == sorted(edges) and edges[-1] == done, "field.edges are not the bins of the text"
        )
        _check(len(self.field.weights) == experts, "field.weights has not one curve for each expert")
        _check(all(len(curve) == bins for curve in curves), "a curve has not one value for each bin")


def _check(valid: bool, problem: str) -> None:
    if not valid:
        raise ConservatorError(f"the record is inconsistent: {problem}")


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ConservatorError("the record is inconsistent: a text has an unpaired surrogate") from error
