"""Undo wrong decodings: text in UTF-8 that was decoded with a one-byte encoding, once or several times.

A layer is one wrong decoding: each byte of UTF-8 became a character of a one-byte encoding. It is undone by

    clean = decode(encode(observed, one-byte encoding), UTF-8)

for each sequence of characters whose bytes are one character of UTF-8. A byte without a character in the encoding was
lost: U+FFFD or ``?`` is in its place. Such a sequence becomes a placeholder, which stands for its possible characters.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, pairwise, product
from unicodedata import category

from ftfy.badness import is_bad
from ftfy.chardata import CHARMAP_ENCODINGS, UTF8_DETECTOR_RE

from conservator.documents.damaged import MARK
from conservator.pipelines.visible_text.commonness import commonness

MAX_LAYERS = 6  # layers: undone at most [safety limit]
MAX_COMBINATIONS = 4096  # byte sequences: of a sequence with lost bytes that are compared [safety limit]
LOST_BYTE, PLACEHOLDER, NO_BYTE = "\u0101", "\u0102", "\u0100"  # symbols of ``symbols_of`` beside the bytes
FIRST_PLACEHOLDER = 0x100000  # code point: of the private use plane 16, whose characters are not decoded
# A Cyrillic or Greek letter and a symbol within a Latin word: a letter that was decoded as Windows-1251 or -1253.
MIXED_SCRIPTS = re.compile("[A-Za-z][ГДЕΓΔΕ][^\\s\u2010-\u2022\u2026\x00-\x7f][A-Za-z]")
FIRST_OTHER_SCRIPT = "\u0370"  # all characters before it are Latin letters and their symbols
RARE_LATIN = range(0x180, 0x300)  # code points of rare and phonetic Latin letters
ART_ENCODINGS = ("macroman", "cp437")  # their characters for bytes of UTF-8 are common in drawings and faces
CONTROLS = re.compile("[\x80-\x9f]")  # Windows-1252 has other characters for these bytes
EXACT = (
    "[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|\xed[\x80-\x9f][\x80-\xbf]"
    "|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}"
    "|\xed[\xa0-\xaf][\x80-\xbf]\xed[\xb0-\xbf][\x80-\xbf]"
)
# A space in the place of a no-break space (byte A0), where the character is likely.
SPACED = (
    "[\xc2\xc3\xc5\xce\xd0\xd9][ ]|[\xe2\xe3][ ][\x80-\x84\x86-\x9f\xa1-\xbf]"
    "|[\xe0-\xe3][\x80-\x84\x86-\x9f\xa1-\xbf][ ]|\xf0[ ][\x80-\xbf]{2}|\xf0[\x80-\xbf][ ][\x80-\xbf]"
    "|\xf0[\x80-\xbf]{2}[ ]"
)
A_GRAVE_WORD = re.compile("\xc3 (?! |quele|quela|quilo|s )")  # the space belongs to the text
UNASSIGNED = ("Cn", "Co", "Cs")  # categories of code points that are no characters of a text
ANY = f"[\x80-\xbf{LOST_BYTE}]"
# A letter and marks alone are no evidence: a sequence of three or four bytes needs a second visible byte.
VISIBLE = "[\x80-\xbf]"
LOSSY = (
    f"[\xc2-\xdf]{LOST_BYTE}|[\xc2\xc3][?]"
    f"|\xed[\xa0-\xaf][\x80-\xbf?{LOST_BYTE}]\xed[\xb0-\xbf][\x80-\xbf?{LOST_BYTE}]"
    f"|[\xe0-\xef][?{LOST_BYTE}]{VISIBLE}|[\xe0-\xef]{VISIBLE}[?{LOST_BYTE}]"
    f"|[\xf0-\xf4](?=.{{0,2}}{VISIBLE})(?:[?{LOST_BYTE}]{ANY}{ANY}|{ANY}[?{LOST_BYTE}]{ANY}|{ANY}{ANY}[?{LOST_BYTE}])"
)
# The last byte of punctuation was dropped, because it is a control character. A space after it belongs to the text.
DROPPED = f"\xe2\x80(?![\x80-\xbf?{LOST_BYTE}{PLACEHOLDER}])"
RUN = f"[\x80-\xff{LOST_BYTE}{PLACEHOLDER}]"
MIXED = f"{RUN}*{PLACEHOLDER}{RUN}*"  # symbols around a placeholder


def patterns_of(alternatives: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a sequence, and of a line whose other characters are in ASCII."""
    mixed = f"(?P<mixed>{MIXED})|(?P<exact>(?:{EXACT})+)"
    return (
        re.compile(f"{mixed}{alternatives}"),
        re.compile(re.sub(r"\?P<\w+>", "?:", f"(?:[\x00-\x7f{LOST_BYTE}]|{mixed}{alternatives})*")),
    )


