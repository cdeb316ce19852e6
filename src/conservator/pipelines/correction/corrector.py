"""Correct a text with OCR errors, line by line, with character n-gram models as the prior.

The OCR error rate of each document is inferred: it is the multiple of the channel's rate at which the expected number
of edits agrees with the channel, so that a clean text is left unchanged. Line ends are kept, and so are blanks next to
blanks. OCR confidences are used if there are any. A mark stands for one lost character, which the prior alone restores.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from conservator.arrays import Floats
from conservator.channels.edits import EditChannel
from conservator.channels.ocr_confidence import OcrConfidence
from conservator.decoders.edits import ArcTable, Beam, Change, find_changes, find_uncertain_spans
from conservator.decoders.edits.changes import expected_edits
from conservator.documents import splice
from conservator.experts.char_ngram import REFERENCES, WORDS, CharNgramMixture
from conservator.experts.meter import Meter, OutOfTimeError
from conservator.pipelines.candidate_scores import CandidateRescorer
from conservator.pipelines.correction.acceptance import Acceptance
from conservator.pipelines.correction.coverage import COVERAGE, Coverage, mean_surprisal
from conservator.pipelines.correction.rescoring import (
    CORRECTION_RESCORING,
    LineSpan,
    list_alternatives,
    posterior,
    rescore_corrections,
)
from conservator.pipelines.correction.rescoring import find_changes as find_span_changes
from conservator.pipelines.references import STRAIGHT_QUOTES

LINE_END = re.compile(r"(\r\n|[\n\r\f\v\x85\u2028\u2029])")


@dataclass(frozen=True)
class CorrectorConfig:
    """Constants of the correction."""

    max_line_length: int = 400  # characters: longer lines are corrected in parts [safety limit]
    rate_sample: int = 4000  # characters: sample from which the error rate is inferred [untuned]
    rate_iterations: int = 3  # iterations: of that inference [untuned]
    min_rate: float = 1 / 64  # ratio: lower bound of the rate relative to the channel's [LOG: ocr-correction]
    max_rate: float = 4.0  # ratio: upper bound of it [untuned]
    prior_edits: float = 0.2  # edits: pseudo-count at the rate of the channel [untuned]
    min_model_weight: float = 0.05  # weight: models with a smaller mean weight are not used [untuned]
    word_weight: float = 0.1  # weight: of the words of the user, if there are any [LOG: words-of-the-user]
    fit_sample: int = 20_000  # characters: sample for the mean weights of the models [untuned]


CORRECTOR = CorrectorConfig()


@dataclass(frozen=True)
class Correction:
    """A corrected text.

    Attributes:
        observed: The text before the correction.
        changes: The changes, in order; their positions refer to ``observed``.
        rate: OCR error rate, as a multiple of the channel's.
        names: Names of the character models that were used.
        weights: Their mean weights.
        uncovered: Share of the text that no model covers; it was left unchanged.
        out_of_time: Stage that the time limit interrupted; None if there was enough time.
    """

    observed: str
    changes: tuple[Change, ...]
    rate: float
    names: tuple[str, ...]
    weights: tuple[float, ...]
    uncovered: float = 0.0
    out_of_time: str | None = None

    @property
    def text(self) -> str:
        """The corrected text."""
        return apply_changes(self.observed, self.changes)


class Corrector:
    """A channel and character models; corrects any number of texts."""

    def __init__(
        self,
        channel: EditChannel,
        prior: CharNgramMixture,
        beam: Beam | None = None,
        min_log_odds: float = 2.0,
        min_confidence: float = 0.0,
        mark: str | None = None,
        rescorer: CandidateRescorer | None = None,
        reference_tokens: frozenset[str] = frozenset(),
        alternatives: int = 0,
    ) -> None:
        """Store the models and the conditions of changes.

        Args:
            channel: The OCR errors.
            prior: Character models; each text uses those that predict it well. A model WORDS is always used, with a
                fixed weight, and does not count for coverage.
            beam: The search over a line.
            min_log_odds: Minimum log-odds of a change, in nats.
            min_confidence: Minimum probability of a change.
            mark: Text that stands for one lost character; None if there are no marks.
            rescorer: Language models or experts that rescore uncertain spans; None disables rescoring.
            reference_tokens: Tokens of reference texts; changes of numbers, addresses and identifiers must result in
                one of them.
            alternatives: Number of alternative texts of each change.
        """
        others = [index for index, name in enumerate(prior.names) if name != WORDS]
        self.words = prior.subset([prior.names.index(WORDS)]) if WORDS in prior.names else None
        self.channel, self.prior, self.beam = channel, prior.subset(others), beam or Beam()
        self.min_log_odds, self.min_confidence, self.mark, self.rescorer = min_log_odds, min_confidence, mark, rescorer
        self.reference_tokens, self.alternatives = reference_tokens, alternatives

    def correct(
        self,
        text: str,
        meter: Meter | None = None,
        ocr_confidence: OcrConfidence | None = None,
        protected: Sequence[tuple[int, int]] = (),
    ) -> Correction:
        """Correct a text.

        At the time limit, finished lines keep their changes and all others stay as observed; without time for
        rescoring, the result is that of the character models.

        Args:
            text: The observed text.
            meter: Reports progress and enforces the time limit.
            ocr_confidence: OCR confidence of each character of the text.
            protected: Ranges of characters that stay unchanged, in order; they separate the text like line ends.

        Raises:
            OutOfTimeError: no line was finished.
        """
        normalized = self.normalize_quotes(text)
        meter, mixture = meter or Meter(), self.fit_mixture(normalized)
        mark = self.mark if self.mark and self.mark in text else None
        has_references = self.has_related_references(normalized, mixture)
        marks = [match.span() for match in re.finditer(re.escape(mark), text)] if mark else []
        coverage = Coverage(normalized, mixture, [*marks, *protected], has_references=has_references)
        lines = [
            (start, line)
            for start, line in split_lines(normalized, protected)
            if coverage.covered[start : start + len(line)].any()
        ]
        uncovered = coverage.uncovered_share(text)
        if not lines:
            return Correction(text, (), 0.0, (), (), uncovered)
        reference_weight = float(mixture.weights[[name == REFERENCES for name in mixture.names]].sum())
        if self.words is not None:
            mixture = mixture.add(self.words, CORRECTOR.word_weight)
        rate = self.infer_rate(lines, mixture, ocr_confidence, mark, meter)
        acceptance = Acceptance(
            text,
            coverage,
            reference_weight if has_references else 0.0,
            self.reference_tokens,
            self.mark,
            self.min_log_odds,
            self.min_confidence,
        )
        table, changes, uncertain = self.arc_table(rate, mixture, mark), list[Change](), list[LineSpan]()
        posteriors: list[Floats] = []
        context, done, out_of_time = "\n", 0, None
        names, weights = mixture.names, mixture.weights
        try:
            for start, line in meter.steps(lines):
                context += normalized[done:start]
                arcs = table.of(line, ocr_confidence and ocr_confidence.part(start, start + len(line)))
                lattice = self.beam.search(mixture, arcs, context)
                proposed = find_changes(text[start : start + len(line)], lattice, arcs)
                accepted = acceptance.select(shift_change(change, start) for change in proposed)
                changes += accepted
                if self.rescorer is not None or self.alternatives:
                    uncertain += [LineSpan(start, span, arcs) for span in find_uncertain_spans(line, lattice, arcs)]
                context = apply_changes(line, [shift_change(change, -start) for change in accepted])
                done = start + len(line)
            if self.rescorer is not None:
                with meter.stage("rescoring"):
                    posteriors = rescore_corrections(self.rescorer, text, uncertain, meter)
                changes = acceptance.select(
                    change
                    for pair in zip(uncertain, posteriors, strict=True)
                    for change in find_span_changes(text, *pair)
                )
                experts = self.rescorer.experts
                prior_weight = self.beam.lm_weight / (self.beam.lm_weight + CORRECTION_RESCORING.language_model_weight)
                names = (*names, *(expert.spec.name for expert in experts))
                model_weights = np.full(len(experts), (1 - prior_weight) / len(experts))
                weights = np.append(prior_weight * weights, model_weights)
        except OutOfTimeError as error:
            if not done:
                raise
            out_of_time = error.stage
        if self.alternatives:
            posteriors = posteriors or [posterior(span.scores) for span in uncertain]
            changes = [
                replace(change, alternatives=list_alternatives(change, uncertain, posteriors, self.alternatives))
                for change in changes
            ]
        return Correction(text, tuple(changes), rate, names, tuple(weights.tolist()), uncovered, out_of_time)

    def fit_mixture(self, text: str) -> CharNgramMixture:
        """Return the models that predict a text well, with their mean weights in it."""
        half = CORRECTOR.fit_sample // 2
        sample = self.remove_marks(text[:half] + text[max(half, len(text) - half) :])
        full = self.prior.fit_weights(sample or " ")
        active = np.flatnonzero(full.weights >= CORRECTOR.min_model_weight).tolist()
        return full if len(active) == len(full.names) else self.prior.subset(active).fit_weights(sample or " ")

    def arc_table(self, rate: float, mixture: CharNgramMixture, mark: str | None) -> ArcTable:
        """Return the arcs of the channel at ``rate`` times its error rate, and of marks."""
        return ArcTable(self.channel.scale_error_rate(rate), mark, mixture.alphabet.replace(mark, "") if mark else "")

    def infer_rate(
        self,
        lines: Sequence[tuple[int, str]],
        mixture: CharNgramMixture,
        ocr_confidence: OcrConfidence | None,
        mark: str | None,
        meter: Meter,
    ) -> float:
        """Infer the error rate, as a multiple of the channel's, at which it predicts the expected number of edits."""
        sample, size = list[tuple[int, str]](), 0
        for index in np.random.default_rng(0).permutation(len(lines)).tolist():
            if size >= CORRECTOR.rate_sample:
                break
            sample.append(lines[index])
            size += len(lines[index][1])
        channel_edits = sum(
            1 - self.channel.keep_prob(character) for _, line in sample for character in self.remove_marks(line)
        )
        rate = 1.0
        for _ in range(CORRECTOR.rate_iterations):
            table, edits = self.arc_table(rate, mixture, mark), 0.0
            for start, line in sample:
                meter.check()
                arcs = table.of(line, ocr_confidence and ocr_confidence.part(start, start + len(line)))
                edits += expected_edits(self.beam.search(mixture, arcs, "\n"), arcs)
            ratio = (edits + CORRECTOR.prior_edits) / (channel_edits + CORRECTOR.prior_edits)
            rate = float(np.clip(ratio, CORRECTOR.min_rate, CORRECTOR.max_rate))
        return rate

    def has_related_references(self, text: str, mixture: CharNgramMixture) -> bool:
        """Return whether there are reference texts of the same kind: without them the text is predicted worse."""
        others = [index for index, name in enumerate(self.prior.names) if name != REFERENCES]
        sample = self.remove_marks(text[: CORRECTOR.fit_sample])
        if not others or len(others) == len(self.prior.names) or not sample:
            return len(others) < len(self.prior.names)
        without = self.prior.subset(others).fit_weights(sample)
        benefit = mean_surprisal(sample, without) - mean_surprisal(sample, mixture)
        return benefit >= COVERAGE.min_reference_benefit

    def normalize_quotes(self, text: str) -> str:
        """Replace curly quotation marks by straight ones, unless reference texts have curly ones.

        The built-in models were trained on straight ones, and treat every curly one as an error.
        """
        has_curly = any("\u2019" in token for token in self.reference_tokens)
        return text if has_curly else text.translate(STRAIGHT_QUOTES)

    def remove_marks(self, text: str) -> str:
        """Return a text without its marks."""
        return text.replace(self.mark, "") if self.mark else text


