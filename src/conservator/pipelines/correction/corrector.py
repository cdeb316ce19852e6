"""Correct a text that may be wrong anywhere, line by line, with models of characters as the prior.

How often the reader erred in this document is inferred from it: the rate of the channel is the one at which as many
edits are expected as it says, so that a clean text is left alone. Line ends stay where they are, and so do blanks
beside others. What the reader said of each character counts, where it said anything. A mark stands for one lost
character, which the prior alone restores.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from conservator.channels.edits import EditChannel
from conservator.channels.ocr_confidence import OcrConfidence
from conservator.decoders.edits import ArcTable, Beam, Change, find_changes, find_stretches
from conservator.decoders.edits.changes import expected_edits
from conservator.experts.char_ngram import REFERENCES, CharNgramMixture
from conservator.experts.meter import Meter, OutOfTimeError
from conservator.pipelines.correction.acceptance import Acceptance
from conservator.pipelines.correction.coverage import BENEFIT, Coverage, mean_surprisal
from conservator.pipelines.correction.rescoring import WEIGHT, Doubt, correct_again
from conservator.pipelines.rescoring import Rescorer

LINE_END = re.compile(r"(\r\n|[\n\r\f\v\x85\u2028\u2029])")
LONGEST = 400  # characters of a line that are corrected at once
SAMPLE = 4000  # characters from which the rate is inferred
ROUNDS = 3  # of that
RATES = 1 / 64, 4.0  # the least and the largest rate
PRIOR = 0.2  # edits that count as seen at the rate of the channel
HEARD = 0.05  # the least mean weight of a model that is asked
STRAIGHT = str.maketrans("\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f", "'" * 4 + '"' * 4)
FITTED = 20_000  # characters to which the mean weights of models are fitted


@dataclass(frozen=True)
class Correction:
    """A corrected text.

    Attributes:
        seen: the text as it was.
        changes: what was changed, in order; their places are those of ``seen``.
        rate: how often the reader erred, as a multiple of what the channel says.
        names: of the models of characters that were asked.
        weights: their mean weights.
        uncovered: the share of the text whose language or kind no model covers; it was left unchanged.
        out_of_time: the stage in which time ran out; None if it did not.
    """

    seen: str
    changes: tuple[Change, ...]
    rate: float
    names: tuple[str, ...]
    weights: tuple[float, ...]
    uncovered: float = 0.0
    out_of_time: str | None = None

    @property
    def text(self) -> str:
        """The text as it is now."""
        return self.rewritten(self.changes)

    def rewritten(self, changes: Sequence[Change]) -> str:
        """The text with some changes."""
        return apply(self.seen, changes)


class Corrector:
    """A channel and models of characters; corrects any number of texts."""

    def __init__(
        self,
        channel: EditChannel,
        prior: CharNgramMixture,
        beam: Beam | None = None,
        min_log_odds: float = 2.0,
        min_confidence: float = 0.0,
        mark: str | None = None,
        rewriter: Rescorer | None = None,
        attested: frozenset[str] = frozenset(),
    ) -> None:
        """Take what texts are corrected by.

        Args:
            channel: how the reader errs.
            prior: models of characters, of which each text gets those that know it.
            beam: how a line is searched.
            min_log_odds: by how many nats the evidence must favour a change.
            min_confidence: how probable a change must be.
            mark: what stands for one lost character; None if nothing does.
            rewriter: language models, which judge what is in doubt.
            attested: the tokens of reference texts, which a change may write into numbers, addresses and identifiers.
        """
        self.channel, self.prior, self.beam = channel, prior, beam or Beam()
        self.min_log_odds, self.min_confidence, self.mark, self.rewriter = min_log_odds, min_confidence, mark, rewriter
        self.attested = attested

    def correct(self, text: str, meter: Meter | None = None, ocr_confidence: OcrConfidence | None = None) -> Correction:
        """Correct a text.

        If time runs out, the lines that are done keep their changes, and all others stay as they were seen; what
        language models have not judged by then is as the models of characters have it. If no line is done, there is
        nothing to keep, and the OutOfTimeError is raised.

        Args:
            text: what was seen.
            meter: is told of the progress, and says when time is over.
            ocr_confidence: what the reader said of each character of the text.
        """
        read = self.folded(text)
        meter, mixture = meter or Meter(), self.choose(read)
        mark = self.mark if self.mark and self.mark in text else None
        related = self.has_related_references(read, mixture)
        coverage = Coverage(read, mixture, mark, reference_index=related)
        pieces = [(start, piece) for start, piece in cut(read) if coverage.covered[start : start + len(piece)].any()]
        uncovered = coverage.uncovered_share(text)
        if not pieces:
            return Correction(text, (), 0.0, (), (), uncovered)
        rate = self.infer_rate(pieces, mixture, ocr_confidence, mark, meter)
        reference_index = float(mixture.weights[[name == REFERENCES for name in mixture.names]].sum())
        limits = self.min_log_odds, self.min_confidence
        acceptance = Acceptance(text, coverage, reference_index if related else 0.0, self.attested, self.mark, *limits)
        table, found, doubts = self.table(rate, mixture, mark), list[Change](), list[Doubt]()
        before, done, out_of_time = "\n", 0, None
        names, weights = mixture.names, mixture.weights
        try:
            for start, piece in meter.steps(pieces):
                before += read[done:start]
                steps = table.of(piece, ocr_confidence and ocr_confidence.part(start, start + len(piece)))
                lattice = self.beam.search(mixture, steps, before)
                changes = find_changes(text[start : start + len(piece)], lattice, steps)
                kept = acceptance.keep(moved(change, start) for change in changes)
                found += kept
                if self.rewriter is not None:
                    doubts += [Doubt(start, stretch, steps) for stretch in find_stretches(piece, lattice, steps)]
                before, done = apply(piece, [moved(one, -start) for one in kept]), start + len(piece)
            if self.rewriter is not None:
                with meter.stage("writing again"):
                    found = acceptance.keep(correct_again(self.rewriter, text, doubts, meter))
                experts = self.rewriter.experts
                own = self.beam.scale / (self.beam.scale + WEIGHT)
                names = (*names, *(one.spec.name for one in experts))
                weights = np.append(own * weights, np.full(len(experts), (1 - own) / len(experts)))
        except OutOfTimeError as error:
            if not done:
                raise
            out_of_time = error.stage
        return Correction(text, tuple(found), rate, names, tuple(weights.tolist()), uncovered, out_of_time)

    def choose(self, text: str) -> CharNgramMixture:
        """The models that know a text, with their mean weights in it."""
        sample = self.unmarked(text[: FITTED // 2] + text[max(FITTED // 2, len(text) - FITTED // 2) :])
        every = self.prior.fitted(sample or " ")
        heard = np.flatnonzero(every.weights >= HEARD).tolist()
        return every if len(heard) == len(every.names) else self.prior.only(heard).fitted(sample or " ")

    def table(self, rate: float, mixture: CharNgramMixture, mark: str | None) -> ArcTable:
        """The steps of a reader that errs ``rate`` times as often as the channel says, and of marks."""
        return ArcTable(self.channel.scale_error_rate(rate), mark, mixture.alphabet.replace(mark, "") if mark else "")

    def infer_rate(
        self,
        pieces: Sequence[tuple[int, str]],
        mixture: CharNgramMixture,
        ocr_confidence: OcrConfidence | None,
        mark: str | None,
        meter: Meter,
    ) -> float:
        """The rate at which as many edits are expected in a sample as the channel says."""
        sample, size = list[tuple[int, str]](), 0
        for number in np.random.default_rng(0).permutation(len(pieces)).tolist():
            if size >= SAMPLE:
                break
            sample.append(pieces[number])
            size += len(pieces[number][1])
        usual = sum(1 - self.channel.keep_prob(character) for _, piece in sample for character in self.unmarked(piece))
        rate = 1.0
        for _ in range(ROUNDS):
            table, edits = self.table(rate, mixture, mark), 0.0
            for start, piece in sample:
                meter.check()
                steps = table.of(piece, ocr_confidence and ocr_confidence.part(start, start + len(piece)))
                edits += expected_edits(self.beam.search(mixture, steps, "\n"), steps)
            rate = float(np.clip((edits + PRIOR) / (usual + PRIOR), *RATES))
        return rate

    def has_related_references(self, text: str, mixture: CharNgramMixture) -> bool:
        """Whether there are reference texts of the same kind as a text: the other models alone predict it worse."""
        others = [number for number, name in enumerate(self.prior.names) if name != REFERENCES]
        sample = self.unmarked(text[:FITTED])
        if not others or len(others) == len(self.prior.names) or not sample:
            return len(others) < len(self.prior.names)
        without = self.prior.only(others).fitted(sample)
        return mean_surprisal(sample, without) - mean_surprisal(sample, mixture) >= BENEFIT

    def folded(self, text: str) -> str:
        """The text as the models read it: straight quotation marks, unless reference texts have curly ones.

        The shipped models were trained on straight ones, and would call every curly one an error.
        """
        return text if any("\u2019" in token for token in self.attested) else text.translate(STRAIGHT)

    def unmarked(self, text: str) -> str:
        """A text without its marks."""
        return text.replace(self.mark, "") if self.mark else text


def cut(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a text that are not blank, and where each begins; a long line in pieces that end with a space."""
    start = 0
    for part in LINE_END.split(text):
        if part.strip() and not LINE_END.fullmatch(part):
            done = 0
            while done < len(part):
                stop = min(len(part), done + LONGEST)
                space = part.rfind(" ", done, stop)
                if stop < len(part) and space > done:
                    stop = space + 1
                yield start + done, part[done:stop]
                done = stop
        start += len(part)


def moved(change: Change, by: int) -> Change:
    """A change of a part of a text as a change of the text, or the reverse."""
    return replace(change, start=change.start + by, stop=change.stop + by)


def apply(text: str, changes: Sequence[Change]) -> str:
    """A text with changes made."""
    parts, done = [], 0
    for change in changes:
        parts += [text[done : change.start], change.text]
        done = change.stop
    return "".join([*parts, text[done:]])
