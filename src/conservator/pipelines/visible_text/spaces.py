"""Missing and inserted spaces.

The lattice of ``space_lattice`` has the posterior of every gap between two characters. A document is changed only if
inferred rates of errors explain it better than almost no errors do, by ``min_gain`` nats and ``min_gain_per_word``.
Gaps with a certain space separate independent parts of the text; the candidates of a part with an uncertain gap are
its most probable divisions into words.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from heapq import nlargest

import numpy as np

from conservator.arrays import Floats
from conservator.channel_names import SPACES
from conservator.experts.word_ngram import WordFrequencies
from conservator.experts.word_ngram.gaps import is_unspaced, load_gap_shares
from conservator.experts.word_ngram.unseen import load_unseen_words
from conservator.experts.word_ngram.unspaced import identify_unspaced_languages
from conservator.lattice import Lattice
from conservator.pipelines.corrected_text import byte_offsets
from conservator.pipelines.task import PipelineTask
from conservator.pipelines.visible_text.code import code_mask, code_ranges
from conservator.pipelines.visible_text.correction import Proposal, TextChannel, correct_visible_text
from conservator.pipelines.visible_text.coverage import is_covered
from conservator.pipelines.visible_text.space_lattice import (
    MAX_CROSSED,
    MAX_WORD,
    Characters,
    SpaceLattice,
    WordLogProbs,
    build_lattice,
)
from conservator.pipelines.visible_text.words import UNSEEN_PROB, WordScores, model_names
from conservator.results import Restoration

DOUBLED = re.compile(r"(?<=[^\s.!?:;|\u2026])  (?=[^\s|])")
SEVERAL = re.compile(r"\S {3,}\S|\t|\|")  # in the lines of tables
BLOCK = 2000  # characters: of a lattice, up to the end of a line [untuned]
SAMPLE_BLOCKS = 8  # blocks: evenly spaced, for the inference of the rates [untuned]
ROUNDS = 8  # iterations: of expectation maximisation [numerical]
UNLISTED_NATS = 50.0  # nats: of an observed text that is not among the best, below the best one [numerical]
PRIOR_WORDS = 20.0  # words: prior count for the share of unseen words [untuned]
PRIOR_COUNT = 0.5  # gaps: prior count of each observed kind [untuned]
CLEAN = np.log([[1 - 1.1e-5, 1e-5, 1e-6], [1e-4, 0.9989, 1e-3]])  # log-probabilities of observed gaps: clean text
NORMAL = np.log([[0.998, 0.0015, 0.0005], [0.02, 0.97, 0.01]])  # the same, at the start: few errors
MISSING = np.log([[0.998, 0.0015, 0.0005], [0.97, 0.02, 0.01]])  # no spaces
SPACED = np.log([[0.1, 0.88, 0.02], [0.02, 0.18, 0.8]])  # letter-spaced


@dataclass(frozen=True)
class SpacesConfig:
    """Constants of the channel."""

    min_gain: float = 6.0  # nats: of inferred rates over clean text [untuned]
    min_gain_per_word: float = 0.15  # nats: the same, per observed word [LOG: spaces-letter-case-and-broken-words]
    long_run: float = 15.0  # characters: mean length of the words of a text without spaces [untuned]
    short_run: float = 2.0  # characters: mean length of the words of letter-spaced text [untuned]
    certain: float = 0.99  # probability: of a space that separates independent parts [untuned]
    proposed: float = 0.02  # probability: of a change that is proposed [untuned]
    min_doubled: int = 3  # spaces: that are doubled, to change a text without other errors [untuned]
    max_doubled_share: float = 0.2  # ratio: doubled spaces to spaces, in a text that is not a table [untuned]
    doubled_prob: float = 0.95  # probability: a doubled space within a sentence is an error [untuned]
    candidates: int = 6  # candidates: of a part of the text [untuned]


CONFIG = SpacesConfig()


def restore_spaces(task: PipelineTask) -> Restoration:
    """Restore missing spaces of a document, and remove inserted ones."""
    frequencies = WordFrequencies.of(task.document.data, task.references.word_counts)
    text = task.document.data.decode(errors="replace")
    if infer_start(text) is not NORMAL:
        frequencies = replace(frequencies, languages=identify_unspaced_languages(text))
    caution = 1.0 if infer_start(text) is NORMAL else 0.0
    channel = TextChannel(SPACES, lambda text: propose(text, frequencies), model_names(frequencies), caution=caution)
    return correct_visible_text(task, channel)


def propose(text: str, frequencies: WordFrequencies) -> Iterator[Proposal]:
    """Propose the gaps of a text whose spaces are probably wrong."""
    if not is_covered(text, frequencies.languages) or is_unspaced(text):
        return
    model = SpaceModel(frequencies)
    starts = block_starts(text)
    blocks = list(zip(starts, [*starts[1:], len(text)], strict=True))
    start = infer_start(text)
    model.max_crossed = MAX_WORD if start is SPACED else MAX_CROSSED
    model.protects = start is NORMAL
    sample = [blocks[index] for index in np.unique(np.linspace(0, len(blocks) - 1, SAMPLE_BLOCKS).astype(int))]
    lattices = [model.lattice(text[begin:end]) for begin, end in sample]
    rates, unseen, gain = infer_rates(lattices, start)
    words = sum(len(text[begin:end].split()) for begin, end in sample)
    is_damaged = gain >= CONFIG.min_gain + CONFIG.min_gain_per_word * words
    offsets = byte_offsets(text)
    doubled = list(doubled_spaces(text)) if start is NORMAL else []
    if is_damaged or len(doubled) >= CONFIG.min_doubled:
        scores = {b"  ": float(np.log1p(-CONFIG.doubled_prob)), b" ": float(np.log(CONFIG.doubled_prob))}
        yield from (Proposal(offsets[at], offsets[at + 2], scores) for at in doubled)
    if not is_damaged:
        return
    for begin, end in blocks:
        lattice = model.lattice(text[begin:end])
        for first, last, scores in proposals(text[begin:end], lattice, lattice.with_rates(rates, unseen)):
            yield Proposal(offsets[begin + first], offsets[begin + last], scores)


def doubled_spaces(text: str) -> Iterator[int]:
    """Yield the first of each two spaces within a sentence, unless they are frequent, as in tables."""
    mask = code_mask(text)
    pairs = [match.start() for match in DOUBLED.finditer(text) if not mask[match.start()]]
    if len(pairs) <= CONFIG.max_doubled_share * text.count(" "):
        for at in pairs:
            line = text[text.rfind("\n", 0, at) + 1 : text.find("\n", at) % (len(text) + 1)]
            if not SEVERAL.search(line):
                yield at


def infer_start(text: str) -> Floats:
    """Return the rates to start with: few errors, no spaces or letter-spaced text, by the length of the words."""
    lengths = [len(word) for word in text.split() if any(map(str.isalpha, word))]
    mean = float(np.mean(lengths)) if lengths else CONFIG.short_run
    return MISSING if mean > CONFIG.long_run else SPACED if mean < CONFIG.short_run else NORMAL


@dataclass
class SpaceModel:
    """Makes the lattices of the blocks of a text.

    Attributes:
        frequencies: Word frequencies.
        max_crossed: Number of spaces that a word may join.
        protects: Whether addresses, identifiers and codes stay.
    """

    frequencies: WordFrequencies
    max_crossed: int = MAX_CROSSED
    protects: bool = True
    scores: WordScores = field(init=False)

    def __post_init__(self) -> None:
        """Make the scores of words."""
        self.scores = WordScores(self.frequencies)
        self.language = max(self.frequencies.languages, key=lambda name: self.frequencies.languages[name])

    def lattice(self, text: str) -> SpaceLattice:
        """Return the lattice of a block."""
        characters = Characters.of(text, list(code_ranges(text)) if self.protects else (), keep_several=self.protects)
        words = WordLogProbs(characters.text, self.scores, load_unseen_words(self.language))
        return build_lattice(characters, words, load_gap_shares(self.language), self.max_crossed)


def block_starts(text: str) -> list[int]:
    """Return the first characters of blocks of whole lines, about BLOCK characters long."""
    starts = [0]
    while starts[-1] + BLOCK < len(text):
        end = text.find("\n", starts[-1] + BLOCK)
        if end < 0 or end + 1 >= len(text):
            break
        starts.append(end + 1)
    return starts


def infer_rates(lattices: list[SpaceLattice], start: Floats) -> tuple[Floats, float, float]:
    """Infer the rates by expectation maximisation.

    Returns:
        log p(k | z) (2, 3), the share of unseen words, and the gain of log-likelihood over clean text.
    """
    rates, unseen, total = start, UNSEEN_PROB, -np.inf
    for _ in range(ROUNDS):
        weighted = [(lattice, lattice.with_rates(rates, unseen)) for lattice in lattices]
        total = sum(sums.log_total for _, sums in weighted)
        counts = sum((lattice.gap_counts(sums) for lattice, sums in weighted), np.full((2, 3), PRIOR_COUNT))
        rates = np.log(counts / counts.sum(axis=1, keepdims=True))
        words = np.array([lattice.unseen_count(sums, unseen) for lattice, sums in weighted]).sum(axis=0)
        unseen = float((words[0] + PRIOR_WORDS * UNSEEN_PROB) / (words[1] + PRIOR_WORDS))
    clean = sum(lattice.with_rates(CLEAN, unseen).log_total for lattice in lattices)
    return rates, unseen, total - clean


def proposals(
    text: str, space_lattice: SpaceLattice, lattice: Lattice
) -> Iterator[tuple[int, int, dict[bytes, float]]]:
    """Yield the range of characters and the candidates of each part of a block that may change."""
    characters = space_lattice.characters
    probs, decided = space_lattice.space_probs(lattice), space_lattice.decided
    observed = characters.gaps > 0
    changed = np.where(observed, 1 - probs, probs) * decided
    numbers = np.arange(len(probs))
    is_edge = np.isin(2 * numbers, lattice.targets) & np.isin(2 * numbers - 1, lattice.targets)
    is_edge[:1] = True
    at = np.flatnonzero(is_edge & ((probs >= CONFIG.certain) | ~decided)).tolist()
    positions = characters.positions
    for index in at:
        first, last = int(positions[index - 1]) + 1 if index else 0, int(positions[index])
        if decided[index] and last - first > 1:  # in letter-spaced text; otherwise such gaps are not decided
            yield first, last, {text[first:last].encode(): float(np.log(max(1 - probs[index], 1e-9))), b" ": 0.0}
        elif decided[index] and changed[index] >= CONFIG.proposed:
            odds = np.log(max(changed[index], 1e-300)) - np.log(max(1 - changed[index], 1e-300))
            yield first, last, {text[first:last].encode(): 0.0, b" ": float(odds)}
    for begin, end in zip(at, [*at[1:], len(characters.text)], strict=True):
        if end - begin > 1 and (changed[begin + 1 : end] >= CONFIG.proposed).any():
            candidates = divisions(space_lattice, lattice, begin, end)
            first, last = int(positions[begin]), int(positions[end - 1]) + 1
            if candidates:
                yield first, last, candidates_of(text[first:last], space_lattice, candidates, begin, end)


def divisions(
    space_lattice: SpaceLattice, lattice: Lattice, begin: int, end: int
) -> list[tuple[float, tuple[int, ...]]]:
    """Return the best paths from character ``begin`` to ``end``: log-score and gaps with a space."""
    _, _, _, _, gaps, states = space_lattice.arrays
    first, last = np.searchsorted(lattice.sources, (2 * begin, 2 * end - 1)).tolist()
    paths: dict[int, list[tuple[float, tuple[int, ...]]]] = {2 * begin: [(0.0, ())]}
    for arc in range(first, last):
        source, target = int(lattice.sources[arc]), int(lattice.targets[arc])
        if source in paths and target <= 2 * end - 1:
            if len(paths[source]) > CONFIG.candidates:
                paths[source] = nlargest(CONFIG.candidates, paths[source])
            spaces = tuple(int(gap) for gap, z in zip(gaps[arc], states[arc], strict=True) if gap >= 0 and z)
            paths.setdefault(target, []).extend(
                (score + float(lattice.scores[arc]), (*path, *spaces)) for score, path in paths[source]
            )
    return nlargest(CONFIG.candidates, paths.get(2 * end - 1, []))


def candidates_of(
    observed: str, space_lattice: SpaceLattice, paths: list[tuple[float, tuple[int, ...]]], begin: int, end: int
) -> dict[bytes, float]:
    """Return the texts of paths and their log-scores; the first one is the observed text."""
    characters, decided = space_lattice.characters, space_lattice.decided
    first, blanks = characters.positions[begin], {}
    for index in range(begin + 1, end):
        before, at = characters.positions[index - 1 : index + 1] - first
        blanks[index] = observed[before + 1 : at]
    scores = {observed.encode(): max(score for score, _ in paths) - UNLISTED_NATS}
    for score, path in paths:
        spaces, pieces = set(path), [characters.text[begin]]
        for index, blank in blanks.items():
            pieces += [blank if not decided[index] else " " if index in spaces else ""]
            pieces.append(characters.text[index])
        data = "".join(pieces).encode()
        scores[data] = max(score, scores.get(data, -np.inf))
    return scores
