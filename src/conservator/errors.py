"""The one exception that speaks to the user."""


class ConservatorError(ValueError):
    """Bad input: the message says what was wrong, where, and what would be accepted."""