LOSSY_RUN = re.compile(
    f"(?:{EXACT}|[\xc2-\xdf]{LOST_BYTE}|[\xe0-\xef](?:{LOST_BYTE}{VISIBLE}|{VISIBLE}{LOST_BYTE})"
    f"|[\xf0-\xf4](?=.{{0,2}}{VISIBLE})(?:{LOST_BYTE}{ANY}{ANY}|{ANY}{LOST_BYTE}{ANY}|{ANY}{ANY}{LOST_BYTE}))+"
)
EXACT_PATTERNS = patterns_of("")
SPACED_PATTERNS = patterns_of(f"|(?P<spaced>{SPACED})")
LOSSY_PATTERNS = patterns_of(f"|(?P<lossy>{LOSSY})|(?P<dropped>{DROPPED})|(?P<spaced>{SPACED})")
CHARACTER = re.compile(EXACT)


@dataclass(frozen=True)
class Tracked:
    """A text with the origin of its characters.

    Attributes:
        text: n characters.
        origin: n + 1 offsets in the document: character k was written for ``origin[k]`` to ``origin[k + 1]``.
    """

    text: str
    origin: list[int]

    def part(self, start: int, stop: int) -> "Tracked":
        """Return a range of the characters."""
        return Tracked(self.text[start:stop], self.origin[start : stop + 1])

    def replaced(self, parts: Iterable[tuple[int, int, "Tracked"]]) -> "Tracked":
        """Replace ranges of characters, in order, by texts with the same origin."""
        texts, origin, done = list[str](), list[int](), 0
        for start, stop, part in parts:
            texts += [self.text[done:start], part.text]
            origin += self.origin[done:start]
            origin += part.origin[:-1]
            done = stop
        texts.append(self.text[done:])
        return Tracked("".join(texts), origin + self.origin[done:])


@dataclass
class Placeholders:
    """Characters that stand for sets of characters.

    Attributes:
        reserved: Characters that occur in the document.
        sets: placeholder -> its characters with their prior probabilities.
        encodings: Encoding -> the number of lines that were decoded with it.
    """

    reserved: frozenset[str] = frozenset()
    encodings: Counter[str] = field(default_factory=Counter)
    sets: dict[str, Mapping[str, float]] = field(default_factory=dict)
    _numbers: dict[tuple[str, ...], str] = field(default_factory=dict)
    _free: Iterator[str] = field(default_factory=lambda: map(chr, range(FIRST_PLACEHOLDER, sys.maxunicode)))

    def add(self, characters: Mapping[str, float]) -> str:
        """Return the placeholder of a set of characters; the character itself if it is the only one."""
        if len(characters) == 1:
            return next(iter(characters))
        placeholder = self._numbers.get(tuple(characters))
        if placeholder is None:
            placeholder = next(character for character in self._free if character not in self.reserved)
            self._numbers[tuple(characters)] = placeholder
            self.sets[placeholder] = characters
        return placeholder


