"""Result of a baseline: a composition, the experts, and the text that they condition on during decoding."""

from collections.abc import Callable
from dataclasses import dataclass

from conservator.decoders import Reading
from conservator.experts import Team
from conservator.field import Inferred
from conservator_studies.baselines.setting import Setting


@dataclass(frozen=True)
class Composed:
    """Input of a decoder, as a baseline returns it.

    Attributes:
        inferred: composition of the team, and the cost of inference.
        team: the experts that are composed.
        context_policy: text that each expert conditions on during decoding; None for all visible text.
    """

    inferred: Inferred
    team: Team
    context_policy: Reading | None = None


Baseline = Callable[[Setting], Composed]


def composing(infer: Callable[[Setting], Inferred], context_policy: Reading | None = None) -> Baseline:
    """Make a baseline that composes the team of a setting with the weights that ``infer`` returns."""
    return lambda setting: Composed(infer(setting), setting.team, context_policy)
