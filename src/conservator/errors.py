"""Exceptions with messages for users."""

from collections.abc import Callable
from typing import NamedTuple


class Advice(NamedTuple):
    """An option that solves the problem: its name in ``RestoreOptions``, a value, and the effect of that value."""

    option: str
    value: str
    effect: str


class ConservatorError(ValueError):
    """Invalid input. The message states the problem, its position, and the accepted input.

    Attributes:
        problem: the message without the advice.
        advice: options that solve the problem. The command line and the web page format their names differently.
    """

    def __init__(self, problem: str, *advice: Advice) -> None:
        """Store the problem and the advice."""
        super().__init__(problem)
        self.problem, self.advice = problem, advice

    def __str__(self) -> str:
        """Return the message with options named as keyword arguments."""
        return self.format_message(lambda advice: f"{advice.option}={advice.value!r}")

    def format_message(self, name: Callable[[Advice], str]) -> str:
        """Return the message with options named by ``name``."""
        return "; ".join([self.problem, *(f"{name(advice)} {advice.effect}" for advice in self.advice)])


class OptionError(ConservatorError):
    """An option has an invalid value.

    Attributes:
        option: the name of the option in ``RestoreOptions``.
        problem: the invalid value, and the accepted values.
    """

    def __init__(self, option: str, problem: str) -> None:
        """Store the option and the problem."""
        super().__init__(problem)
        self.option = option
        self.args = (option, problem)  # workers send errors as pickles, which call this method with ``args``

    def __str__(self) -> str:
        """Return the option and the problem."""
        return f"{self.option}: {self.problem}"


class TooSlowError(ConservatorError):
    """The time limit ended before any byte was restored. The message states the stage that was reached."""


class NotTextError(ConservatorError):
    """A file is not text. The message states its file type."""
