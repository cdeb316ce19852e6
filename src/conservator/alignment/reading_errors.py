"""Errors of one reading of a text: what an OCR engine, or a copyist, makes of each character.

With n(c, o) the expected number of times that the clean character c was observed as o (nothing, if it was deleted), and
b the probabilities of its class, such as digits, the probability of an observation is

    p(o | c) = (n(c, o) + strength * b(o | class of c)) / (n(c) + strength)

Characters are inserted with probability i(o) after each character. A second deletion or insertion in a row has a higher
probability than the first one. A mark in the observed text stands for any character, at no cost.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import log
from unicodedata import category, normalize

from rapidfuzz.distance import Levenshtein

from conservator.documents import GAP_SYMBOL, LOST_SYMBOL, LOST_SYMBOLS

ErrorEvent = tuple[str, str]  # (clean, observed) characters; one of them is empty for a deletion or an insertion
LONGER = "longer"  # event of a run, instead of its second and later characters
# characters: number of a class that an unseen error may be [untuned]
CLASS_SIZES = {"a": 30, "é": 20, "A": 30, "0": 10, " ": 2, ".": 20, "?": 100}


@dataclass(frozen=True)
class ReadingErrorsConfig:
    """Parameters of the errors of a reading."""

    strength: float = 60.0  # count: weight of the class of a clean character [LOG: several-readings]
    class_strength: float = 60.0  # count: weight of all characters in that of a class [LOG: several-readings]
    # count: the same for digits, which the prior of the text cannot predict [LOG: several-readings]
    digit_strength: float = 10_000.0
    plain: float = 0.5  # probability: that a wrong accented letter lost its accent [untuned]
    error_strength: float = 3.0  # count: weight of the classes among the errors of a character [untuned]
    prior_rate: float = 0.05  # probability: prior of an error [untuned]
    longer_delete: float = 0.3  # probability: prior of a longer run of deletions [LOG: several-readings]
    longer_insert: float = 0.7  # probability: the same of insertions [LOG: several-readings]
    log_inserted_mark: float = -20.0  # nats: of a mark where no character was lost [untuned]
    delete_strength: float = 30.0  # count: weight of the prior of longer deletions [LOG: several-readings]
    insert_strength: float = 5.0  # count: weight of the prior of longer insertions [untuned]


CONFIG = ReadingErrorsConfig()


@cache
def plain(character: str) -> str:
    """Return a character without its diacritics."""
    return normalize("NFD", character)[0]


@cache
def class_of(character: str) -> str:
    """Return the class of a character; the empty text is its own class."""
    kind = category(character) if character else ""
    if kind == "Ll" and plain(character) != character:
        return "é"
    names = {"Ll": "a", "Lo": "a", "Lu": "A", "Lt": "A", "Nd": "0", "Zs": " ", "Cc": " ", "": ""}
    return names.get(kind, "." if kind.startswith("P") else "?")


@dataclass(frozen=True)
class ReadingErrors:
    """Error model of a reading.

    Attributes:
        counts: ErrorEvent -> its expected number, including unchanged characters.
    """

    counts: Mapping[ErrorEvent, float]
    scores: dict[ErrorEvent, float] = field(default_factory=dict, repr=False)

    @cached_property
    def totals(self) -> "defaultdict[tuple[str, str, str], float]":
        """Sums of the counts by clean character or class, and outcome or class."""
        totals: defaultdict[tuple[str, str, str], float] = defaultdict(float)
        for (clean, observed), count in self.counts.items():
            if LONGER in (clean, observed):
                continue
            outcome = "keep" if clean == observed else "delete" if not observed else "replace" if clean else "insert"
            everything = "blank" if class_of(clean or observed) == " " else "all"
            for name in (f"={clean}", class_of(clean), everything):
                if clean or name == everything:
                    totals["", name, ""] += count
                totals["", name, outcome] += count
            if outcome == "replace":
                for name in (f"={clean}", class_of(clean)):
                    totals["replace", name, class_of(observed)] += count
            if outcome == "insert":
                totals["insert", "", class_of(observed)] += count
        return totals

    def outcome_prob(self, clean: str, outcome: str, observed: str = "") -> float:
        """Return the probability that a character is deleted or replaced, or that one is inserted after it."""
        totals, prior = self.totals, CONFIG.prior_rate / 3
        everything = "blank" if class_of(clean or observed) == " " else "all"
        value = (totals["", everything, outcome] + CONFIG.class_strength * prior) / (
            totals["", everything, ""] + CONFIG.class_strength
        )
        if outcome == "insert":
            return value
        class_strength = CONFIG.digit_strength if class_of(clean) == "0" else CONFIG.class_strength
        for name, strength in ((class_of(clean), class_strength), (f"={clean}", CONFIG.strength)):
            value = (totals["", name, outcome] + strength * value) / (totals["", name, ""] + strength)
        return value

    def observed_prob(self, clean: str, observed: str, outcome: str) -> float:
        """Return the probability of the observed character, given that it was replaced or inserted."""
        totals, kind = self.totals, class_of(observed)
        given = class_of(clean) if clean else ""
        kinds = {name: totals[outcome, given, name] for name in CLASS_SIZES}
        value = (kinds[kind] + 1) / (sum(kinds.values()) + len(kinds)) / CLASS_SIZES[kind]
        if clean and plain(clean) != clean:
            value = (1 - CONFIG.plain) * value + CONFIG.plain * (observed == plain(clean))
        total = totals["", f"={clean}", outcome] if clean else totals["", "all", outcome]
        if given == kind == "0":
            return value
        return (self.counts.get((clean, observed), 0.0) + CONFIG.error_strength * value) / (
            total + CONFIG.error_strength
        )

    def log_prob(self, event: ErrorEvent) -> float:
        """Return log p of an event."""
        if event not in self.scores:
            self.scores[event] = self._log_prob(*event)
        return self.scores[event]

    def _log_prob(self, clean: str, observed: str) -> float:
        if observed == LOST_SYMBOL and clean in ("", LONGER):
            return CONFIG.log_inserted_mark
        if clean and LOST_SYMBOLS.fullmatch(observed):
            return 0.0
        if LONGER in (clean, observed):
            kind = "insert" if clean == LONGER else "delete"
            runs = self.counts.get((clean, observed), 0.0)
            total = self.totals["", "all", kind]
            prior, strength = (
                (CONFIG.longer_delete, CONFIG.delete_strength)
                if kind == "delete"
                else (CONFIG.longer_insert, CONFIG.insert_strength)
            )
            longer = (runs + prior * strength) / (total + runs + strength)
            kinds = 0.0 if kind == "delete" else log(self.observed_prob("", observed, "insert"))
            return log(longer) + kinds
        if clean == observed:
            return log(max(1e-3, 1 - self.outcome_prob(clean, "delete") - self.outcome_prob(clean, "replace")))
        if not observed:
            return log(self.outcome_prob(clean, "delete"))
        outcome = "replace" if clean else "insert"
        return log(self.outcome_prob(clean, outcome, observed)) + log(self.observed_prob(clean, observed, outcome))

    def score(self, observed: str, clean: str) -> float:
        """Return log p(observed | clean) of a short text, with the fewest edits between both."""
        if GAP_SYMBOL in observed:
            return 0.0
        return sum(self.log_prob(event) for event in find_events(clean, observed))


@cache
def _cached_events(clean: str, observed: str) -> tuple[ErrorEvent, ...]:
    return tuple(_events(clean, observed))


def find_events(clean: str, observed: str) -> Iterable[ErrorEvent]:
    """Return the events that turn a clean text into the observed one."""
    return _cached_events(clean, observed)


def _events(clean: str, observed: str) -> Iterator[ErrorEvent]:
    for opcode in Levenshtein.opcodes(clean, observed):
        source, target = clean[opcode.src_start : opcode.src_end], observed[opcode.dest_start : opcode.dest_end]
        if source and target:  # equal or replaced, of the same length
            yield from zip(source, target, strict=True)
        elif source:
            yield source[0], ""
            yield from ((character, LONGER) for character in source[1:])
        else:
            yield "", target[0]
            yield from ((LONGER, character) for character in target[1:])
