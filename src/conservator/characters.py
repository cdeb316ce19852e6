"""Marks that are characters: text that lost everything outside ASCII because it was read in the wrong encoding.

If a text in a one-byte encoding such as windows-1252 is read as UTF-8, every character outside ASCII becomes a mark,
and nothing else does. Such a document is restored character by character: its text becomes tokens of ``CHARACTERS``,
and what was restored becomes bytes again, so that a mark stands for as many bytes as its character has.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.channels import MaskChannel, Observation
from conservator.documents import Damaged
from conservator.errors import ConservatorError
from conservator.experts import (
    ByteExpert,
    ExpertSpec,
    Memory,
    Recollection,
    References,
    Team,
    load_experts,
    make_references,
)
from conservator.experts.memory.phrases import load_phrases
from conservator.experts.memory.recall import count_votes
from conservator.field import Inferred
from conservator.numerics import runs
from conservator.options import encoding_of
from conservator.restoration import Restoration
from conservator.vocabularies import BYTES, CHARACTERS, CharacterVocabulary

EXPERT = "european"  # the built-in expert over characters
SAMPLES, REACH = 4, 512  # places of a document that decide, and how many characters are read at each
FOLDS, PASSES = 10, 4  # the marks are hidden with a tenth of the visible characters, and with others in each pass
SHIFT = 1.0
BOUNDS = (-1.5, 4.0)  # nats: the least and the most that one mark counts
CLEAR = 2.0  # nats: what the evidence for characters has to exceed
SILENT = 0.5  # the highest score of a mark for which no common word has a character outside ASCII
FEW = 1e4  # votes that say little
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

    damaged: Damaged
    widths: Ints
    source: Damaged

    @property
    def is_intact(self) -> bool:
        """Whether text outside ASCII is intact, so that no encoding can have lost what is marked.

        By chance, two or three bytes of another encoding are valid UTF-8, and mostly give a character without a token.
        """
        tokens = self.damaged.tokens[self.damaged.tokens != CHARACTERS.mask]
        strange = int((tokens == CHARACTERS.other).sum())
        return bool(CHARACTERS.outside[tokens].any()) or strange > STRANGE * len(self.damaged.places)

    def observe(self) -> Observation:
        """The whole document as an observation."""
        return MaskChannel(CHARACTERS.size, 0.5).observe(torch.from_numpy(self.damaged.tokens)[None])


@dataclass(frozen=True)
class Alone:
    """The engine for a team of one expert: it has all the weight."""

    def __call__(self, team: Team, observation: Observation, generator: torch.Generator) -> Inferred:
        """Trust the expert everywhere."""
        return Inferred.given(torch.ones(*observation.tokens.shape, 1, dtype=torch.float64))


def vocabulary_for(lost: str) -> CharacterVocabulary:
    """The characters; lost ones are restored within the repertoire that the option ``lost`` names."""
    encoding = encoding_of(lost)
    return CHARACTERS if encoding is None else CharacterVocabulary(CHARACTERS.repertoire(encoding))


def load_european() -> ByteExpert:
    """The built-in expert over characters."""
    (expert,) = load_experts([EXPERT])
    return expert


def as_characters(damaged: Damaged) -> CharacterText:
    """The document as characters; it must be UTF-8 between its marks, and have no gap signs."""
    if len(damaged.gaps):
        raise ConservatorError(
            f"the document has the gap sign {damaged.gap!r}, and a gap is restored as bytes (--lost bytes); where "
            "marks are characters, nothing but marks is lost"
        )
    lost = damaged.tokens == CHARACTERS.mask
    tokens: list[NDArray[np.int64]] = []
    widths: list[NDArray[np.int64]] = []
    done = 0
    for stop in [*damaged.places[damaged.marks].tolist(), len(damaged.tokens)]:
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
    inside = Damaged(
        text, lost_at, damaged.lengths[marks], damaged.spans[marks], damaged.is_gap[marks], damaged.mark, damaged.gap
    )
    return CharacterText(inside, np.concatenate(widths[:-1]), damaged)


def as_bytes(found: Restoration, text: CharacterText, loss: str, least: float) -> Restoration:
    """What was restored of characters as a restoration of bytes: a mark stands for the bytes of its character.

    Args:
        found: the restoration of ``text.damaged``.
        text: the document.
        loss: what each mark stands for.
        least: a character with a confidence below this is left open.
    """
    marks = text.damaged.places
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
    return replace(
        found,
        damaged=damaged,
        positions=positions,
        read_tokens=whole[positions].astype(np.int64),
        read_confidence=confidence,
        read_field=np.repeat(found.read_field, times, axis=0),
        read_regions=np.repeat(found.read_regions, times),
        open_positions=positions[(damaged.tokens[positions] == CHARACTERS.mask) & (confidence < least)],
        remembered={int(starts[place]): one for place, one in found.remembered.items()},
        loss=loss,
    )


def remember(text: CharacterText, references: References | None) -> Recollection:
    """The memory of a document: of common words, of references, and of its own text if some outside ASCII is intact.

    Else its own text could only recall characters in ASCII, and none of these was lost.
    """
    document = text.observe()
    if not text.is_intact:
        document = MaskChannel(CHARACTERS.size, 0.5).observe(torch.full_like(document.tokens, CHARACTERS.mask))
    known = as_character_references(references) if references is not None else None
    return Memory(known, spec=ExpertSpec("memory", CHARACTERS, recalls=True)).condition(document)


def are_characters(text: CharacterText, team: Team, generator: torch.Generator) -> bool:
    """Whether the marks of a document are characters outside ASCII, by the evidence of the document itself.

    An encoding loses every character outside ASCII, so where one is intact, bytes are lost. If a text in UTF-8 is read
    as ASCII, a character becomes two marks or more: where most marks have a neighbour, bytes are lost, too. Else a part
    of the visible characters is hidden besides the marks, and two witnesses say how likely each is outside ASCII: an
    expert by its law, and common words by their votes. Lost bytes are like any others, so the scores r of marks are
    those of visible characters, which are standardised to mean 0 and deviation 1; those of lost characters are higher.
    The evidence of the marks near SAMPLES places is the log ratio of two normal laws with means SHIFT and 0,

        sum over marks of  SHIFT r - SHIFT^2 / 2,    each within BOUNDS

    In doubt, bytes are lost.

    Args:
        text: the document.
        team: an expert over characters, alone.
        generator: draws what is hidden.
    """
    marks, tokens = text.damaged.places, text.damaged.tokens
    lengths = np.array([stop - start for start, stop in runs(tokens == CHARACTERS.mask)])
    if not len(marks) or text.is_intact or lengths[lengths > 1].sum() > len(marks) / 2:
        return False
    size = min(REACH, len(tokens))
    middle = marks[np.linspace(0, len(marks) - 1, SAMPLES).astype(np.int64)]
    starts = np.unique(np.clip(middle - size // 2, 0, len(tokens) - size))
    rows = torch.from_numpy(tokens[starts[:, None] + np.arange(size)].astype(np.int64))
    lost = rows == CHARACTERS.mask
    fold = torch.randint(FOLDS, rows.shape, generator=generator).masked_fill(lost | (rows == CHARACTERS.other), -1)
    hidden = torch.stack([fold == number for number in range(PASSES)], dim=1) | lost[:, None]
    odds = word_odds(rows)
    words = (odds - odds[~lost].mean()) / odds[~lost].std().clamp_min(1e-3)
    words = torch.where(odds > 0, words, words.clamp_max(SILENT))
    scores = standardised(expert_odds(team, rows, hidden), hidden, lost) + 2 * words[:, None]
    scores = standardised(scores, hidden, lost)
    found = SHIFT * scores[hidden & lost[:, None]] - SHIFT**2 / 2
    return float(found.clamp(*BOUNDS).sum()) / PASSES > CLEAR


def expert_odds(team: Team, rows: Tensor, hidden: Tensor) -> Tensor:
    """(N, K, L) the log odds of an expert that each of the ``hidden`` characters is outside ASCII; 0 elsewhere.

    Args:
        team: the expert, alone.
        rows: (N, L) characters.
        hidden: (N, K, L) what each of K passes hides.
    """
    outside, odds = torch.from_numpy(CHARACTERS.outside), torch.zeros(hidden.shape, dtype=torch.float64)
    for number in range(hidden.shape[1]):
        one = hidden[:, number : number + 1]
        for part in team.read(rows.masked_fill(rows == CHARACTERS.mask, 0), one, one):
            law = part.log_probs[0].double()
            found = law[:, outside].logsumexp(-1) - law[:, ~outside].logsumexp(-1)
            odds[part.sequence, number, part.position] = found
    return odds


def word_odds(rows: Tensor) -> Tensor:
    """(N, L) the log ratio of the best votes of common words for a character outside ASCII, and for one in it.

    A character does not count itself, whether it is lost or visible in ``rows`` (N, L).
    """
    shown = rows.masked_fill(rows == CHARACTERS.mask, -1).numpy().astype(np.int16)
    row, place = (part.flatten() for part in np.indices(shown.shape))
    best = []
    for fingerprint in (CHARACTERS.fingerprint, BYTES.fingerprint):  # in ASCII, both have the same tokens
        votes = np.zeros((len(row), CHARACTERS.size))
        count_votes(load_phrases(fingerprint), shown, np.full(len(shown), -1), row, place, 1.0, votes)
        best.append(votes)
    above = best[0][:, CHARACTERS.outside].max(axis=1)
    below = np.maximum(best[0], best[1])[:, ~CHARACTERS.outside].max(axis=1)
    return torch.from_numpy(np.log(FEW + above) - np.log(FEW + below)).reshape(rows.shape)


def standardised(scores: Tensor, hidden: Tensor, lost: Tensor) -> Tensor:
    """Scores (N, K, L) less the mean of the hidden characters that are not lost, divided by their deviation."""
    controls = scores[hidden & ~lost[:, None]]
    if len(controls) < 2:  # there is nothing to compare with
        return torch.zeros_like(scores)
    return (scores - controls.mean()) / controls.std().clamp_min(1e-3)


def as_character_references(references: References) -> References | None:
    """References of bytes as references of characters."""
    texts = []
    ends = [*references.begins[1:].tolist(), len(references.index.text)]
    for name, start, stop in zip(references.names, references.begins.tolist(), ends, strict=True):
        part = references.index.text[start:stop]
        pieces = []
        for first, last in runs(part >= 0):
            known = part[first:last].astype(np.uint8).tobytes().decode(errors="replace")
            pieces += [CHARACTERS.encode(known.encode()).tokens, np.array([-1])]
        texts.append((name, np.concatenate(pieces[:-1] or [np.empty(0, np.int64)]).astype(np.int16)))
    return make_references(texts)
