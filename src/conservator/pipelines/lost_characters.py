"""Marks that are characters: text that lost everything outside ASCII because it was read in the wrong encoding.

If a text in a one-byte encoding such as windows-1252 is read as UTF-8, every character outside ASCII becomes a mark,
and nothing else does. Such a document is restored character by character: its text becomes tokens of ``CHARACTERS``,
and what was restored becomes bytes again, so that a mark stands for as many bytes as its character has.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from conservator.channels import MaskChannel, Observation
from conservator.documents import DamagedDocument
from conservator.errors import Advice, ConservatorError
from conservator.experts import Lexicon, Reader, References, Team
from conservator.experts.lexicon import MARK
from conservator.experts.lexicon.expert import RARE, SHOWN, written
from conservator.experts.lexicon.words import WORD, begins_sentence
from conservator.field import Inferred
from conservator.numerics import runs
from conservator.options import encoding_of
from conservator.results import Restoration, find_mostly_lost, mostly_lost
from conservator.vocabularies import CHARACTERS, CharacterVocabulary

LETTERS = "abcdefghijklmnopqrstuvwxyz'"  # one of which a lost byte of a word may have been
WORDS = 200  # that decide what the marks of a document are, at most
BOUND = 4.0  # nats: what one word counts at most
LEAST = 2  # letters of ASCII that such a word has
CLEAR = 2.0  # nats by which the evidence for characters has to exceed that for bytes
OUTSIDE = 0.05  # how often a word that is in no list has a character outside ASCII
FOREIGN = 0.1  # what the frequency of a word in another language counts
STRANGE = 0.25  # characters without a token, for each mark, from which text outside ASCII counts as intact
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class CharacterText:
    """A damaged document as characters, one position for each.

    Attributes:
        damaged: the document; its tokens are those of ``CHARACTERS``, or the mask at a mark.
        widths: (L,) the bytes of each character; 1 at a mark.
        source: the document as bytes, which this one was made from.
    """

    damaged: DamagedDocument
    widths: Ints
    source: DamagedDocument

    @property
    def is_intact(self) -> bool:
        """Whether text outside ASCII is intact, so that no encoding can have lost what is marked.

        By chance, two or three bytes of another encoding are valid UTF-8, and mostly give a character without a token.
        """
        tokens = self.damaged.tokens[self.damaged.tokens != CHARACTERS.mask]
        out_of_domain = int((tokens == CHARACTERS.other).sum())
        return bool(CHARACTERS.non_ascii[tokens].any()) or out_of_domain > STRANGE * len(self.damaged.positions)

    def observe(self) -> Observation:
        """The whole document as an observation."""
        return MaskChannel(CHARACTERS.size, 0.5).observe(torch.from_numpy(self.damaged.tokens)[None])


@dataclass(frozen=True)
class SingleExpert:
    """The engine for a team of one expert: it has all the weight."""

    def __call__(self, team: Team, observation: Observation, generator: torch.Generator) -> Inferred:
        """Trust the expert everywhere."""
        return Inferred.given(torch.ones(*observation.tokens.shape, 1, dtype=torch.float64))


def vocabulary_for(lost: str) -> CharacterVocabulary:
    """The characters; lost ones are restored within the repertoire that the option ``lost`` names."""
    encoding = encoding_of(lost)
    return CHARACTERS if encoding is None else CharacterVocabulary(CHARACTERS.repertoire(encoding))


def as_characters(damaged: DamagedDocument) -> CharacterText:
    """The document as characters; it must be UTF-8 between its marks, and have no gap signs."""
    if len(damaged.gaps):
        raise ConservatorError(
            f"the document has the gap sign {damaged.gap!r}, and a gap is restored as bytes; where marks are "
            "characters, nothing but marks is lost",
            Advice("lost", "bytes", "restores bytes"),
        )
    lost = damaged.tokens == CHARACTERS.mask
    tokens: list[NDArray[np.int64]] = []
    widths: list[NDArray[np.int64]] = []
    done = 0
    for stop in [*damaged.positions[damaged.marks].tolist(), len(damaged.tokens)]:
        data = damaged.tokens[done:stop].astype(np.uint8).tobytes()
        try:
            encoded = CHARACTERS.encode(data)
        except UnicodeDecodeError as error:
            origin = damaged.origins(np.array([done + error.start]))[0, 0]
            raise ConservatorError(
                f"the document is not UTF-8 between its marks: byte {origin} is {data[error.start]:#04x}; marks are "
                "characters only in text that was decoded"
            ) from error
        tokens += [encoded.tokens, np.array([CHARACTERS.mask])]
        widths += [encoded.spans[:, 1] - encoded.spans[:, 0], np.array([1])]
        done = stop + 1
    lost_at = np.cumsum([len(part) for part in tokens])[1:-1:2] - 1
    text = np.concatenate(tokens[:-1]).astype(np.int16)
    marks = damaged.marks
    if lost.sum() != len(marks):
        raise ConservatorError("bytes that are not marked are lost")
    inside = DamagedDocument(
        text, lost_at, damaged.lengths[marks], damaged.spans[marks], damaged.is_gap[marks], damaged.mark, damaged.gap
    )
    return CharacterText(inside, np.concatenate(widths[:-1]), damaged)


def as_bytes(
    found: Restoration, text: CharacterText, loss: str, least: float, *, fill_undetermined: bool = False
) -> Restoration:
    """What was restored of characters as a restoration of bytes: a mark stands for the bytes of its character.

    Args:
        found: the restoration of ``text.damaged``; what was not reached in time is open.
        text: the document.
        loss: what each mark stands for.
        least: a character with a confidence below this is left open.
        fill_undetermined: whether marks are filled in, too, where most of the text around them is lost.
    """
    marks = text.damaged.positions
    hopeless = np.zeros(len(text.damaged.tokens), dtype=bool)
    if not fill_undetermined:
        hopeless[marks] = find_mostly_lost(text.source.tokens)[text.source.positions[text.source.marks]]
    characters = [CHARACTERS.decode(found.tokens[place : place + 1]) for place in marks.tolist()]
    widths = text.widths.copy()
    widths[marks] = list(map(len, characters))
    starts = np.cumsum(widths) - widths
    damaged = text.source.with_widths(widths[marks])
    whole = damaged.tokens.copy()
    whole[damaged.lost] = np.frombuffer(b"".join(characters), dtype=np.uint8)
    times = widths[found.positions]
    positions = np.repeat(starts[found.positions] - (np.cumsum(times) - times), times) + np.arange(times.sum())
    confidence = np.repeat(found.read_confidence, times)
    unsure = np.repeat((found.left_open | hopeless)[found.positions], times) | (confidence < least)
    return replace(
        found,
        damaged=damaged,
        positions=positions,
        read_tokens=whole[positions].astype(np.int64),
        read_confidence=confidence,
        read_field=np.repeat(found.read_field, times, axis=0),
        read_regions=np.repeat(found.read_regions, times),
        open_positions=positions[(damaged.tokens[positions] == CHARACTERS.mask) & unsure],
        provenance={int(starts[place]): one for place, one in found.provenance.items()},
        reported=mostly_lost(int(hopeless.sum())),
        loss=loss,
    )


def make_lexicon_expert(text: CharacterText, reference_index: References | None, loss: str) -> Reader:
    """The expert that restores the characters of a document."""
    return Lexicon(texts=reference_texts(reference_index), vocabulary=vocabulary_for(loss)).condition(text.observe())


def are_characters(text: CharacterText) -> bool:
    """Whether the marks of a document are characters outside ASCII, by the evidence of the document itself.

    An encoding loses every character outside ASCII, so where one is intact, bytes are lost. If a text in UTF-8 is read
    as ASCII, a character becomes two marks or more: where most marks have a neighbour, bytes are lost, too. Else the
    words with a mark decide. With the frequencies f of words in the document's language, the evidence is

        sum over these words of  log(f(it has characters outside ASCII at its marks) + OUTSIDE RARE)
                               - log((f(it has letters of ASCII there) + RARE) / length),    each at most BOUND in size

    The length is there because any character of a word may be the one whose byte is lost, while those outside ASCII are
    where they are. In doubt, bytes are lost.
    """
    marks, tokens = text.damaged.positions, text.damaged.tokens
    lengths = np.array([stop - start for start, stop in runs(tokens == CHARACTERS.mask)])
    if not len(marks) or text.is_intact or lengths[lengths > 1].sum() > len(marks) / 2:
        return False
    reader = Lexicon().condition(text.observe())
    document = written(tokens.astype(np.int64) * (tokens != CHARACTERS.mask), tokens == CHARACTERS.mask)
    words = [word for word in WORD.finditer(document) if MARK in word[0] and len(word[0].replace(MARK, "")) >= LEAST]
    words = words[:: max(1, len(words) // WORDS)]
    evidence = 0.0
    for word in words:
        outside, inside = frequencies(reader, document, word.start(), word[0])
        odds = math.log((outside + OUTSIDE * RARE) * len(word[0]) / (inside + RARE))
        evidence += min(max(odds, -BOUND), BOUND)
    return evidence > CLEAR


def frequencies(reader: Reader, document: str, start: int, pattern: str) -> tuple[float, float]:
    """How frequent the words are that a pattern may be, if its marks are outside ASCII, and if they are letters."""
    outside = inside = 0.0
    first = begins_sentence(document, start)
    for name, share in reader.share.items():
        outside += share * reader.frequency(name, document, (start, pattern))
        if pattern.count(MARK) == 1:
            for one in (*LETTERS, *LETTERS.upper()):
                inside += share * reader.languages[name].frequency(pattern.replace(MARK, one), first=first)
    if not outside and sum(map(str.isascii, pattern)) > SHOWN:  # a name, or a word that travels
        outside = FOREIGN * max(reader.frequency(name, document, (start, pattern)) for name in reader.languages)
    return outside, inside


def reference_texts(reference_index: References | None) -> tuple[str, ...]:
    """References as texts."""
    if reference_index is None:
        return ()
    ends = [*reference_index.begins[1:].tolist(), len(reference_index.index.text)]
    parts = (
        reference_index.index.text[start:stop]
        for start, stop in zip(reference_index.begins.tolist(), ends, strict=True)
    )
    return tuple(part[part >= 0].astype(np.uint8).tobytes().decode(errors="replace") for part in parts)