@dataclass(frozen=True)
class Encoding:
    """A one-byte encoding.

    Attributes:
        name: Name of its codec.
        bytes_of: code point -> byte, as a character of Latin-1, or LOST_BYTE.
        undefined: Continuation bytes without a character.
        patterns: Patterns of a sequence and of a line, as in ``patterns_of``.
    """

    name: str
    bytes_of: Mapping[int, str]
    undefined: frozenset[int]
    patterns: tuple[re.Pattern[str], re.Pattern[str]]

    @classmethod
    @cache
    def of(cls, name: str) -> "Encoding":
        """Return the encoding with the name of a codec."""
        strict = name.removeprefix("sloppy-")
        high = {byte: bytes([byte]).decode(strict, "replace") for byte in range(0x80, 0x100)}
        undefined = frozenset(byte for byte, character in high.items() if character == MARK and byte < 0xC0)
        table = {byte: chr(byte) for byte in range(0x80)}
        table |= {byte: chr(byte) for byte, character in high.items() if character == MARK}
        table |= {ord(character): chr(byte) for byte, character in high.items() if character != MARK}
        patterns = EXACT_PATTERNS if name == "macroman" else SPACED_PATTERNS  # a dash is a byte of UTF-8 in macroman
        if name.startswith("sloppy-"):
            table[ord(MARK)], patterns = LOST_BYTE, LOSSY_PATTERNS
        return cls(name, table, undefined, patterns)

    def symbols_of(self, text: str, placeholders: Placeholders) -> str:
        """Return a symbol for each character: its byte, LOST_BYTE, PLACEHOLDER, or NO_BYTE."""
        table = Symbols(self.bytes_of)
        table |= {
            ord(character): PLACEHOLDER
            for character, members in placeholders.sets.items()
            if any(ord(member) in self.bytes_of and not member.isascii() for member in members)
        }
        return text.translate(table)

    def bytes_at(self, character: str, symbol: str, placeholders: Placeholders) -> Mapping[int, float]:
        """Return the possible bytes of a character of a sequence, with their prior probabilities."""
        if symbol == PLACEHOLDER:
            members = placeholders.sets[character].items()
            return {
                ord(byte): prob for member, prob in members if (byte := self.bytes_of.get(ord(member), "")) > "\x7f"
            }
        if symbol == LOST_BYTE:
            return dict.fromkeys(sorted(self.undefined) or range(0x80, 0xC0), 1 / max(1, len(self.undefined)))
        if symbol == "?":
            return {
                byte: CONFIG.undefined_share / max(1, len(self.undefined))
                if byte in self.undefined
                else (1 - CONFIG.undefined_share) / 64
                for byte in range(0x80, 0xC0)
            }
        return {0xA0 if symbol == " " else ord(symbol): 1.0}


class Symbols(dict[int, str]):
    """A table for ``str.translate``; characters that are not in the table become NO_BYTE."""

    def __missing__(self, key: int) -> str:
        """Return NO_BYTE."""
        return NO_BYTE


@dataclass(frozen=True)
class LayersConfig:
    """Constants of the detection and of the priors of lost bytes."""

    undefined_share: float = 0.9  # probability: a question mark stands for a byte without a character [untuned]
    min_lines: int = 3  # lines: decoded with an encoding, so that it is the encoding of other lines, too [untuned]
    min_sequences: int = 5  # characters: that are the only ones outside ASCII of a document, and mojibake [untuned]
    min_distinct: int = 3  # characters: different ones among them [untuned]
    min_uncommon: int = 50  # characters: that may be uncommon [untuned]
    min_commonness: float = 0.01  # ratio: of the frequency of each of them to the most frequent one [untuned]


CONFIG = LayersConfig()


def undo(line: Tracked, placeholders: Placeholders) -> Tracked:
    """Undo the wrong decodings of a line; a line that has none is returned unchanged."""
    for _ in range(MAX_LAYERS):
        undone = undo_layer(line, placeholders)
        if undone is line:
            break
        line = undone
    return line


def undo_layer(line: Tracked, placeholders: Placeholders) -> Tracked:
    """Undo one wrong decoding of a line: of the whole line, or of parts of it."""
    text = "".join(MARK if character in placeholders.sets else character for character in line.text)
    if text.isascii() or not (is_bad(text) or MIXED_SCRIPTS.search(text)):
        return line
    for name in CHARMAP_ENCODINGS:
        decoded = decode_line(line, Encoding.of(name), placeholders)
        if decoded is not line:
            placeholders.encodings[name] += 1
            return decoded
    parts = undo_parts(line, text, placeholders)
    if parts:
        return line.replaced(parts)
    controls = [
        (index, index + 1, Tracked(character, line.origin[index : index + 2]))
        for index, character in replace_controls(text)
    ]
    return line.replaced(controls) if controls else line


