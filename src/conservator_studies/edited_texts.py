"""Inscriptions and papyri with lacunae that editors restored.

``damage/NAME.dev.jsonl.gz`` in the corpus folder has one text per line: ``damaged`` with U+FFFD for each lost
character, ``restored_by_editors``, and ``gaps`` with the start, the number of characters and the text of each lacuna.
Texts with an even hash of their id are for tuning, the others are reported. Restorations are proposals of editors.
"""

import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from conservator.errors import ConservatorError
from conservator_studies.corpora import find_file

FOLDER, SPLIT = "damage", "dev"
LANGUAGES = {"grc": "grc", "la": "la", "heb": "he"}  # language of a text -> that of the language corpora
MARK = "\ufffd"
NOT_TEXT = re.compile(r"\[[^\]]*\]|<[^>]*>|&[a-z]+;")  # unrestored lacunae, and markup


@dataclass(frozen=True)
class EditedText:
    """A text of a set.

    Attributes:
        name: id of the text.
        language: its language.
        damaged: the text with U+FFFD for each lost character.
        restored: the text with the restorations of the editors.
        lacunae: start and end of each lacuna, in characters of both.
    """

    name: str
    language: str
    damaged: str
    restored: str
    lacunae: tuple[tuple[int, int], ...]

    @property
    def hash(self) -> int:
        """Number that depends only on the id."""
        return int(hashlib.sha256(self.name.encode()).hexdigest()[:8], 16)

    @property
    def is_reported(self) -> bool:
        """Whether the text is reported; the others are for tuning."""
        return self.hash % 2 == 1

    def fold(self, count: int) -> int:
        """Return the fold of the text, of ``count``: its references are the texts of the other folds."""
        return self.hash // 2 % count

    @property
    def reference(self) -> str:
        """The restored text as a reference: without unrestored lacunae."""
        return NOT_TEXT.sub(" ", self.restored)

    def in_leiden(self) -> tuple[str, list[int]]:
        """Return the text with its lacunae as dots in square brackets, and the first byte of the dots of each."""
        text, starts, done = b"", [], 0
        for start, stop in self.lacunae:
            text += self.damaged[done:start].encode() + b"["
            starts.append(len(text))
            text += b"." * (stop - start) + b"]"
            done = stop
        return (text + self.damaged[done:].encode()).decode(), starts


def read_set(corpora: Path, name: str) -> list[EditedText]:
    """Read the texts of a set in the languages of LANGUAGES."""
    path = find_file(corpora / FOLDER, name, SPLIT)
    if path is None:
        raise ConservatorError(f"there is no {FOLDER}/{name}.{SPLIT}.jsonl.gz in {corpora}")
    texts = []
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            if entry["lang"] in LANGUAGES:
                lacunae = tuple((gap["start"], gap["start"] + gap["len"]) for gap in entry["gaps"])
                texts.append(
                    EditedText(entry["id"], entry["lang"], entry["damaged"], entry["restored_by_editors"], lacunae)
                )
    return texts


def read_language(corpora: Path, language: str, max_characters: int) -> list[str]:
    """Read texts of a language of the training split, at most ``max_characters``; none if there is no such file."""
    path = find_file(corpora / "languages", LANGUAGES[language], "train")
    texts: list[str] = []
    if path is None:
        return texts
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if sum(map(len, texts)) >= max_characters:
                break
            texts.append(json.loads(line)["text"])
    return texts


@dataclass(frozen=True)
class Sampled:
    """A text, and the numbers of its lacunae that are scored."""

    text: EditedText
    numbers: tuple[int, ...]


def sample_lacunae(
    texts: Sequence[EditedText], count: int, max_characters: int, per_text: int, generator: np.random.Generator
) -> list[Sampled]:
    """Draw texts until they have ``count`` lacunae of at most ``max_characters``, and at most ``per_text`` of each."""
    sampled, total = [], 0
    for index in generator.permutation(len(texts)).tolist():
        text = texts[index]
        fitting = [number for number, (start, stop) in enumerate(text.lacunae) if stop - start <= max_characters]
        drawn = sorted(generator.permutation(fitting)[: min(per_text, count - total)].tolist())
        if drawn:
            sampled.append(Sampled(text, tuple(int(number) for number in drawn)))
            total += len(drawn)
        if total >= count:
            break
    return sampled


def most_frequent(references: Sequence[str], left: str, right: str, length: int, count: int) -> list[tuple[str, float]]:
    """Return the most frequent strings of a length in references, between the longest context that occurs there.

    The context has k characters before and k after the lacuna, with k from 4 to 0; strings with a longer context come
    first. The probability of a string is its share among the strings with the longest context.
    """
    listed: dict[str, float] = {}
    text = "\n".join(references)
    for size in (4, 3, 2, 1, 0):
        before, after = left[len(left) - size :] if size else "", right[:size]
        if len(before) < size or len(after) < size or MARK in before + after:
            continue
        pattern = re.compile(f"{re.escape(before)}(?=([^\\n]{{{length}}}){re.escape(after)})")
        counts, is_longest = Counter(match[1] for match in pattern.finditer(text)), not listed
        for string, number in counts.most_common(count):
            listed.setdefault(string, number / counts.total() if is_longest else 0.0)
        if len(listed) >= count:
            break
    return list(listed.items())[:count]
