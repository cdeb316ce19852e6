"""Damage to spaces, letter case and line ends, for tests of their restoration."""

import re

import numpy as np

LINE_WIDTH = 65  # characters: of the lines in which words are broken [definition]
MIN_PART = 2  # letters: of a word before and after a break [definition]
INSERTED_SHARE = 0.1  # ratio: inserted spaces to removed spaces, if few are removed [definition]


def corrupt_spaces(clean: str, rate: float, generator: np.random.Generator) -> str:
    """Remove each space with the probability ``rate``, and insert spaces into words.

    The expected number of inserted spaces is rate (1 - rate) / 10 of the number of spaces; with the rate 1, all spaces
    are removed and none is inserted.
    """
    letters = sum(character.isalpha() for character in clean)
    inserted = INSERTED_SHARE * rate * (1 - rate) * clean.count(" ") / max(1, letters)
    draws = generator.random(len(clean))
    pieces = []
    for index, character in enumerate(clean):
        if character == " ":
            pieces.append("" if draws[index] < rate else " ")
        else:
            is_inner = character.isalpha() and clean[index + 1 : index + 2].isalpha()
            pieces.append(f"{character} " if is_inner and draws[index] < inserted else character)
    return "".join(pieces)


def corrupt_case(clean: str, rate: float, generator: np.random.Generator) -> str:
    """Write each capital letter as a small letter with the probability ``rate``; with 1, all are small letters."""
    draws = generator.random(len(clean))
    return "".join(
        character.lower() if character.isupper() and draw < rate and len(character.lower()) == 1 else character
        for character, draw in zip(clean, draws, strict=True)
    )


def corrupt_hyphenation(clean: str, rate: float, generator: np.random.Generator) -> str:
    """Wrap lines at 65 characters; a word that does not fit is broken with the probability ``rate``.

    A word with a hyphen is broken after it if both parts fit, other words between any two letters.
    """
    return "".join(wrap(line, rate, generator) for line in clean.splitlines(keepends=True))


def wrap(line: str, rate: float, generator: np.random.Generator) -> str:
    """Wrap one line, and break words at the line ends."""
    lines, current = [], ""
    for word in re.findall(r"\S+\s*", line):
        room = LINE_WIDTH - len(current)
        if len(word.rstrip()) <= room:
            current += word
            continue
        at = break_position(word.rstrip(), room, generator) if generator.random() < rate else 0
        if at:
            hyphen = "" if word[at - 1] == "-" else "-"
            lines.append(current + word[:at] + hyphen)
        else:
            lines.append(current.rstrip(" "))
        current = word[at:]
    indent = re.match(r"\s*", line)
    lines.append(current)
    return (indent[0] if indent and line.strip() else "" if line.strip() else line) + "\n".join(lines)


def break_position(word: str, room: int, generator: np.random.Generator) -> int:
    """Return the number of characters of a word before its break; 0 if it cannot be broken within the room."""
    hyphens = [match.end() for match in re.finditer(r"(?<=[^\W\d_])-(?=[^\W\d_])", word) if match.end() <= room]
    if hyphens:
        return hyphens[-1]
    inner = re.fullmatch(r"(\W*)([^\W\d_]+)\W*", word)
    if inner is None:
        return 0
    positions = range(inner.start(2) + MIN_PART, min(inner.end(2) - MIN_PART, room - 1) + 1)
    return int(generator.choice(positions)) if len(positions) else 0
