"""The exceptions whose messages are written for users."""


class ConservatorError(ValueError):
    """Bad input: the message says what was wrong, where, and what would be accepted."""


class OptionError(ConservatorError):
    """An option has an invalid value.

    Attributes:
        option: its name in ``RestoreOptions``.
        problem: what is wrong with its value, and what would be accepted.
    """

    def __init__(self, option: str, problem: str) -> None:
        """Name the option and the problem."""
        super().__init__(f"{option}: {problem}")
        self.option, self.problem = option, problem
