"""Damaged words of plays: methods that restore them, and their scores."""

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

MARKED_RADIUS = 300  # characters: dots within this distance of a selected word are marks, too [untuned]
OTHER_DOT = "\u25cb"  # replaces all other dots, which are not restored
RESAMPLES = 2000  # resamples: of the bootstrap [untuned]
# dots: minimum and maximum number of dots in the words of each group [definition]
GROUPS = {"lone": (1, 1), "two": (2, 2), "more": (3, 99), "all": (1, 99)}


@dataclass(frozen=True)
class MarkedPlay:
    """A play with marks in the damaged words that a method restores.

    Attributes:
        play: the play.
        words: start and stop of each selected word.
        text: the damaged text; dots far from the selected words are replaced by OTHER_DOT.
    """

    play: Play
    words: tuple[tuple[int, int], ...]
    text: str

    @classmethod
    def of(cls, play: Play, words: Sequence[tuple[int, int]]) -> "MarkedPlay":
        """Mark the selected words of a play."""
        marked = np.zeros(len(play.damaged), dtype=bool)
        for start, stop in words:
            marked[max(0, start - MARKED_RADIUS) : stop + MARKED_RADIUS] = True
        text = [
            OTHER_DOT if char == DOT and not near else char for char, near in zip(play.damaged, marked, strict=True)
        ]
        return cls(play, tuple(sorted(words)), "".join(text))

    @property
    def dots(self) -> list[list[int]]:
        """Byte positions of the dots of each word, where a dot counts as one byte."""
        sizes = np.array([1 if char == DOT else len(char.encode()) for char in self.text])
        starts = np.cumsum(sizes) - sizes
        return [[int(starts[index]) for index in range(*word) if self.text[index] == DOT] for word in self.words]


@dataclass(frozen=True)
class FilledWord:
    """A restored word.

    Attributes:
        play: name of its play.
        start: position of its first character in the play.
        word: the damaged word.
        truth: the word of the editors.
        restored: the restored word.
        confidence: confidence of each of its dots.
    """

    play: str
    start: int
    word: str
    truth: str
    restored: str
    confidence: tuple[float, ...]

    @property
    def correct(self) -> tuple[bool, ...]:
        """Whether each dot was restored correctly."""
        letters = zip(self.word, self.truth, self.restored, strict=True)
        return tuple(truth == restored for dot, truth, restored in letters if dot == DOT)


Letters = list[tuple[str, list[float]]]  # for each word, the letters at its dots and their confidences
Method = Callable[[MarkedPlay], Letters]


@dataclass
class FilledWords:
    """Words that a method restored, and its CPU time."""

    filled: list[FilledWord] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, method: Method, marked: MarkedPlay) -> None:
        """Restore the selected words of a play and append them."""
        begin = time.process_time()
        letters = method(marked)
        self.seconds += time.process_time() - begin
        for (start, stop), (word_letters, confidence) in zip(marked.words, letters, strict=True):
            word, remaining = marked.play.damaged[start:stop], iter(word_letters)
            restored = "".join(next(remaining) if char == DOT else char for char in word)
            truth = marked.play.clean[start:stop]
            self.filled.append(FilledWord(marked.play.name, start, word, truth, restored, tuple(confidence)))


def fill_or_load(method: Method, plays: Iterable[MarkedPlay], path: Path) -> FilledWords:
    """Restore the selected words of ``plays`` and store them in ``path``, or load them if ``path`` exists."""
    if path.exists():
        record = json.loads(path.read_text())
        words = [FilledWord(**{**word, "confidence": tuple(word["confidence"])}) for word in record["filled"]]
        return FilledWords(words, record["seconds"])
    results = FilledWords()
    for marked in plays:
        results.add(method, marked)
    make_folder(path.parent)
    write_atomically(path, json.dumps(asdict(results)).encode())
    return results


def draw_words(plays: Sequence[Play], count: int, generator: np.random.Generator) -> list[MarkedPlay]:
    """Select ``count`` words: from each play the same number, or all of its words if it has fewer."""
    shuffled = [(play, generator.permutation(np.array(play.words, dtype=np.int64).reshape(-1, 2))) for play in plays]
    ranked = [(rank, number) for number, (_, words) in enumerate(shuffled) for rank in range(len(words))]
    selected = sorted(ranked)[:count]
    marked = []
    for number, (play, words) in enumerate(shuffled):
        play_count = sum(play_number == number for _, play_number in selected)
        if play_count:
            marked.append(MarkedPlay.of(play, [(int(start), int(stop)) for start, stop in words[:play_count]]))
    return marked


def by_restorer(restorer: Restorer, **options: Any) -> Method:
    """Restore words with the product; each dot is a lost byte."""

    def method(marked: MarkedPlay) -> Letters:
        restoration = restorer.restore(marked.text, mark=DOT, lost="bytes", **options)
        letters = []
        for dots in marked.dots:
            text = bytes(restoration.tokens[dots].tolist()).decode("latin-1")
            letters.append((text, restoration.confidence[dots].tolist()))
        return letters

    return method


