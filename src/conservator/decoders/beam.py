"""The best joint fills of a gap: a beam search that predicts each token given those that are filled in before it."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from conservator.channels import Observation
from conservator.decoders.text import DecodedText, sealed
from conservator.errors import ConservatorError
from conservator.experts import PAD, Context, Team
from conservator.field import Inferred
from conservator.numerics import runs
from conservator.vocabularies import Constraint

REACH = 96  # positions that are read on either side of a gap
LONGEST = 64  # positions of a gap: a longer one has too many fills for any of them to be likely
MARGIN = 2 * REACH + LONGEST  # positions that are read at once
FAR = 8.0  # nats; a beginning that is less likely than the best by more than this is dropped
NARROWEST = 4  # the least number of beginnings that are kept, even if fewer fills are asked for

Span = tuple[int, int]


@dataclass(frozen=True)
class Fill:
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


def best_fills(
    team: Team, observation: Observation, inferred: Inferred, decoded: DecodedText, count: int
) -> list[tuple[Fill, ...]]:
    """The ``count`` most likely joint fills of each run of lost tokens, the most likely first.

        p(x_1 ... x_n | visible) = prod_k p(x_k | visible, x_1 ... x_{k-1}),   with a new prediction for each factor

    In other gaps, the tokens that were decoded with more confidence are visible, and the rest stays hidden. With a fill
    in its place, the text can still satisfy the constraint. A run longer than LONGEST gets no fills.

    Args:
        team: m experts.
        observation: the document (1, L), without doubtful tokens.
        inferred: its inferred composition.
        decoded: its decoded text, with ``log_probs``.
        count: how many fills of each gap.
    """
    constraint, log_probs = team.vocabulary.constraint, decoded.log_probs
    if constraint is None or log_probs is None:
        raise ConservatorError("fills are found in a text whose predictions were kept")
    lost = observation.lost[0].numpy()
    spans, row = runs(lost), np.cumsum(lost) - 1
    visible = np.where(lost, team.vocabulary.mask, observation.readable[0].numpy())
    forward, backward = constraint.reachable(sealed(constraint, visible, observation))
    short = [span for span in spans if span[1] - span[0] <= LONGEST]
    beams = {span: [Beginning((), 0.0, int(forward[span[0]]))] for span in short}
    reader = BeamReader(team, observation, inferred, decoded.context)
    for step in team.meter.steps(range(max((stop - start for start, stop in short), default=0))):
        growing = [span for span in short if step < span[1] - span[0]]
        single = [span for span in growing if span[1] - span[0] == 1]
        predicted = {span: log_probs[row[span[0]]][None].double().numpy() for span in single}
        predicted |= reader.predict({span: beams[span] for span in growing if span not in predicted})
        for start, stop in growing:
            allowed, whole = int(backward[start + step + 1]), start + step + 1 == stop
            grown = grow(beams[start, stop], predicted[start, stop], allowed, max(count, NARROWEST), constraint)
            beams[start, stop] = [one for one in grown if whole or one.score > grown[0].score - FAR]
    decode = team.vocabulary.decode
    return [
        tuple(Fill(decode(np.array(one.tokens)), float(np.exp(one.score))) for one in beams.get(span, [])[:count])
        for span in spans
    ]


def take_best(decoded: DecodedText, observation: Observation, fills: list[tuple[Fill, ...]], team: Team) -> DecodedText:
    """Put the best joint fill of each gap into the text, unless the text would then violate its constraint.

    The confidence of a token is its own probability, not that of the whole fill.
    """
    constraint, encode = team.vocabulary.constraint, team.vocabulary.encode
    if constraint is None or decoded.log_probs is None:
        raise ConservatorError("fills are put into a text whose predictions were kept")
    tokens, confidence = decoded.tokens.copy(), decoded.confidence.copy()
    lost = observation.lost[0].numpy()
    row = np.cumsum(lost) - 1
    for (start, stop), found in zip(runs(lost), fills, strict=True):
        best = encode(found[0].data).tokens if found else tokens[start:stop]
        before = tokens[start:stop].copy()
        if (best == before).all():
            continue
        tokens[start:stop] = best
        if constraint.allows(tokens, start, stop):  # not always, because two gaps may share a character
            own = decoded.log_probs[row[start:stop], best].double().exp().numpy()
            confidence[start:stop] = np.where(before == best, confidence[start:stop], own)
        else:
            tokens[start:stop] = before
    return replace(decoded, tokens=tokens, confidence=confidence)


def grow(
    beam: list[Beginning], log_probs: NDArray[np.float64], allowed: int, width: int, constraint: Constraint
) -> list[Beginning]:
    """Append a token to each beginning, and keep the most likely ones.

    A token after which no text is allowed gets probability 0, and the other probabilities are renormalised.

    Args:
        beam: k beginnings.
        log_probs: (k, V) the predictions of the next token after each.
        allowed: the set of states, as bits, from which the tokens that follow are allowed.
        width: how many to keep.
        constraint: that of the vocabulary.
    """
    grown = []
    for one, rows in zip(beam, log_probs, strict=True):
        states = constraint.step(one.states) & allowed
        scores = np.where(states > 0, rows, -np.inf)
        scores = one.score + scores - np.logaddexp.reduce(scores)
        for token in np.argsort(-scores, kind="stable")[:width].tolist():
            if np.isfinite(scores[token]):
                grown.append(Beginning((*one.tokens, token), float(scores[token]), int(states[token])))
    grown.sort(key=lambda one: (-one.score, one.tokens))
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
        predictions = self.team.predict(Context(rows.masked_fill(hidden, 0), hidden, start=start_of), at).float()
        sequence = torch.zeros(len(jobs), dtype=torch.long)
        mixed = self.inferred.composition.log_probs(predictions, sequence, torch.tensor(positions))
        return mixed.double().numpy()
