"""Pipeline for lost characters: text that lost all non-ASCII characters because it was read in the wrong encoding.

If a text in a one-byte encoding such as windows-1252 is read as UTF-8, every non-ASCII character becomes a mark, and
nothing else does. Such a document is restored character by character: its text becomes tokens of ``CHARACTERS``, and
the result is converted back to bytes, so that a mark stands for all bytes of its character.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from conservator.arrays import Ints
from conservator.channels import MaskChannel, Observation, as_channel
from conservator.documents import DamagedDocument
from conservator.errors import ConservatorError
from conservator.experts import Lexicon, LexiconExpert, OutOfTimeError, Team
from conservator.experts.lexicon import MARK
from conservator.experts.lexicon.expert import MIN_ASCII_LETTERS, UNLISTED_FREQUENCY, decode_with_marks
from conservator.experts.lexicon.words import WORD, begins_sentence
from conservator.field import Inferred
from conservator.numerics import runs
from conservator.options import DEFAULTS, are_marks_characters, encoding_of
from conservator.pipelines.candidate_scores import CandidateRescorer, candidate_rescorer
from conservator.pipelines.decoding import Decoding, infer_and_decode, observe
from conservator.pipelines.lost_bytes import Damage, build_restoration, build_untouched
from conservator.pipelines.rescoring_characters import rescore_characters
from conservator.pipelines.task import PipelineTask
from conservator.pipelines.undetermined import find_mostly_lost
from conservator.results import Restoration
from conservator.results.notices import mostly_lost_notice
from conservator.vocabularies import CHARACTERS, CharacterVocabulary

LETTERS = "abcdefghijklmnopqrstuvwxyz'"  # characters that a lost byte of a word may have been


@dataclass(frozen=True)
class LossDetectionConfig:
    """Constants of ``are_characters``, which decides whether marks are bytes or characters."""

    max_words: int = 200  # words: sample of the words with marks [untuned]
    max_word_evidence: float = 4.0  # nats: bound of the evidence of one word [untuned]
    min_ascii_letters: int = 2  # letters: words with fewer visible characters are ignored [untuned]
    min_evidence: float = 2.0  # nats: evidence for characters that is required [untuned]
    non_ascii_rate: float = 0.05  # probability: an unknown word has a non-ASCII character [untuned]
    other_language_weight: float = 0.1  # weight: word frequencies of other languages [untuned]
    # characters per mark: with more visible characters without a token, non-ASCII text counts as intact [untuned]
    max_unknown_per_mark: float = 0.25


DETECTION = LossDetectionConfig()


@dataclass(frozen=True)
class CharacterText:
    """A damaged document as characters, one position for each.

    Attributes:
        damaged: The document; its tokens are those of ``CHARACTERS``, or the mask at a mark.
        widths: (L,) number of bytes of each character; 1 at a mark.
        source: The document as bytes, from which this one was made.
    """

    damaged: DamagedDocument
    widths: Ints
    source: DamagedDocument

    @property
    def is_intact(self) -> bool:
        """Whether visible text has non-ASCII characters, so that no encoding can have lost the marked ones.

        By chance, two or three bytes of another encoding are valid UTF-8; they mostly give a character without a token.
        """
        tokens = self.damaged.tokens[self.damaged.tokens != CHARACTERS.mask]
        unknown = int((tokens == CHARACTERS.other).sum())
        is_non_ascii = bool(CHARACTERS.non_ascii[tokens].any())
        return is_non_ascii or unknown > DETECTION.max_unknown_per_mark * len(self.damaged.positions)

    def observe(self) -> Observation:
        """Return the whole document as an observation."""
        return MaskChannel(CHARACTERS.size, 0.5).observe(torch.from_numpy(self.damaged.tokens)[None])


@dataclass(frozen=True)
class SingleExpert:
    """The engine for a team of one expert, which has weight 1 everywhere."""

    def __call__(self, team: Team, observation: Observation, generator: torch.Generator) -> Inferred:
        """Return the constant composition."""
        return Inferred.given(torch.ones(*observation.tokens.shape, 1, dtype=torch.float64))


def vocabulary_for(lost_unit: str) -> CharacterVocabulary:
    """Return the character vocabulary; lost characters are restricted to the encoding that ``lost_unit`` names."""
    encoding = encoding_of(lost_unit)
    return CHARACTERS if encoding is None else CharacterVocabulary(CHARACTERS.repertoire(encoding))


def as_characters(damaged: DamagedDocument) -> CharacterText:
    """Convert a document to characters; it must be UTF-8 between its marks, and have no gap markers."""
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
                f"the document must be UTF-8 between its marks to restore lost characters, but byte {origin} is "
                f"{data[error.start]:#04x}"
            ) from error
        tokens += [encoded.tokens, np.array([CHARACTERS.mask])]
        widths += [encoded.spans[:, 1] - encoded.spans[:, 0], np.array([1])]
        done = stop + 1
    mark_positions = np.cumsum([len(part) for part in tokens])[1:-1:2] - 1
    text = np.concatenate(tokens[:-1]).astype(np.int16)
    marks = damaged.marks
    if lost.sum() != len(marks):
        raise ConservatorError("lost characters can be restored only at marks, but the document has other lost bytes")
    as_text = DamagedDocument(
        text,
        mark_positions,
        damaged.lengths[marks],
        damaged.spans[marks],
        damaged.is_gap[marks],
        damaged.mark,
    )
    return CharacterText(as_text, np.concatenate(widths[:-1]), damaged)


def restore_characters(task: PipelineTask, text: CharacterText) -> Restoration:
    """Restore a document whose marks are non-ASCII characters."""
    options = task.options
    lost_unit = "characters" if options.lost == "auto" else options.lost
    with task.meter.measure() as spent:
        lexicon = Lexicon(texts=task.references.lexicon_texts, vocabulary=vocabulary_for(lost_unit))
        expert = lexicon.condition(text.observe())
        decoding = None
        if len(text.damaged.positions):
            team = Team([expert], task.meter)
            channel = as_channel("mask", CHARACTERS.size)
            observation = observe(text.damaged, channel, team, options.evidence_radius, everywhere=False)
            decoding = infer_and_decode(task, team, text.damaged, observation, SingleExpert())
            rescorer = candidate_rescorer(task)
            if rescorer is not None and decoding.out_of_time is None:
                decoding = rescore_in_time(rescorer, text, decoding, task)
    if decoding is None:
        return build_untouched(task, text.source, (expert.spec.name,), spent.cost, lost_unit)
    marks = text.damaged.positions
    mostly_lost = np.zeros(len(text.damaged.tokens), dtype=bool)
    if not options.fill_undetermined:
        mostly_lost[marks] = find_mostly_lost(text.source.tokens)[text.source.positions[text.source.marks]]
    notices = mostly_lost_notice(int(mostly_lost.sum()))
    rejected = mostly_lost[decoding.positions] | (decoding.text.confidence < options.min_confidence)
    rejected[decoding.text.not_predicted] = True
    damaged, widened, repeats = as_bytes(decoding, text)
    lost = damaged.tokens[widened.positions] == CHARACTERS.mask
    unfilled = widened.positions[lost & np.repeat(rejected, repeats)]
    return build_restoration(task, damaged, widened, unfilled, notices, spent.cost, lost_unit)


def rescore_in_time(
    rescorer: CandidateRescorer, text: CharacterText, decoding: Decoding, task: PipelineTask
) -> Decoding:
    """Rescore decoded characters with language models; at the time limit they stay as they are."""
    damaged, widened, _ = as_bytes(decoding, text)
    data = damaged.tokens.copy()
    data[widened.positions] = widened.text.tokens
    starts, lengths = damaged.positions[damaged.marks], damaged.lengths[damaged.marks]
    ranges = np.stack([starts, starts + lengths], axis=1)
    lost = text.damaged.tokens[decoding.positions] == CHARACTERS.mask
    source = data.astype(np.uint8).tobytes()
    try:
        with task.meter.stage("rescoring"):
            return rescore_characters(rescorer, decoding, lost, source, ranges, task.meter)
    except OutOfTimeError as error:
        return replace(decoding, out_of_time=error.stage)


def as_bytes(decoding: Decoding, text: CharacterText) -> tuple[DamagedDocument, Decoding, Ints]:
    """Convert decoded characters to bytes.

    Args:
        decoding: The decoded characters of ``text.damaged``.
        text: The document.

    Returns:
        The document, in which a mark stands for the bytes of its character; the decoded bytes; and (n,) the number of
        bytes of each character that was read.
    """
    marks, tokens = text.damaged.positions, text.damaged.tokens.astype(np.int64)
    tokens[decoding.positions] = decoding.text.tokens
    characters = [CHARACTERS.decode(tokens[position : position + 1]) for position in marks.tolist()]
    widths = text.widths.copy()
    widths[marks] = list(map(len, characters))
    starts = np.cumsum(widths) - widths
    damaged = text.source.with_widths(widths[marks])
    data = damaged.tokens.astype(np.int64)
    data[damaged.lost] = np.frombuffer(b"".join(characters), dtype=np.uint8)
    repeats = widths[decoding.positions]
    first_bytes = starts[decoding.positions] - (np.cumsum(repeats) - repeats)
    positions = np.repeat(first_bytes, repeats) + np.arange(repeats.sum())
    decoded = replace(
        decoding.text,
        tokens=data[positions],
        confidence=np.repeat(decoding.text.confidence, repeats),
        gate_weights=np.repeat(decoding.text.gate_weights, repeats, axis=0),
    )
    widened = replace(
        decoding,
        positions=positions,
        text=decoded,
        field=np.repeat(decoding.field, repeats, axis=0),
        regions=np.repeat(decoding.regions, repeats),
        provenance={int(starts[position]): source for position, source in decoding.provenance.items()},
    )
    return damaged, widened, repeats


def detect_lost_characters(task: PipelineTask, damage: Damage) -> CharacterText | None:
    """Return the document as characters, if its marks are non-ASCII characters; None if they are bytes."""
    options, models, damaged = task.options, task.models, damage.damaged
    if are_marks_characters(options.lost):
        return as_characters(damaged)
    is_default = options.lost == "auto" and options.mark == DEFAULTS.mark and models.select
    if not is_default or damage.is_uncertain or not len(damaged.lost):
        return None
    try:
        text = as_characters(damaged)
    except ConservatorError:
        return None
    return text if are_characters(text) else None


def are_characters(text: CharacterText) -> bool:
    """Decide whether the marks of a document are non-ASCII characters, by the evidence of the document itself.

    An encoding loses every non-ASCII character, so if one is intact, bytes are lost. If a text in UTF-8 is read as
    ASCII, a character becomes two marks or more: if most marks have a neighbour, bytes are lost, too. Otherwise the
    words with a mark decide. With the frequencies f of words in the document's language, the evidence is

        sum over these words of  log(f(non-ASCII characters at the marks) + non_ascii_rate RARE)
                               - log((f(ASCII letters at the marks) + RARE) / length),

    each term bounded by ``max_word_evidence``. The length enters because any character of a word may have lost its
    byte, while non-ASCII characters have fixed positions. With too little evidence, bytes are lost.
    """
    marks, tokens = text.damaged.positions, text.damaged.tokens
    lengths = np.array([stop - start for start, stop in runs(tokens == CHARACTERS.mask)])
    if not len(marks) or text.is_intact or lengths[lengths > 1].sum() > len(marks) / 2:
        return False
    lexicon = Lexicon().condition(text.observe())
    document = decode_with_marks(tokens.astype(np.int64) * (tokens != CHARACTERS.mask), tokens == CHARACTERS.mask)
    words = [
        word
        for word in WORD.finditer(document)
        if MARK in word[0] and len(word[0].replace(MARK, "")) >= DETECTION.min_ascii_letters
    ]
    words = words[:: max(1, len(words) // DETECTION.max_words)]
    evidence = 0.0
    for word in words:
        non_ascii, ascii_only = word_frequencies(lexicon, document, word.start(), word[0])
        log_odds = math.log(
            (non_ascii + DETECTION.non_ascii_rate * UNLISTED_FREQUENCY)
            * len(word[0])
            / (ascii_only + UNLISTED_FREQUENCY)
        )
        evidence += min(max(log_odds, -DETECTION.max_word_evidence), DETECTION.max_word_evidence)
    return evidence > DETECTION.min_evidence


def word_frequencies(lexicon: LexiconExpert, document: str, start: int, pattern: str) -> tuple[float, float]:
    """Return the frequencies of the words that match a pattern, with non-ASCII characters and with letters as marks.

    Args:
        lexicon: The lexicon expert of the document.
        document: The text, with MARK at lost characters.
        start: Index of the word in the document.
        pattern: The word.
    """
    non_ascii = ascii_only = 0.0
    is_first = begins_sentence(document, start)
    for name, weight in lexicon.language_probs.items():
        non_ascii += weight * lexicon.frequency(name, document, (start, pattern))
        if pattern.count(MARK) == 1:
            for letter in (*LETTERS, *LETTERS.upper()):
                word = pattern.replace(MARK, letter)
                ascii_only += weight * lexicon.languages[name].frequency(word, first=is_first)
    if (
        not non_ascii and sum(map(str.isascii, pattern)) > MIN_ASCII_LETTERS
    ):  # a proper name or a loan word: try all languages
        frequencies = (lexicon.frequency(name, document, (start, pattern)) for name in lexicon.languages)
        non_ascii = DETECTION.other_language_weight * max(frequencies)
    return non_ascii, ascii_only
