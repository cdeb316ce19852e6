"""The exceptions that speak to the user."""


class ConservatorError(ValueError):
    """Bad input: the message says what was wrong, where, and what would be accepted."""


class OptionError(ConservatorError):
    """An option with a value that makes no sense.

    Attributes:
        option: its name, as ``RestoreOptions`` has it.
        problem: what is wrong with its value, and what would be accepted.
    """

    def __init__(self, option: str, problem: str) -> None:
        """Name the option and the problem."""
        super().__init__(f"{option}: {problem}")
        self.option, self.problem = option, problem
