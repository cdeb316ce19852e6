"""Damaged words of plays, how they are restored one way or another, and how well."""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from conservator import Restorer
from conservator.experts.word_ngram import HIDDEN_BYTE, WORD, WordCounts
from conservator.system.files import make_folder, write_atomically
from conservator_studies.metrics import calibration_error
from conservator_studies.plays import DOT, Play
from conservator_studies.result import Row

NEAR = 300  # characters: dots that are so near to a word that is asked for are marks, too
OTHER = "\u25cb"  # stands for the dots farther away, which are not asked for
RESAMPLES = 2000
BINS = 15  # of the calibration error
GROUPS = {"lone": (1, 1), "two": (2, 2), "more": (3, 99), "all": (1, 99)}  # by the number of dots in a word


@dataclass(frozen=True)
class Page:
    """A play, some of whose damaged words are asked for.

    Attributes:
        play: the play.
        words: where each of these words begins and ends.
        text: the play with dots in and near these words.
    """

    play: Play
    words: tuple[tuple[int, int], ...]
    text: str

    @classmethod
    def of(cls, play: Play, words: Sequence[tuple[int, int]]) -> "Page":
        """The page on which some words are asked for."""
        asked = np.zeros(len(play.damaged), dtype=bool)
        for start, stop in words:
            asked[max(0, start - NEAR) : stop + NEAR] = True
        text = [OTHER if one == DOT and not near else one for one, near in zip(play.damaged, asked, strict=True)]
        return cls(play, tuple(sorted(words)), "".join(text))

    @property
    def dots(self) -> list[list[int]]:
        """For each word, where its dots stand in the text as bytes, a dot being one byte."""
        sizes = np.array([1 if one == DOT else len(one.encode()) for one in self.text])
        place = np.cumsum(sizes) - sizes
        return [[int(place[at]) for at in range(*word) if self.text[at] == DOT] for word in self.words]


@dataclass(frozen=True)
class Filled:
    """A word that was filled in.

    Attributes:
        play: the name of its play.
        place: where it begins there.
        word: as it is damaged.
        truth: as the editors have it.
        found: as it was filled in.
        confidence: of each of its dots.
    """

    play: str
    place: int
    word: str
    truth: str
    found: str
    confidence: tuple[float, ...]

    @property
    def right(self) -> tuple[bool, ...]:
        """Whether each dot is right."""
        letters = zip(self.word, self.truth, self.found, strict=True)
        return tuple(truth == found for dot, truth, found in letters if dot == DOT)


Letters = list[tuple[str, list[float]]]  # for each word the letters at its dots, and the confidence of each
Method = Callable[[Page], Letters]


@dataclass
class Answers:
    """What a method made of words, and the time that it took."""

    filled: list[Filled] = field(default_factory=list)
    seconds: float = 0.0

    def ask(self, method: Method, page: Page) -> None:
        """Let a method fill in the words of a page."""
        begin = time.process_time()
        letters = method(page)
        self.seconds += time.process_time() - begin
        for (start, stop), (found, confidence) in zip(page.words, letters, strict=True):
            word, following = page.play.damaged[start:stop], iter(found)
            whole = "".join(next(following) if one == DOT else one for one in word)
            truth = page.play.clean[start:stop]
            self.filled.append(Filled(page.play.name, start, word, truth, whole, tuple(confidence)))


def answer(method: Method, pages: Iterable[Page], path: Path) -> Answers:
    """Let a method fill in the words of pages, and keep the answers; or read those that were kept."""
    if path.exists():
        record = json.loads(path.read_text())
        filled = [Filled(**{**one, "confidence": tuple(one["confidence"])}) for one in record["filled"]]
        return Answers(filled, record["seconds"])
    found = Answers()
    for page in pages:
        found.ask(method, page)
    make_folder(path.parent)
    write_atomically(path, json.dumps(asdict(found)).encode())
    return found


def draw_pages(plays: Sequence[Play], count: int, generator: np.random.Generator) -> list[Page]:
    """Pages with ``count`` words in all: as many of each play as it has, up to a number that is the same for all."""
    shuffled = [(play, generator.permutation(np.array(play.words, dtype=np.int64).reshape(-1, 2))) for play in plays]
    turns = [(turn, number) for number, (_, words) in enumerate(shuffled) for turn in range(len(words))]
    kept = sorted(turns)[:count]
    pages = []
    for number, (play, words) in enumerate(shuffled):
        own = sum(one == number for _, one in kept)
        if own:
            pages.append(Page.of(play, [(int(start), int(stop)) for start, stop in words[:own]]))
    return pages


