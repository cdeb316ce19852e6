"""The edit channel: a reader of pages that now and then takes some characters for others, drops or invents some.

An edit (clean, seen) reads ``clean`` as ``seen``: strings of at most LONGEST characters, of which one may be empty. A
clean text is read from left to right; at each place a character stays as it is or an edit takes the next characters:

    p_c(seen | clean) = sum over ways of reading clean as seen of the product of the probabilities of their steps

Probabilities are per place where an edit could be made, so the sum over all that may be seen is 1 on average only.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from conservator.errors import ConservatorError
from conservator.system.files import read_document

LONGEST = 3  # characters of either side of an edit
FORMAT = "conservator edit channel"
VERSION = 1
LEAST = 1e-9  # a probability below this is as good as none

Edit = tuple[str, str]


@dataclass(frozen=True)
class EditChannel:
    """How a reader of pages errs.

    Attributes:
        edits: (clean, seen) -> the probability of the edit where ``clean`` stands; the two differ. Those that are made
            most often come first: for each string that is seen, only the first of them are tried.
        stays: character -> the probability that it is read as it is.
        other: that of all other characters.
        source: what it was fitted to, in words.
    """

    edits: Mapping[Edit, float]
    stays: Mapping[str, float] = field(default_factory=dict)
    other: float = 0.99
    source: str = ""

    def __post_init__(self) -> None:
        """Raise an error for what is no channel."""
        for (clean, seen), value in self.edits.items():
            if clean == seen or max(len(clean), len(seen)) > LONGEST:
                raise ConservatorError(
                    f"the edit {clean!r} -> {seen!r}; two different strings of at most {LONGEST} characters are needed"
                )
            _check(value, f"of the edit {clean!r} -> {seen!r}")
        for character, value in self.stays.items():
            if len(character) != 1:
                raise ConservatorError(f"{character!r} stays as it is; a single character is needed")
            _check(value, f"that {character!r} stays as it is")
        _check(self.other, "that other characters stay as they are")

    def stay(self, character: str) -> float:
        """The probability that a character is read as it is."""
        return self.stays.get(character, self.other)

    @cached_property
    def by_seen(self) -> dict[str, list[tuple[str, float]]]:
        """What is seen -> the clean strings that it may stand for, with their probabilities; the commonest first."""
        found: dict[str, list[tuple[str, float]]] = {}
        for (clean, seen), value in self.edits.items():
            if value >= LEAST:
                found.setdefault(seen, []).append((clean, value))
        return found

    def at_rate(self, rate: float) -> "EditChannel":
        """The channel of a reader that errs ``rate`` times as often."""

        def stay(value: float) -> float:
            return max(0.5, 1 - rate * (1 - value))

        edits = {edit: min(1.0, rate * value) for edit, value in self.edits.items()}
        stays = {character: stay(value) for character, value in self.stays.items()}
        return EditChannel(edits, stays, stay(self.other), self.source)

    def corrupt(self, clean: str, generator: np.random.Generator) -> str:
        """Draw what is seen of a clean text."""
        by_clean: dict[str, list[tuple[str, float]]] = {}
        for (before, seen), value in self.edits.items():
            by_clean.setdefault(before, []).append((seen, value))
        invented = by_clean.get("", [])
        found, place = [], 0
        while place <= len(clean):
            found.append(_draw([("", max(0.0, 1 - sum(value for _, value in invented))), *invented], generator)[0])
            if place == len(clean):
                break
            steps = [((clean[place], 1), self.stay(clean[place]))]
            for size in range(1, min(LONGEST, len(clean) - place) + 1):
                steps += [((seen, size), value) for seen, value in by_clean.get(clean[place : place + size], [])]
            (seen, size), _ = _draw(steps, generator)
            found.append(seen)
            place += size
        return "".join(found)

    def to_json(self) -> str:
        """The channel as a file."""
        record = {
            "format": FORMAT,
            "version": VERSION,
            "source": self.source,
            "other": self.other,
            "stays": {key: float(f"{value:.4g}") for key, value in sorted(self.stays.items())},
            "edits": [[clean, seen, float(f"{value:.3g}")] for (clean, seen), value in self.edits.items()],
        }
        return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"

    @classmethod
    def from_json(cls, text: str, name: str = "the channel") -> "EditChannel":
        """The channel in a file."""
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConservatorError(f"{name} is no JSON: {error}") from error
        if not isinstance(record, dict) or record.get("format") != FORMAT or record.get("version") != VERSION:
            raise ConservatorError(f'{name} is no edit channel: a JSON object with "format": "{FORMAT}" is needed')
        try:
            edits = {(str(clean), str(seen)): _number(value) for clean, seen, value in record["edits"]}
            stays = {str(key): _number(value) for key, value in record["stays"].items()}
            return cls(edits, stays, _number(record["other"]), str(record.get("source", "")))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConservatorError(f"{name} is no edit channel: edits, stays and other are needed ({error})") from error
        except ConservatorError as error:
            raise ConservatorError(f"{name} is no edit channel: {error}") from error

    @classmethod
    def read(cls, path: Path) -> "EditChannel":
        """The channel in a file."""
        return cls.from_json(read_document(str(path)).decode(errors="replace"), str(path))


def _draw(options: list[tuple[Any, float]], generator: np.random.Generator) -> tuple[Any, float]:
    """One of some options by their probabilities, which are made to sum to 1."""
    weights = np.array([value for _, value in options])
    return options[int(generator.choice(len(options), p=weights / weights.sum()))]


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def _check(value: float, of: str) -> None:
    if not 0 <= value <= 1:
        raise ConservatorError(f"the probability {value} {of}; one from 0 to 1 is needed")
