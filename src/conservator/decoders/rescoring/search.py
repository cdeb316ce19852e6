"""The search for fills: a causal expert writes each region again, and every visible byte must agree."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from conservator.decoders.rescoring.spans import Region
from conservator.experts import Meter
from conservator.experts.causal import ROOT, CausalExpert, Reading
from conservator.vocabularies import BYTES, Tokens

ROWS = 200  # laws that are asked for at once
KEPT = 1000  # tokens: where more fit, they are looked up again
TRIED = 64  # tokens: among more than this, some token always goes on

Floats = NDArray[np.float64]
Energies = Mapping[int, Floats]  # position -> (V,) what is added to the score for each byte there


@dataclass(frozen=True)
class Limits:
    """How much of the search is kept. With neither limit, the posterior over fills is exact.

    Attributes:
        far: nats; a beginning that is less likely than the best by more than this is dropped.
        width: how many beginnings that end at the same place are kept.
    """

    far: float = 5.0
    width: int = 4


@dataclass
class Beginning:
    """The first bytes of a region, written in tokens.

    Attributes:
        score: the log-probability of the tokens, and the energies of the open bytes.
        data: the bytes.
        last: the last token; None at the start of a text.
        parent: the node before the last token.
        node: the node of the last token; None if it was not read yet.
        own: whether it is written as the text has it; such a beginning is never dropped, and costs no reading.
    """

    score: float
    data: bytes
    last: int | None
    parent: int
    node: int | None
    own: bool = False


class Trunk:
    """A text that was read as it stands, from which regions branch off.

    Attributes:
        vocabulary: the tokens of the expert.
        tokens: those of the text; the k-th of them, counted from 0, is the node k + 1.
        borders: where each token begins, and where the text ends.
    """

    def __init__(self, expert: CausalExpert, text: bytes, meter: Meter) -> None:
        """Read a text."""
        self.vocabulary, self.meter = expert.spec.tokens, meter
        self.tokens = self.vocabulary.tokenize(text.decode())
        self.borders = np.cumsum([0, *(len(self.vocabulary.token_bytes[token]) for token in self.tokens)])
        self.reading: Reading = expert.read()
        self.nodes = 1
        self.read(range(len(self.tokens)), self.tokens)

    def node_at(self, border: int) -> int:
        """The node after which the token at a border is read."""
        return int(np.searchsorted(self.borders, border))

    def at(self, border: int) -> Beginning:
        """The empty beginning of a region that starts at a border."""
        node = self.node_at(border)
        return Beginning(0.0, b"", None if node == ROOT else self.tokens[node - 1], node, node, own=True)

    def after(self, node: int, token: int) -> int | None:
        """The node of a token after a node, if it is part of the text."""
        return node + 1 if node < len(self.tokens) and self.tokens[node] == token else None

    def read(self, parents: Sequence[int], tokens: Sequence[int]) -> None:
        """Read tokens more, each after its parent; they are the next nodes."""
        if parents:
            with self.meter.evaluating(len(parents)):
                self.reading.grow(parents, tokens, [])
            self.nodes += len(parents)

    def laws(self, nodes: Sequence[int]) -> NDArray[np.float32]:
        """(n, V) the laws of the next token after some nodes."""
        with self.meter.evaluating(0):
            found: NDArray[np.float32] = self.reading.grow([], [], nodes).numpy()
        return found


class RegionSearch:
    """The beginnings of one region, by the place where they end.

    Those that end first are read first. A beginning only loses probability when it goes on, so one that is far less
    likely than another which is longer can be dropped.
    """

    def __init__(self, region: Region, text: bytes, energies: Energies, tokens: Tokens, limits: Limits) -> None:
        """Prepare to search a region of a text."""
        self.region, self.energies, self.tokens, self.limits = region, energies, tokens, limits
        self.pattern = list(text[region.start : region.end])
        for place in region.open:
            self.pattern[place - region.start] = BYTES.mask
        self.ends: defaultdict[int, list[Beginning]] = defaultdict(list)
        self.whole: list[Beginning] = []
        self._fitting: dict[int, tuple[NDArray[np.int64], Floats]] = {}

    def due(self) -> list[Beginning]:
        """The beginnings to be read next; none if all of the region is written, or only one fill is left."""
        while self.ends:
            length = min(self.ends)
            here = sorted(self.ends.pop(length), key=lambda one: (-one.score, one.data))
            best = max(one.score for one in chain(here, self.whole, *self.ends.values()))
            likely = [one for one in here if one.score >= best - self.limits.far][: self.limits.width]
            kept = likely + [one for one in here if one.own and one not in likely]
            if length == len(self.pattern):
                self.whole += kept
            elif kept and length >= self.region.stop - self.region.start and self._agreed(kept, best):
                self.whole += kept
                self.ends.clear()
            elif kept:
                return kept
        return []

    def _agreed(self, kept: list[Beginning], best: float) -> bool:
        """Whether all likely beginnings, each of which has all open bytes, have the same, and the text has it too."""
        least = best - self.limits.far
        others = (one for one in chain(self.whole, *self.ends.values()) if one.own or one.score >= least)
        return len({self.region.fill_of(one.data) for one in chain(kept, others)}) == 1

    def extend(self, one: Beginning, law: NDArray[np.float32], trunk: Trunk) -> None:
        """Append to a beginning every likely token that fits, and the text's own."""
        place, node = len(one.data), one.node
        rows, energy = self.fitting(place)
        if node is None or not len(rows):
            return
        own = trunk.tokens[node] if one.own and node < len(trunk.tokens) else None
        if own is not None:
            self._append(one, own, one.score + float(law[own]) + self._energy(place, own), node + 1)
        scores = one.score + law[self.tokens.token_ids[rows]] + energy
        lengths = self.tokens.lengths[rows]
        best = -np.inf
        for length in sorted(set(lengths.tolist()), reverse=True):
            here = np.flatnonzero(lengths == length)
            here = here[np.argsort(-scores[here], kind="stable")]
            best = max(best, float(scores[here[0]]))
            kept = 0
            for choice in here.tolist():
                if scores[choice] < best - self.limits.far or kept == 2 * self.limits.width:
                    break
                token = int(self.tokens.token_ids[rows[choice]])
                may = token != own and (one.last is None or self.tokens.follows(one.last, token))
                if may and self._goes_on(place + length, token):
                    kept += 1
                    self._append(one, token, float(scores[choice]), None)

    def _append(self, one: Beginning, token: int, score: float, node: int | None) -> None:
        """Append a token to a beginning, unless it goes over the end of the region."""
        data = one.data + self.tokens.token_bytes[token]
        if one.node is not None and len(data) <= len(self.pattern):
            self.ends[len(data)].append(Beginning(score, data, token, one.node, node, own=node is not None))

    def _energy(self, place: int, token: int) -> float:
        """The energies of the open bytes of a token at a place."""
        first = self.region.start + place
        return float(
            sum(
                self.energies[where][byte]
                for where, byte in enumerate(self.tokens.token_bytes[token], start=first)
                if where in self.region.open
            )
        )

    def fitting(self, place: int) -> tuple[NDArray[np.int64], Floats]:
        """The rows of the tokens that fit at a place of the region, and the energies of their open bytes."""
        if place not in self._fitting:
            self._fitting = {known: found for known, found in self._fitting.items() if len(found[0]) <= KEPT}
            pattern = self.pattern[place : place + self.tokens.max_length]
            rows = self.tokens.matching_rows(pattern)
            energy = np.zeros(len(rows))
            for offset, byte in enumerate(pattern):
                if byte == BYTES.mask:
                    longer = self.tokens.lengths[rows] > offset
                    row = self.energies[self.region.start + place + offset]
                    energy[longer] += row[self.tokens.table[rows[longer], offset]]
            self._fitting[place] = rows, energy
        return self._fitting[place]

    def _goes_on(self, place: int, token: int) -> bool:
        """Whether some token that fits at a place may follow one that ends there, as far as that is easy to tell."""
        if place == len(self.pattern) or self.pattern[place] == BYTES.mask:
            return True
        rows, _ = self.fitting(place)
        return len(rows) > TRIED or any(self.tokens.follows(token, int(self.tokens.token_ids[row])) for row in rows)

    def fills(self) -> dict[bytes, float]:
        """The score of each fill that was found, summed over how its region is cut into tokens."""
        found: dict[bytes, float] = {}
        for one in self.whole:
            fill = self.region.fill_of(one.data)
            found[fill] = float(np.logaddexp(found.get(fill, -np.inf), one.score))
        return found


def search(
    trunk: Trunk, text: bytes, regions: Sequence[Region], energies: Energies, limits: Limits
) -> list[dict[bytes, float]]:
    """The scores of the likely fills of each region, given the rest of the text: all regions side by side.

    score(fill) = log q(region with the fill | text before it) + sum of the energies of its open bytes
    """
    searches = [RegionSearch(region, text, energies, trunk.vocabulary, limits) for region in regions]
    for one in searches:
        one.ends[0].append(trunk.at(one.region.start))
    while due := [(one, beginning) for one in searches for beginning in one.due()]:
        for begin in range(0, len(due), ROWS):
            part = due[begin : begin + ROWS]
            for (one, beginning), law in zip(part, trunk.laws(read([each for _, each in part], trunk)), strict=True):
                one.extend(beginning, law, trunk)
    return [one.fills() for one in searches]


def read(beginnings: Sequence[Beginning], trunk: Trunk) -> list[int]:
    """Read the last tokens of those beginnings that were not read yet; the nodes of all."""
    new = [one for one in beginnings if one.node is None]
    for number, one in enumerate(new):
        one.node = trunk.nodes + number
    trunk.read([one.parent for one in new], [one.last for one in new if one.last is not None])
    return [one.node for one in beginnings if one.node is not None]
