"""Lost text that is left unfilled: its confidence is too low, or the visible text around it does not determine it."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from conservator.arrays import Bools, Ints
from conservator.channels import Observation
from conservator.decoders import DecodedText
from conservator.documents import DamagedDocument
from conservator.options import RestoreOptions
from conservator.results.notices import Notice, mostly_lost_notice, unknown_characters_notice
from conservator.vocabularies import BYTES

Tokens = NDArray[np.int16]


@dataclass(frozen=True)
class LossConfig:
    """Limits of ``find_mostly_lost``.

    In the tuning documents, texts of the experts' domains with up to 80 % of their bytes lost at random stay below both
    limits; texts in Russian, Greek or Arabic that lost all their letters exceed one of them.
    """

    radius_bytes: int = 64  # bytes: neighbourhood on either side of a lost byte [LOG: undetermined-text]
    max_lost_share: float = 0.85  # share: above it a position is mostly lost [LOG: undetermined-text]
    max_lost_share_words: float = 0.5  # share: the same if whole words are lost [LOG: undetermined-text]
    # share: lost runs are whole words if at most this share of their edges is next to a letter or digit
    # [LOG: undetermined-text]
    max_edges_in_words: float = 0.1
    min_edges: int = 4  # edges: fewer do not show whether whole words are lost [untuned]


LOSS = LossConfig()
# probability: characters of any kind are unfilled below it [LOG: characters-of-any-kind]
MIN_CHARACTER_CONFIDENCE = 0.1


def find_mostly_lost(tokens: Tokens) -> Bools:
    """(L,) True at the lost bytes of a document whose neighbourhood is mostly lost.

    If text loses all letters of a script, as in a conversion to ASCII, blanks and punctuation remain, and the edges of
    the lost runs are word boundaries. Damage that does not depend on the text mostly cuts through words.

    Args:
        tokens: (L,) bytes, or the mask at a lost one.
    """
    lost = tokens == BYTES.mask
    word = is_word_byte(tokens)
    edge, beside_word = np.zeros((2, len(tokens)), dtype=bool)
    edge[1:] = lost[1:] != lost[:-1]
    beside_word[1:] = edge[1:] & (word[1:] | word[:-1])
    lost_share = count_nearby(lost) / count_nearby(np.ones(len(tokens), dtype=bool))
    edges = count_nearby(edge)
    whole_words = (edges >= LOSS.min_edges) & (count_nearby(beside_word) <= LOSS.max_edges_in_words * edges)
    mostly: Bools = lost & (
        (lost_share > LOSS.max_lost_share) | ((lost_share > LOSS.max_lost_share_words) & whole_words)
    )
    # Next to visible text, lost runs that consist of whole words join the mostly lost text beside them.
    run = np.cumsum(edge)
    touched = np.zeros(len(tokens) + 1, dtype=bool)
    touched[run[beside_word]] = touched[run[beside_word] - 1] = True
    mostly |= lost & ~touched[run] & (2 * count_nearby(mostly) > count_nearby(lost))
    return mostly


def is_word_byte(tokens: Tokens) -> Bools:
    """(L,) True at visible ASCII letters and digits, and at visible non-ASCII bytes."""
    word_bytes = np.zeros(BYTES.size + 1, dtype=bool)
    word_bytes[[byte for byte in range(BYTES.size) if byte >= 0x80 or chr(byte).isalnum()]] = True
    word_bytes[BYTES.mask] = False
    return word_bytes[tokens]


def count_nearby(flags: Bools) -> NDArray[np.int64]:
    """(L,) the number of True flags within ``LOSS.radius_bytes`` of each position."""
    total = np.concatenate([[0], np.cumsum(flags)])
    position, radius = np.arange(len(flags)), LOSS.radius_bytes
    counts: NDArray[np.int64] = (
        total[np.minimum(position + radius + 1, len(flags))] - total[np.maximum(position - radius, 0)]
    )
    return counts


def keep_observed(observation: Observation, decoded: DecodedText, min_confidence: float) -> DecodedText:
    """Return the decoded text (L,) without changes of visible bytes that have too low a confidence.

    Such a byte stays as observed. A character changes as a whole or not at all, because observed and changed bytes
    together may not be valid UTF-8. A change remains if the observed bytes are not valid.

    Args:
        observation: The document (1, L) that was decoded.
        decoded: The decoded text.
        min_confidence: Minimum confidence of a changed byte.
    """
    observed, lost = observation.tokens[0].numpy(), observation.lost[0].numpy()
    visible = observed < observation.vocab_size
    rejected = visible & (observed != decoded.tokens) & (decoded.confidence < min_confidence)
    if not rejected.any():
        return decoded
    tokens, confidence = decoded.tokens.copy(), decoded.confidence.copy()
    row, character = np.cumsum(lost) - 1, np.cumsum((tokens & 0xC0) != 0x80)
    for number in np.unique(character[rejected]).tolist():
        inside = np.flatnonzero(character == number)
        original = np.where(visible[inside], observed[inside], tokens[inside])
        if BYTES.constraint.violations(original).any():
            continue
        selected = inside[original != tokens[inside]]
        tokens[inside] = original
        log_probs = decoded.log_probs[row[selected], observed[selected]].double().numpy()
        confidence[selected] = np.minimum(np.exp(log_probs), 1 - confidence[selected])
    return replace(decoded, tokens=tokens, confidence=confidence)


def select_unfilled(
    damaged: DamagedDocument, positions: Ints, decoded: DecodedText, options: RestoreOptions, *, are_characters: bool
) -> tuple[Ints, tuple[Notice, ...]]:
    """Return the positions that stay unfilled, and notices about them.

    Args:
        damaged: The damaged document.
        positions: (n,) positions that were read.
        decoded: The decoded text at these positions.
        options: Options of the restoration.
        are_characters: Whether each mark stands for one character of any kind.
    """
    min_confidence, min_gap_confidence = options.min_confidence, options.min_gap_confidence
    mostly_lost, unknown = np.zeros((2, len(positions)), dtype=bool)
    if not options.fill_undetermined:
        mostly_lost = find_mostly_lost(damaged.tokens)[positions]
        is_mark = np.isin(damaged.marker_of(positions), damaged.marks)
        has_prediction = ~np.isin(np.arange(len(positions)), decoded.not_predicted)
        is_improbable = decoded.confidence < MIN_CHARACTER_CONFIDENCE
        unknown = are_characters & is_mark & has_prediction & is_improbable & ~mostly_lost
    unfilled = find_unfilled(
        damaged,
        positions,
        decoded,
        min_confidence,
        min_gap_confidence=min_gap_confidence,
        undetermined=mostly_lost | unknown,
    )
    left = np.isin(positions, unfilled)
    notices = (
        *mostly_lost_notice(count_markers(damaged, positions[mostly_lost & left])),
        *unknown_characters_notice(count_markers(damaged, positions[unknown & left])),
    )
    return unfilled, notices


def count_markers(damaged: DamagedDocument, positions: Ints) -> int:
    """Count the marks and gap markers at lost ``positions`` (k,); a lost byte without a mark counts as one."""
    markers = damaged.marker_of(positions)
    return len(np.unique(markers[markers >= 0])) + int((markers < 0).sum())


def find_unfilled(
    damaged: DamagedDocument,
    positions: Ints,
    decoded: DecodedText,
    min_confidence: float,
    *,
    min_gap_confidence: float = 0.0,
    undetermined: NDArray[np.bool_] | None = None,
) -> Ints:
    """Return the lost positions that are not filled: their confidence is too low, or they were not read in time.

    A character and a gap of unknown length are filled as a whole or not at all. A part of a character cannot be
    written, so both are filled if they complete a visible byte.

    Args:
        damaged: The damaged document.
        positions: (n,) positions that were read.
        decoded: The decoded text at these positions.
        min_confidence: Minimum confidence of a byte.
        min_gap_confidence: Minimum probability of a gap: that of its length, times the confidences of its bytes.
        undetermined: (n,) True at positions that are unfilled in any case.
    """
    lost = np.isin(positions, damaged.lost)
    gap_of = damaged.gap_of(positions)
    rejected = decoded.confidence < min_confidence
    rejected[decoded.not_predicted] = True
    if undetermined is not None:
        rejected |= undetermined
    in_gap = gap_of >= 0
    if damaged.length_probability is not None:
        log_probs = np.log(np.maximum(decoded.confidence[in_gap], np.finfo(np.float64).tiny))
        total = np.bincount(gap_of[in_gap], weights=log_probs, minlength=len(damaged.length_probability))
        rejected |= in_gap & (damaged.length_probability * np.exp(total) < min_gap_confidence)[gap_of]
    same_character = (decoded.tokens & 0xC0) == 0x80
    same_gap = in_gap & (gap_of == np.concatenate([[-1], gap_of[:-1]]))
    group = np.cumsum(~(same_character | same_gap))  # index of the character, or of the characters of a gap
    unfilled = np.isin(group, group[rejected & lost]) & ~np.isin(group, group[~lost])
    return positions[unfilled]