def by_letter(letter: str, confidence: float) -> Method:
    """Use the same letter and confidence everywhere."""
    return lambda marked: [(letter * len(dots), [confidence] * len(dots)) for dots in marked.dots]


def by_frequency(usage: WordCounts, letter: str, letter_confidence: float) -> Method:
    """Use the most frequent word that matches; if no word matches, ``letter``."""

    def method(marked: MarkedPlay) -> Letters:
        letters = []
        for start, stop in marked.words:
            text, confidence = "", []
            pattern = marked.play.damaged[start:stop].encode().replace(DOT.encode(), bytes([HIDDEN_BYTE]))
            for token in WORD.finditer(pattern):
                lost = [offset for offset, byte in enumerate(token[0]) if byte == HIDDEN_BYTE]
                if not lost:
                    continue
                matches = usage.words.match(token[0])
                words = matches.words() if matches is not None else []
                counts = {word: usage.tables.unigrams.at(usage.ids[word]) for word in words}
                best = max(counts, key=lambda word: (counts[word], -usage.ids[word]), default=b"")
                text += bytes(best[offset] for offset in lost).decode("latin-1") if counts else letter * len(lost)
                confidence += [counts[best] / sum(counts.values()) if counts else letter_confidence] * len(lost)
            letters.append((text, confidence))
        return letters

    return method


def summarise_words(results: FilledWords, seed: int = 0) -> Row:
    """Compute the metrics of a method, with intervals from a bootstrap over plays."""
    names = sorted({word.play for word in results.filled})
    row: Row = {"lacunae": len(results.filled), "plays": len(names)}
    generator = np.random.default_rng(seed)
    drawn = generator.integers(len(names), size=(RESAMPLES, len(names)))
    for name, (min_dots, max_dots) in GROUPS.items():
        sums = np.zeros((len(names), 2))
        for word in results.filled:
            if min_dots <= len(word.correct) <= max_dots:
                sums[names.index(word.play)] += sum(word.correct), len(word.correct)
        row |= ratio(name, sums, drawn)
        row[f"{name}_dots"] = int(sums[:, 1].sum())
        if name == "lone" and sums[:, 1].any():
            nonempty = sums[sums[:, 1] > 0]
            row["alike"] = float((nonempty[:, 0] / nonempty[:, 1]).mean())
            without_largest = np.delete(nonempty, nonempty[:, 1].argmax(), axis=0).sum(axis=0)
            if without_largest[1]:  # one play may have as many dots as all other plays together
                row["others"] = float(without_largest[0] / without_largest[1])
    word_sums = np.zeros((len(names), 2))
    for word in results.filled:
        word_sums[names.index(word.play)] += all(word.correct), 1
    row |= ratio("words", word_sums, drawn)
    for name, max_dots in (("calibration_error", 99), ("calibration_error_lone", 1)):
        words = [word for word in results.filled if len(word.correct) <= max_dots]
        confidence = torch.tensor([value for word in words for value in word.confidence], dtype=torch.float64)
        correct = torch.tensor([value for word in words for value in word.correct], dtype=torch.bool)
        if len(correct):
            row[name] = calibration_error(confidence, correct)
    return row | {"seconds": results.seconds / max(1, len(results.filled))}


def ratio(name: str, sums: NDArray[np.float64], drawn: NDArray[np.int64]) -> Row:
    """Compute the ratio of the column sums of ``sums`` (plays, 2), with its interval; {} if the denominator is 0."""
    total = sums.sum(axis=0)
    if not total[1]:
        return {}
    resampled = sums[drawn].sum(axis=1)
    nonempty = resampled[resampled[:, 1] > 0]
    low, high = np.quantile(nonempty[:, 0] / nonempty[:, 1], [0.025, 0.975])
    return {name: float(total[0] / total[1]), f"{name}_low": float(low), f"{name}_high": float(high)}


def lone_difference(ours: FilledWords, theirs: FilledWords, seed: int = 0) -> Row:
    """Compute the difference of two methods in accuracy on lone dots, on the words that both restored."""
    by_position = {(word.play, word.start): word for word in theirs.filled}
    pairs = [
        (word.play, int(word.correct[0]) - int(by_position[word.play, word.start].correct[0]))
        for word in ours.filled
        if len(word.correct) == 1 and (word.play, word.start) in by_position
    ]
    names = sorted({play for play, _ in pairs})
    sums = np.zeros((len(names), 2))
    for play, difference in pairs:
        sums[names.index(play)] += difference, 1
    drawn = np.random.default_rng(seed).integers(len(names), size=(RESAMPLES, len(names)))
    return ratio("difference", sums, drawn)