def split_lines(text: str, protected: Sequence[tuple[int, int]] = ()) -> Iterator[tuple[int, str]]:
    """Yield (start, line) of the lines of a text that are not blank; long lines are split after a space.

    Args:
        text: The text.
        protected: Ranges that are in no line.
    """
    bounds = [0, *(bound for span in protected for bound in span), len(text)]
    for start, stop in zip(bounds[::2], bounds[1::2], strict=True):
        for line_start, line in split_unprotected_lines(text[start:stop]):
            yield start + line_start, line


def split_unprotected_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (start, line) of the lines of a text that are not blank."""
    line_start = 0
    for part in LINE_END.split(text):
        if part.strip() and not LINE_END.fullmatch(part):
            done = 0
            while done < len(part):
                stop = min(len(part), done + CORRECTOR.max_line_length)
                space = part.rfind(" ", done, stop)
                if stop < len(part) and space > done:
                    stop = space + 1
                yield line_start + done, part[done:stop]
                done = stop
        line_start += len(part)


def shift_change(change: Change, offset: int) -> Change:
    """Return a change with its positions shifted by an offset."""
    return replace(change, start=change.start + offset, stop=change.stop + offset)


def apply_changes(text: str, changes: Sequence[Change]) -> str:
    """Return a text with changes made."""
    return splice(text, ((change.start, change.stop, change.text) for change in changes))
