"""What a baseline came to: how to compose, which experts, and how they read while they decode."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from conservator.decoders.predict import Reading
from conservator.experts.expert import Expert
from conservator.field.infer import Inferred
from conservator.studies.baselines.setting import Setting


@dataclass(frozen=True)
class Answer:
    """All that a decoder needs of a baseline.

    Attributes:
        inferred: the composition of ``experts``, and what it cost to come to it.
        experts: those that are composed.
        reading: how they read while they decode.
    """

    inferred: Inferred
    experts: Sequence[Expert]
    reading: Reading | None = None


Baseline = Callable[[Setting], Answer]


def composed(infer: Callable[[Setting], Inferred], reading: Reading | None = None) -> Baseline:
    """A baseline that composes the experts of the setting as ``infer`` says."""
    return lambda setting: Answer(infer(setting), setting.experts, reading)