def undo_parts(line: Tracked, text: str, placeholders: Placeholders) -> list[tuple[int, int, Tracked]]:
    """Undo the wrong decodings of parts of a line.

    A part that is no mojibake by itself has the encoding of the others, if its characters are of another script.

    Args:
        line: The line.
        text: Its text with marks instead of placeholders.
        placeholders: The placeholders of the text.
    """
    counts, parts, left = placeholders.encodings.copy(), list[tuple[int, int, Tracked]](), list[tuple[int, int]]()
    for match in UTF8_DETECTOR_RE.finditer(text):
        part = line.part(*match.span())
        if len(match[0]) == len(text):
            continue
        undone = undo(part, placeholders) if is_bad(match[0]) else part
        if undone is part:
            left.append(match.span())
        else:
            parts.append((*match.span(), undone))
    for name, _ in (placeholders.encodings - counts).most_common(1):
        for span in left:
            decoded = decode_line(line.part(*span), Encoding.of(name), placeholders)
            if len(decoded.text) > 1 and all(character >= FIRST_OTHER_SCRIPT for character in decoded.text):
                parts.append((*span, decoded))
    return sorted([*parts, *undo_lossy_parts(line, parts, placeholders)], key=lambda part: part[0])


def undo_lossy_parts(
    line: Tracked, parts: Sequence[tuple[int, int, Tracked]], placeholders: Placeholders
) -> Iterator[tuple[int, int, Tracked]]:
    """Yield sequences with marks that are lost bytes of Windows-1252.

    A sequence of two bytes may be a letter and the mark of a lost character, so it needs other mojibake in the line.

    Args:
        line: The line.
        parts: Parts of the line that are decoded.
        placeholders: The placeholders of the text.
    """
    encoding = Encoding.of("sloppy-windows-1252")
    for match in LOSSY_RUN.finditer(encoding.symbols_of(line.text, placeholders)):
        is_free = all(match.end() <= start or stop <= match.start() for start, stop, _ in parts)
        if is_free and LOST_BYTE in match[0] and (parts or len(match[0]) > 2):
            decoded = decode_line(line.part(*match.span()), encoding, placeholders)
            if MARK not in decoded.text:
                yield (*match.span(), decoded)


def decode_line(line: Tracked, encoding: Encoding, placeholders: Placeholders) -> Tracked:
    """Undo one wrong decoding, if every character outside ASCII is a part of a character of UTF-8 in the encoding."""
    symbols = encoding.symbols_of(line.text, placeholders)
    if not encoding.patterns[1].fullmatch(symbols):
        return line
    parts = decode_sequences(line, symbols, encoding, placeholders)
    return line.replaced(parts) if parts else line


def decode_sequences(
    line: Tracked, symbols: str, encoding: Encoding, placeholders: Placeholders
) -> list[tuple[int, int, Tracked]]:
    """Return the ranges of a line that are characters of UTF-8 in an encoding, and the characters."""
    parts: list[tuple[int, int, Tracked]] = []
    for match in encoding.patterns[0].finditer(symbols):
        start, stop = match.span()
        if match.lastgroup == "exact":
            parts.append((start, stop, decode_exact(match[0], line.origin[start : stop + 1])))
        elif match.lastgroup == "spaced" and A_GRAVE_WORD.match(symbols, start):
            parts.append((start, start + 1, Tracked("\xe0", line.origin[start : start + 2])))
        else:
            sets = [
                encoding.bytes_at(character, symbol, placeholders)
                for character, symbol in zip(line.text[start:stop], symbols[start:stop], strict=True)
            ]
            if match.lastgroup == "dropped":
                sets.append(encoding.bytes_at(MARK, LOST_BYTE, placeholders))
                characters = enumerate_characters(sets)
                if characters:
                    origin = [line.origin[start], line.origin[stop]]
                    parts.append((start, stop, Tracked(placeholders.add(characters), origin)))
                continue
            for first, last, characters in segment(sets, is_mixed=match.lastgroup == "mixed"):
                origin = [line.origin[start + first], line.origin[start + last]]
                parts.append((start + first, start + last, Tracked(placeholders.add(characters), origin)))
    return parts


