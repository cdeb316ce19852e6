"""The edit channel: an OCR engine that substitutes, deletes and inserts characters.

An edit (clean, observed) replaces the string ``clean`` by ``observed``. Both have at most MAX_EDIT_CHARS characters;
one of them may be empty. A clean text is read from left to right; at each position a character is kept, or an edit
consumes the next characters:

    p_c(observed | clean) = sum over paths from clean to observed of the product of the probabilities of their arcs

Probabilities are per position where an edit is possible, so the sum over all observed texts is 1 on average only.
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

MAX_EDIT_CHARS = 3  # characters: longest side of an edit [untuned]
FORMAT = "conservator edit channel"
VERSION = 1  # version: of the file format [definition]
MIN_EDIT_PROB = 1e-9  # probability: edits below this are ignored [numerical]
MIN_KEEP_PROB = 0.5  # probability: lower bound of keep probabilities after scaling [untuned]

Edit = tuple[str, str]  # clean, observed


@dataclass(frozen=True)
class EditChannel:
    """The errors of an OCR engine.

    Attributes:
        edits: (clean, observed) -> the probability of the edit where ``clean`` occurs; the two differ. The edits with
            the most occurrences come first: for each observed string, only the first edits are tried.
        keep_probs: character -> the probability that it is observed correctly.
        default_keep_prob: this probability for all other characters.
        source: the data that the channel was fitted to, in words.
    """

    edits: Mapping[Edit, float]
    keep_probs: Mapping[str, float] = field(default_factory=dict)
    default_keep_prob: float = 0.99
    source: str = ""

    def __post_init__(self) -> None:
        """Check the edits and the probabilities."""
        for (clean, observed), value in self.edits.items():
            if clean == observed or max(len(clean), len(observed)) > MAX_EDIT_CHARS:
                raise ConservatorError(
                    f"the edit {clean!r} -> {observed!r} must have two different strings of at most {MAX_EDIT_CHARS} "
                    "characters"
                )
            _check_prob(value, f"of the edit {clean!r} -> {observed!r}")
        for character, value in self.keep_probs.items():
            if len(character) != 1:
                raise ConservatorError(f"keep probabilities are for single characters, got {character!r}")
            _check_prob(value, f"to keep {character!r}")
        _check_prob(self.default_keep_prob, "to keep other characters")

    def keep_prob(self, character: str) -> float:
        """Return the probability that a character is observed correctly."""
        return self.keep_probs.get(character, self.default_keep_prob)

    @cached_property
    def by_observed(self) -> dict[str, list[tuple[str, float]]]:
        """Observed string -> the clean strings of its edits with their probabilities, the most frequent first."""
        clean_strings: dict[str, list[tuple[str, float]]] = {}
        for (clean, observed), value in self.edits.items():
            if value >= MIN_EDIT_PROB:
                clean_strings.setdefault(observed, []).append((clean, value))
        return clean_strings

    def scale_error_rate(self, factor: float) -> "EditChannel":
        """Return the channel with all error probabilities multiplied by ``factor``."""

        def keep(value: float) -> float:
            return max(MIN_KEEP_PROB, 1 - factor * (1 - value))

        edits = {edit: min(1.0, factor * value) for edit, value in self.edits.items()}
        keep_probs = {character: keep(value) for character, value in self.keep_probs.items()}
        return EditChannel(edits, keep_probs, keep(self.default_keep_prob), self.source)

    def corrupt(self, clean: str, generator: np.random.Generator) -> str:
        """Draw an observed text for a clean text."""
        by_clean: dict[str, list[tuple[str, float]]] = {}
        for (before, observed), value in self.edits.items():
            by_clean.setdefault(before, []).append((observed, value))
        insertions = by_clean.get("", [])
        parts, position = [], 0
        while position <= len(clean):
            no_insertion = ("", max(0.0, 1 - sum(value for _, value in insertions)))
            parts.append(_draw([no_insertion, *insertions], generator)[0])
            if position == len(clean):
                break
            arcs = [((clean[position], 1), self.keep_prob(clean[position]))]
            for size in range(1, min(MAX_EDIT_CHARS, len(clean) - position) + 1):
                edits = by_clean.get(clean[position : position + size], [])
                arcs += [((observed, size), value) for observed, value in edits]
            (observed, size), _ = _draw(arcs, generator)
            parts.append(observed)
            position += size
        return "".join(parts)

    def to_json(self) -> str:
        """Return the channel as a JSON file."""
        record = {
            "format": FORMAT,
            "version": VERSION,
            "source": self.source,
            "other": self.default_keep_prob,
            "stays": {key: float(f"{value:.4g}") for key, value in sorted(self.keep_probs.items())},
            "edits": [[clean, observed, float(f"{value:.3g}")] for (clean, observed), value in self.edits.items()],
        }
        return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"

    @classmethod
    def from_json(cls, text: str, name: str = "the channel") -> "EditChannel":
        """Parse the JSON of a channel."""
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConservatorError(f"{name} is not JSON: {error}") from error
        if not isinstance(record, dict) or record.get("format") != FORMAT or record.get("version") != VERSION:
            raise ConservatorError(f'{name} is not an edit channel: it must be a JSON object with "format": "{FORMAT}"')
        try:
            edits = {(str(clean), str(observed)): _number(value) for clean, observed, value in record["edits"]}
            keep_probs = {str(key): _number(value) for key, value in record["stays"].items()}
            return cls(edits, keep_probs, _number(record["other"]), str(record.get("source", "")))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConservatorError(
                f"{name} is not an edit channel: the keys edits, stays and other are required ({error})"
            ) from error
        except ConservatorError as error:
            raise ConservatorError(f"{name} is not an edit channel: {error}") from error

    @classmethod
    def read(cls, path: Path) -> "EditChannel":
        """Read the channel in a file."""
        return cls.from_json(read_document(str(path)).decode(errors="replace"), str(path))


def _draw(options: list[tuple[Any, float]], generator: np.random.Generator) -> tuple[Any, float]:
    """Draw an option with probability proportional to its weight."""
    weights = np.array([value for _, value in options])
    return options[int(generator.choice(len(options), p=weights / weights.sum()))]


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _check_prob(value: float, event: str) -> None:
    if not 0 <= value <= 1:
        raise ConservatorError(f"the probability {event} must be between 0 and 1, got {value}")
