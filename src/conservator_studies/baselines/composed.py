"""The result of a baseline: a composition, the experts, and which text they condition on during decoding."""

from collections.abc import Callable
from dataclasses import dataclass

from conservator.decoders import ContextPolicy
from conservator.experts import Team
from conservator.field import Inferred
from conservator_studies.baselines.setting import Setting


@dataclass(frozen=True)
class Composed:
    """Everything that a decoder needs from a baseline.

    Attributes:
        inferred: the composition of the team, and the cost of inferring it.
        team: the experts that are composed.
        reading: which text each expert conditions on during decoding; None for everything that is visible.
    """

    inferred: Inferred
    team: Team
    reading: ContextPolicy | None = None


Baseline = Callable[[Setting], Composed]


def composing(infer: Callable[[Setting], Inferred], reading: ContextPolicy | None = None) -> Baseline:
    """The baseline that composes the team of a setting by what ``infer`` returns."""
    return lambda setting: Composed(infer(setting), setting.team, reading)
