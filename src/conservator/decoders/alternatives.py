"""The best joint fills of a gap: a beam search that predicts each token given those that are filled in before it."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from conservator.channels import Observation
from conservator.decoders.text import DecodedText, apply_erasure_likelihood, sealed
from conservator.errors import ConservatorError
from conservator.experts import PAD, Context, Team
from conservator.field import Inferred
from conservator.numerics import runs
from conservator.vocabularies import Constraint

REACH = 64  # positions that are read on either side of a gap
LONGEST = 64  # positions of a gap: a longer one has too many fills for any of them to be likely
MARGIN = 2 * REACH + LONGEST  # positions that are read at once
FAR = 8.0  # nats; a beginning that is less likely than the best by more than this is dropped
LIKELY = 0.5  # the confidence from which what was decoded in other gaps is read
NARROWEST = 4  # the least number of beginnings that are kept, even if fewer fills are asked for

Span = tuple[int, int]


@dataclass(frozen=True)
class Candidate:
    """A way to fill a gap.

    Attributes:
        data: its text.
        probability: the joint probability of its tokens, given what is visible.
    """

    data: bytes
    probability: float


@dataclass(frozen=True)
class Beginning:
    """The first tokens of a fill: their log-probability, and the states that the constraint may be in after them."""

    tokens: tuple[int, ...]
    score: float
    states: int


def best_candidates(
    team: Team, observation: Observation, inferred: Inferred, decoded: DecodedText, count: int
) -> list[tuple[Candidate, ...]]:
    """The fill that each run of lost tokens got, then its most likely other joint fills: ``count`` in all.

        p(x_1 ... x_n | visible) = prod_k p(x_k | visible, x_1 ... x_{k-1}),   with a new prediction for each factor

    In other gaps, the tokens that were decoded with more confidence are visible, and the rest stays hidden. With a fill
    in its place, the text can still satisfy the constraint. A run longer than LONGEST gets no fills.

    Args:
        team: m experts.
        observation: the document (1, L), without doubtful tokens.
        inferred: its inferred composition.
        decoded: its decoded text.
        count: how many fills of each gap.
    """
    constraint, log_probs = team.vocabulary.constraint, decoded.log_probs
    if constraint is None:
        raise ConservatorError("the vocabulary of these experts has no text, so nothing can be filled in")
    lost = observation.lost[0].numpy()
    spans, row = runs(lost), np.cumsum(lost) - 1
    visible = np.where(lost, team.vocabulary.mask, observation.readable[0].numpy())
    forward, backward = constraint.reachable(sealed(constraint, visible, observation))
    short = [span for span in spans if span[1] - span[0] <= LONGEST]
    beams = {span: [Beginning((), 0.0, int(forward[span[0]]))] for span in short}
    likely = np.where(decoded.confidence < LIKELY, team.vocabulary.mask, decoded.tokens)
    reader = BeamReader(team, observation, inferred, likely)
    for step in team.meter.steps(range(max((stop - start for start, stop in short), default=0))):
        growing = [span for span in short if step < span[1] - span[0]]
        single = [span for span in growing if span[1] - span[0] == 1]
        predicted = {span: log_probs[row[span[0]]][None].double().numpy() for span in single}
        predicted |= reader.predict({span: beams[span] for span in growing if span not in predicted})
        for start, stop in growing:
            allowed, own = int(backward[start + step + 1]), tuple(decoded.tokens[start : start + step + 1].tolist())
            grown = grow(beams[start, stop], predicted[start, stop], allowed, max(count, NARROWEST), constraint, own)
            best = max(one.score for one in grown)
            whole = start + step + 1 == stop
            beams[start, stop] = [one for one in grown if whole or one.tokens == own or one.score > best - FAR]
    decode = team.vocabulary.decode
    return [
        tuple(Candidate(decode(np.array(one.tokens)), float(np.exp(one.score))) for one in beams.get(span, [])[:count])
        for span in spans
    ]


def grow(
    beam: list[Beginning],
    log_probs: NDArray[np.float64],
    allowed: int,
    width: int,
    constraint: Constraint,
    own: tuple[int, ...],
) -> list[Beginning]:
    """Append a token to each beginning, and keep the beginning of the text's own fill and the most likely others.

    A token after which no text is allowed gets probability 0, and the other probabilities are renormalised.

    Args:
        beam: k beginnings.
        log_probs: (k, V) the predictions of the next token after each.
        allowed: the set of states, as bits, from which the tokens that follow are allowed.
        width: how many to keep.
        constraint: that of the vocabulary.
        own: the first tokens of the fill that the text has; this beginning comes first.
    """
    grown = []
    for one, rows in zip(beam, log_probs, strict=True):
        states = constraint.next_states(one.states) & allowed
        scores = np.where(states > 0, rows, -np.inf)
        scores = one.score + scores - np.logaddexp.reduce(scores)
        likely = np.argsort(-scores, kind="stable")[:width].tolist()
        for token in dict.fromkeys([own[-1], *likely] if one.tokens == own[:-1] else likely):
            if np.isfinite(scores[token]):
                grown.append(Beginning((*one.tokens, token), float(scores[token]), int(states[token])))
    grown.sort(key=lambda one: (one.tokens != own, -one.score, one.tokens))
    return grown[:width]


@dataclass(frozen=True)
class BeamReader:
    """Predicts the next token after each beginning, from the text around its gap.

    Attributes:
        team: m experts.
        observation: the document (1, L).
        inferred: its inferred composition.
        context: (L,) the tokens that are known or were decoded with more confidence, else the mask.
    """

    team: Team
    observation: Observation
    inferred: Inferred
    context: NDArray[np.int64]

    def predict(self, beams: dict[Span, list[Beginning]]) -> dict[Span, NDArray[np.float64]]:
        """The log-probabilities (k, V) of the next token after each of the k beginnings of each gap."""
        jobs = [(span, one) for span, beam in beams.items() for one in beam]
        found: dict[Span, list[NDArray[np.float64]]] = {span: [] for span in beams}
        size = min(MARGIN, self.team.context)
        batch = self.team.sequences_at_once(size)
        for begin in range(0, len(jobs), batch):
            part = jobs[begin : begin + batch]
            for (span, _), row in zip(part, self._read(part, size), strict=True):
                found[span].append(row)
        return {span: np.stack(rows) for span, rows in found.items()}

    def _read(self, jobs: list[tuple[Span, Beginning]], size: int) -> NDArray[np.float64]:
        """The log-probabilities for some beginnings, from one batch of windows of at most ``size`` positions."""
        mask, context = self.team.vocabulary.mask, self.context
        rows = torch.full((len(jobs), size), PAD)
        places, positions, starts = [], [], []
        for line, ((first, last), one) in enumerate(jobs):
            place = first + len(one.tokens)
            # As much of the text as fits, on both sides of the position that is predicted.
            start = max(0, min(max(first - REACH, place - size // 2), len(context) - size))
            stop = min(len(context), last + REACH, start + size)
            text = context[start:stop].copy()
            text[max(first - start, 0) : last - start] = mask
            filled = [token for at, token in enumerate(one.tokens, first) if at >= start]
            text[place - start - len(filled) : place - start] = filled
            rows[line, : stop - start] = torch.from_numpy(text)
            places.append(place - start)
            positions.append(place)
            starts.append(start)
        rows = rows[:, : int((rows != PAD).sum(-1).max())]
        hidden, start_of = rows == mask, torch.tensor(starts)
        if self.observation.excerpt is not None:
            start_of = self.observation.excerpt.positions[start_of]
        at = torch.arange(len(jobs)), torch.tensor(places)
        asked = self.inferred.composition.asked()[0, positions]
        around = Context(rows.masked_fill(hidden, 0), hidden, start=start_of)
        predictions = self.team.predict(around, at, asked=asked).float()
        sequence = torch.zeros(len(jobs), dtype=torch.long)
        mixed = self.inferred.composition.log_probs(predictions, sequence, torch.tensor(positions))
        return apply_erasure_likelihood(self.observation, mixed, sequence, torch.tensor(positions)).double().numpy()