def by_restorer(restorer: Restorer, **options: Any) -> Method:
    """Fill in words by the product: a dot is a lost byte."""

    def method(page: Page) -> Letters:
        found = restorer.restore(page.text, mark=DOT, lost="bytes", **options)
        letters = []
        for dots in page.dots:
            text = bytes(found.tokens[dots].tolist()).decode("latin-1")
            letters.append((text, found.confidence[dots].tolist()))
        return letters

    return method


def by_letter(letter: str, share: float) -> Method:
    """Fill in the same letter everywhere."""
    return lambda page: [(letter * len(dots), [share] * len(dots)) for dots in page.dots]


def by_frequency(usage: WordCounts, letter: str, share: float) -> Method:
    """Fill in the most frequent word that fits; where none does, a letter."""

    def method(page: Page) -> Letters:
        letters = []
        for start, stop in page.words:
            found, confidence = "", []
            pattern = page.play.damaged[start:stop].encode().replace(DOT.encode(), bytes([HIDDEN_BYTE]))
            for token in WORD.finditer(pattern):
                gone = np.flatnonzero(np.frombuffer(token[0], np.uint8) == HIDDEN_BYTE)
                if not len(gone):
                    continue
                fitting, numbers = usage.words.match(np.frombuffer(token[0], np.uint8))
                times = usage.tables.unigrams(numbers)
                best = int(times.argmax()) if len(times) else 0
                known = len(times) > 0
                found += bytes(fitting[best, gone].tolist()).decode("latin-1") if known else letter * len(gone)
                confidence += [float(times[best] / times.sum()) if known else share] * len(gone)
            letters.append((found, confidence))
        return letters

    return method


def summarise(answers: Answers, seed: int = 0) -> Row:
    """The figures of a method, with intervals by a bootstrap over plays."""
    names = sorted({one.play for one in answers.filled})
    row: Row = {"lacunae": len(answers.filled), "plays": len(names)}
    generator = np.random.default_rng(seed)
    drawn = generator.integers(len(names), size=(RESAMPLES, len(names)))
    for name, (least, most) in GROUPS.items():
        sums = np.zeros((len(names), 2))
        for one in answers.filled:
            if least <= len(one.right) <= most:
                sums[names.index(one.play)] += sum(one.right), len(one.right)
        row |= ratio(name, sums, drawn)
        row[f"{name}_dots"] = int(sums[:, 1].sum())
        if name == "lone" and sums[:, 1].any():
            some = sums[sums[:, 1] > 0]
            row["alike"] = float((some[:, 0] / some[:, 1]).mean())
            others = np.delete(some, some[:, 1].argmax(), axis=0).sum(axis=0)
            if others[1]:  # one play may have as many dots as all others together
                row["others"] = float(others[0] / others[1])
    words = np.zeros((len(names), 2))
    for one in answers.filled:
        words[names.index(one.play)] += all(one.right), 1
    row |= ratio("words", words, drawn)
    for name, most in (("calibration_error", 99), ("calibration_error_lone", 1)):
        kept = [one for one in answers.filled if len(one.right) <= most]
        confidence = torch.tensor([value for one in kept for value in one.confidence], dtype=torch.float64)
        right = torch.tensor([value for one in kept for value in one.right], dtype=torch.bool)
        if len(right):
            row[name] = calibration_error(confidence, right, BINS)
    return row | {"seconds": answers.seconds / max(1, len(answers.filled))}


def ratio(name: str, sums: NDArray[np.float64], drawn: NDArray[np.int64]) -> Row:
    """The share (of the first column in the second) over plays (n, 2), with its interval; nothing if there is none."""
    total = sums.sum(axis=0)
    if not total[1]:
        return {}
    again = sums[drawn].sum(axis=1)
    shares = again[again[:, 1] > 0]
    low, high = np.quantile(shares[:, 0] / shares[:, 1], [0.025, 0.975])
    return {name: float(total[0] / total[1]), f"{name}_low": float(low), f"{name}_high": float(high)}


def lone_difference(ours: Answers, theirs: Answers, seed: int = 0) -> Row:
    """By how much more of the lone dots one method gets right than another, on the words of both."""
    other = {(one.play, one.place): one for one in theirs.filled}
    pairs = [
        (one.play, int(one.right[0]) - int(other[one.play, one.place].right[0]))
        for one in ours.filled
        if len(one.right) == 1 and (one.play, one.place) in other
    ]
    names = sorted({play for play, _ in pairs})
    sums = np.zeros((len(names), 2))
    for play, difference in pairs:
        sums[names.index(play)] += difference, 1
    drawn = np.random.default_rng(seed).integers(len(names), size=(RESAMPLES, len(names)))
    return ratio("difference", sums, drawn)
