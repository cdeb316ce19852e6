"""The exceptions whose messages are written for users."""

from collections.abc import Callable
from typing import NamedTuple


class Advice(NamedTuple):
    """An option that helps: its name in ``RestoreOptions``, a value, and what that does."""

    option: str
    value: str
    effect: str


class ConservatorError(ValueError):
    """Bad input: the message says what was wrong, where, and what would be accepted.

    Attributes:
        problem: the message without the advice.
        advice: options that help, which the command and the page call by other names.
    """

    def __init__(self, problem: str, *advice: Advice) -> None:
        """Say what is wrong, and what helps."""
        super().__init__(problem)
        self.problem, self.advice = problem, advice

    def __str__(self) -> str:
        """The message for those who call the library."""
        return self.worded(lambda one: f"{one.option}={one.value!r}")

    def worded(self, name: Callable[[Advice], str]) -> str:
        """The message, with options called as ``name`` says."""
        return "; ".join([self.problem, *(f"{name(one)} {one.effect}" for one in self.advice)])


class OptionError(ConservatorError):
    """An option has an invalid value.

    Attributes:
        option: its name in ``RestoreOptions``.
        problem: what is wrong with its value, and what would be accepted.
    """

    def __init__(self, option: str, problem: str) -> None:
        """Name the option and the problem."""
        super().__init__(problem)
        self.option = option

    def __str__(self) -> str:
        """The option and the problem."""
        return f"{self.option}: {self.problem}"


class TooSlowError(ConservatorError):
    """Nothing was restored in the time that was allowed: the message says how far it got."""


class NotTextError(ConservatorError):
    """A file is not text: the message says what it is."""