def segment(sets: Sequence[Mapping[int, float]], *, is_mixed: bool) -> Iterator[tuple[int, int, dict[str, float]]]:
    """Yield the ranges of possible bytes that are characters of UTF-8, and the characters.

    Args:
        sets: Byte -> its prior probability, for each position.
        is_mixed: Whether the positions may be several characters; positions that are in none of them are passed over.
    """
    start = 0
    while start < len(sets):
        lengths = range(2, min(4, len(sets) - start) + 1) if is_mixed else [len(sets)]
        for length in lengths:
            characters = enumerate_characters(sets[start : start + length])
            if characters:
                yield start, start + length, characters
                start += length - 1
                break
        start += 1


def decode_exact(symbols: str, origin: list[int]) -> Tracked:
    """Decode bytes of UTF-8 without a loss."""
    text = decode_variants(symbols.encode("latin-1"))
    offsets = accumulate((len(match[0]) for match in CHARACTER.finditer(symbols)), initial=0)
    return Tracked(text, [origin[offset] for offset in offsets])


def decode_variants(data: bytes) -> str:
    """Decode UTF-8, or CESU-8, where characters beyond U+FFFF are two surrogates of three bytes each."""
    return data.decode(errors="surrogatepass").encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def enumerate_characters(sets: Sequence[Mapping[int, float]]) -> dict[str, float]:
    """Return the characters of UTF-8 that sets of bytes can be, with their prior probabilities, the best first."""
    size = 1
    for choices in sets:
        size *= len(choices)
    if size > MAX_COMBINATIONS:
        return {}
    priors: dict[str, float] = {}
    for combination in product(*(choices.items() for choices in sets)):
        try:
            text = decode_variants(bytes(byte for byte, _ in combination))
        except UnicodeDecodeError:
            continue
        if len(text) == 1 and not text.isascii() and category(text) not in UNASSIGNED:
            prior = 1.0
            for _, probability in combination:
                prior *= probability
            priors[text] = priors.get(text, 0.0) + prior
    if all(ord(text) in RARE_LATIN for text in priors):  # a capital letter before the mark of a lost character
        return {}
    total = sum(priors.values())
    return {text: value / total for text, value in sorted(priors.items(), key=lambda item: (-item[1], item[0]))}


def replace_controls(text: str) -> Iterator[tuple[int, str]]:
    """Yield the index of each C1 control character, and the character of Windows-1252 that has its byte."""
    for match in CONTROLS.finditer(text):
        try:
            yield match.start(), match[0].encode("latin-1").decode("windows-1252")
        except UnicodeDecodeError:
            continue


def changed_ranges(observed: str, line: Tracked) -> Iterator[tuple[int, int]]:
    """Yield the maximal ranges of characters of a line that differ from the document ``observed``."""
    start = None
    for index, (first, last) in enumerate(pairwise(line.origin)):
        is_changed = observed[first:last] != line.text[index]
        if is_changed and start is None:
            start = index
        elif not is_changed and start is not None:
            yield start, index
            start = None
    if start is not None:
        yield start, len(line.text)


def select_encoding(lines: Sequence[Tracked], placeholders: Placeholders) -> Encoding | None:
    """Return the encoding of lines that are not mojibake by themselves; None if they are no mojibake.

    The evidence is that of the other lines of the document. If there are few, every character outside ASCII has to be
    explained by the encoding.

    Args:
        lines: Lines with characters outside ASCII that are not decoded.
        placeholders: Its encodings are those of the other lines.
    """
    (name, count), *_ = [*placeholders.encodings.most_common(1), ("", 0)]
    if count >= CONFIG.min_lines:
        return Encoding.of(name)
    text = "\n".join(line.text for line in lines)
    for name in CHARMAP_ENCODINGS:
        encoding = Encoding.of(name)
        symbols = encoding.symbols_of(text, placeholders)
        if name in ART_ENCODINGS or not encoding.patterns[1].fullmatch(symbols):
            continue
        sequences = Counter(CHARACTER.findall(symbols))
        characters = [decode_variants(sequence.encode("latin-1")) for sequence in sequences]
        is_enough = len(sequences) >= CONFIG.min_distinct and sequences.total() >= CONFIG.min_sequences
        are_common = all(commonness(character) >= CONFIG.min_commonness for character in characters)
        if is_enough and (are_common or sequences.total() >= CONFIG.min_uncommon):
            return encoding
    return None
