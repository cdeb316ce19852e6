"""What a baseline arrives at: a composition, the experts that are composed, and what they read while they decode."""

from collections.abc import Callable
from dataclasses import dataclass

from conservator.decoders import Reading
from conservator.experts import Team
from conservator.field import Inferred
from conservator_studies.baselines.setting import Setting


@dataclass(frozen=True)
class Composed:
    """All that a decoder needs of a baseline.

    Attributes:
        inferred: the composition of the team, and what it cost to infer it.
        team: the experts that are composed.
        reading: what they are shown while they decode; None for everything that is visible.
    """

    inferred: Inferred
    team: Team
    reading: Reading | None = None


Baseline = Callable[[Setting], Composed]


def composing(infer: Callable[[Setting], Inferred], reading: Reading | None = None) -> Baseline:
    """The baseline that composes the team of a setting as ``infer`` says."""
    return lambda setting: Composed(infer(setting), setting.team, reading)
