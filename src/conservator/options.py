"""Every option of a restoration, with its default and what it accepts: for the API, the command line and the page."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conservator.errors import OptionError

if TYPE_CHECKING:
    from conservator.channels import Channel

EXPERTS = ("prose", "code", "config")  # whom a restoration asks, if nobody is named
LOST = ("marked", "invalid")
LONGEST_GAP = 256  # bytes: the largest max_gap of the command line and the page
SHOWN_ALTERNATIVES = 4  # joint fills of each gap that a report shows, if no number is given
LARGEST_SEED = 10**12


@dataclass(frozen=True)
class RestoreOptions:
    """How a document is restored.

    Attributes:
        mark: stands for one lost byte.
        gap: stands for a stretch of unknown length, such as ``"[...]"``; None for no such thing.
        max_gap: the longest such stretch, in bytes.
        lost: what is lost: what is ``marked``, or bytes that are not UTF-8 as well (``invalid``).
        channel: how the document was damaged: ``mask`` (marked bytes are lost, all others right), ``replacement:RATE``
            (any byte may be wrong), or a Channel.
        min_confidence: a restored byte that is less sure than this is left as it was.
        alternatives: how many joint fills to give of each gap; the text then has the best of them.
        seed: what everything random follows from.
        near: how far from damage text is asked which expert to trust, in bytes; None asks all of it.
    """

    mark: str = "\ufffd"
    gap: str | None = None
    max_gap: int = 32
    lost: str = "marked"
    channel: "str | Channel" = "mask"
    min_confidence: float = 0.0
    alternatives: int = 0
    seed: int = 0
    near: int | None = 256

    def __post_init__(self) -> None:
        """A clear error for a value that makes no sense."""
        for name in ("mark", "gap"):
            sign = getattr(self, name)
            if sign is not None or name == "mark":
                _check(isinstance(sign, str) and sign != "", name, f"{sign!r}; it must be at least one character")
        _check(self.gap != self.mark, "gap", f"{self.gap!r}, as the mark; they must differ")
        _check(_whole(self.max_gap) and self.max_gap >= 1, "max_gap", f"{self.max_gap!r}; at least 1 is needed")
        _check(self.lost in LOST, "lost", f"{self.lost!r}; known: {', '.join(LOST)}")
        share = isinstance(self.min_confidence, int | float) and 0 <= self.min_confidence <= 1
        _check(share, "min_confidence", f"{self.min_confidence!r}; it must lie between 0 and 1")
        _check(
            _whole(self.alternatives) and self.alternatives >= 0,
            "alternatives",
            f"{self.alternatives!r}; it must be a whole number, not negative",
        )
        _check(_whole(self.seed), "seed", f"{self.seed!r}; it must be a whole number")
        near = self.near is None or (_whole(self.near) and self.near >= 0)
        _check(near, "near", f"{self.near!r}; it must be a number of bytes, or None")


def expert_names(experts: str | Sequence[Any] | None) -> list[Any]:
    """Experts as a list: names and folders as they are, ``"prose,code"`` taken apart, the usual ones for None."""
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


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


DEFAULTS = RestoreOptions()
NAMES = tuple(field.name for field in fields(RestoreOptions))
