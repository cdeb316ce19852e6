"""Search for the candidates of spans with a causal expert, under the constraint that visible bytes are unchanged."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from conservator.arrays import Floats
from conservator.decoders.rescoring.spans import Span
from conservator.experts import Meter
from conservator.experts.causal import ROOT, CausalExpert
from conservator.vocabularies import BYTES, Tokens

BATCH_NODES = 200  # nodes: whose conditionals are computed at once [LOG: ocr-correction]
MAX_CACHED_TOKENS = 1000  # tokens: longer lists of matching tokens are not cached [safety limit]
MAX_CHECKED_TOKENS = 64  # tokens: with more matching tokens, a continuation is assumed to exist [untuned]

LogPotentials = Mapping[int, Floats]  # position -> (V,) added to the score of each byte


@dataclass(frozen=True)
class SearchLimits:
    """Limits of the search. Without them, the posterior over candidates is exact.

    Attributes:
        prune_nats: hypotheses this far below the best are pruned.
        width: the largest number of hypotheses that end at the same position.
    """

    prune_nats: float = 5.0  # nats: below the best hypothesis [LOG: language-models]
    width: int = 4  # hypotheses: per position [LOG: language-models]


@dataclass
class SpanHypothesis:
    """The first bytes of a span, as tokens.

    Attributes:
        score: the log-probability of the tokens, plus the log-potentials of the open bytes.
        data: the bytes.
        last: the last token; None at the start of a text.
        parent: the node before the last token.
        node: the node of the last token; None if it has not been evaluated yet.
        is_current: whether its bytes and tokens are those of the text; such a hypothesis is never pruned, and needs no
            evaluation.
    """

    score: float
    data: bytes
    last: int | None
    parent: int
    node: int | None
    is_current: bool = False


class PrefixTree:
    """The tokens of a text as evaluated by a causal expert, from which the hypotheses of spans branch off.

    Attributes:
        vocabulary: the tokens of the expert.
        tokens: the tokens of the text; the k-th of them, counted from 0, is the node k + 1.
        boundaries: the start of each token, and the end of the text.
        nodes: the number of nodes.
    """

    def __init__(self, expert: CausalExpert, text: bytes, meter: Meter) -> None:
        """Tokenize and evaluate a text."""
        self.vocabulary, self.meter = expert.spec.tokens, meter
        self.tokens = self.vocabulary.tokenize(text.decode())
        self.boundaries = np.cumsum([0, *(len(self.vocabulary.token_bytes[token]) for token in self.tokens)])
        self.tree = expert.read()
        self.nodes = 1
        self.append(range(len(self.tokens)), self.tokens)

    def node_at(self, boundary: int) -> int:
        """Return the node before the token at a boundary."""
        return int(np.searchsorted(self.boundaries, boundary))

    def empty_hypothesis(self, boundary: int) -> SpanHypothesis:
        """Return the empty hypothesis of a span that starts at a boundary."""
        node = self.node_at(boundary)
        last = None if node == ROOT else self.tokens[node - 1]
        return SpanHypothesis(0.0, b"", last, node, node, is_current=True)

    def child(self, node: int, token: int) -> int | None:
        """Return the node of a token after a node, if it is a token of the text."""
        return node + 1 if node < len(self.tokens) and self.tokens[node] == token else None

    def append(self, parents: Sequence[int], tokens: Sequence[int]) -> None:
        """Evaluate more tokens, each after its parent; they are the next nodes."""
        if parents:
            with self.meter.evaluating(len(parents)):
                self.tree.extend(parents, tokens, [])
            self.nodes += len(parents)

    def log_probs(self, nodes: Sequence[int]) -> NDArray[np.float32]:
        """Return (n, V) the log-probabilities of the next token after n nodes."""
        with self.meter.evaluating(0):
            log_probs: NDArray[np.float32] = self.tree.extend([], [], nodes).numpy()
        return log_probs


class SpanSearch:
    """The hypotheses of one span, by the position where they end.

    The shortest hypotheses are extended first. A hypothesis only loses probability when it is extended, so one that is
    far less likely than a longer one can be pruned.
    """

    def __init__(
        self, span: Span, text: bytes, log_potentials: LogPotentials, tokens: Tokens, limits: SearchLimits
    ) -> None:
        """Prepare the search of a span of a text."""
        self.span, self.log_potentials, self.tokens, self.limits = span, log_potentials, tokens, limits
        self.pattern = list(text[span.start : span.end])
        for position in span.positions:
            self.pattern[position - span.start] = BYTES.mask
        self.by_length: defaultdict[int, list[SpanHypothesis]] = defaultdict(list)
        self.complete: list[SpanHypothesis] = []
        self._matching: dict[int, tuple[NDArray[np.int64], Floats]] = {}

    def next_hypotheses(self) -> list[SpanHypothesis]:
        """Return the hypotheses to extend next; none if all are complete, or only one candidate is left."""
        while self.by_length:
            length = min(self.by_length)
            shortest = sorted(self.by_length.pop(length), key=lambda hypothesis: (-hypothesis.score, hypothesis.data))
            best = max(hypothesis.score for hypothesis in chain(shortest, self.complete, *self.by_length.values()))
            likely = [hypothesis for hypothesis in shortest if hypothesis.score >= best - self.limits.prune_nats]
            likely = likely[: self.limits.width]
            remaining = likely + [
                hypothesis for hypothesis in shortest if hypothesis.is_current and hypothesis not in likely
            ]
            if length == len(self.pattern):
                self.complete += remaining
            elif remaining and length >= self.span.stop - self.span.start and self._agree(remaining, best):
                self.complete += remaining
                self.by_length.clear()
            elif remaining:
                return remaining
        return []

    def _agree(self, remaining: list[SpanHypothesis], best: float) -> bool:
        """Whether all likely hypotheses, which contain all open bytes, and the text have the same open bytes."""
        min_score = best - self.limits.prune_nats
        others = (
            hypothesis
            for hypothesis in chain(self.complete, *self.by_length.values())
            if hypothesis.is_current or hypothesis.score >= min_score
        )
        return len({self.span.open_bytes(hypothesis.data) for hypothesis in chain(remaining, others)}) == 1

    def append_tokens(self, hypothesis: SpanHypothesis, log_probs: NDArray[np.float32], tree: PrefixTree) -> None:
        """Append to a hypothesis every likely token that matches the pattern, and the token of the text."""
        offset, node = len(hypothesis.data), hypothesis.node
        rows, potentials = self.matching_tokens(offset)
        if node is None or not len(rows):
            return
        current = tree.tokens[node] if hypothesis.is_current and node < len(tree.tokens) else None
        if current is not None:
            score = hypothesis.score + float(log_probs[current]) + self._log_potential(offset, current)
            self._append(hypothesis, current, score, node + 1)
        scores = hypothesis.score + log_probs[self.tokens.token_ids[rows]] + potentials
        lengths = self.tokens.lengths[rows]
        best = -np.inf
        for length in sorted(set(lengths.tolist()), reverse=True):
            same_length = np.flatnonzero(lengths == length)
            same_length = same_length[np.argsort(-scores[same_length], kind="stable")]
            best = max(best, float(scores[same_length[0]]))
            count = 0
            for choice in same_length.tolist():
                if scores[choice] < best - self.limits.prune_nats or count == 2 * self.limits.width:
                    break
                token = int(self.tokens.token_ids[rows[choice]])
                allowed = token != current and (hypothesis.last is None or self.tokens.follows(hypothesis.last, token))
                if allowed and self._can_continue(offset + length, token):
                    count += 1
                    self._append(hypothesis, token, float(scores[choice]), None)

    def _append(self, hypothesis: SpanHypothesis, token: int, score: float, node: int | None) -> None:
        """Append a token to a hypothesis, unless it exceeds the end of the span."""
        data = hypothesis.data + self.tokens.token_bytes[token]
        if hypothesis.node is not None and len(data) <= len(self.pattern):
            extended = SpanHypothesis(score, data, token, hypothesis.node, node, is_current=node is not None)
            self.by_length[len(data)].append(extended)

    def _log_potential(self, offset: int, token: int) -> float:
        """Return the sum of the log-potentials of the open bytes of a token at an offset of the span."""
        first = self.span.start + offset
        return float(
            sum(
                self.log_potentials[position][byte]
                for position, byte in enumerate(self.tokens.token_bytes[token], start=first)
                if position in self.span.positions
            )
        )

    def matching_tokens(self, offset: int) -> tuple[NDArray[np.int64], Floats]:
        """Return the rows of the tokens that match at an offset of the span, and the log-potentials of open bytes."""
        if offset not in self._matching:
            self._matching = {key: value for key, value in self._matching.items() if len(value[0]) <= MAX_CACHED_TOKENS}
            pattern = self.pattern[offset : offset + self.tokens.max_length]
            rows = self.tokens.matching_rows(pattern)
            potentials = np.zeros(len(rows))
            for index, byte in enumerate(pattern):
                if byte == BYTES.mask:
                    longer = self.tokens.lengths[rows] > index
                    row = self.log_potentials[self.span.start + offset + index]
                    potentials[longer] += row[self.tokens.table[rows[longer], index]]
            self._matching[offset] = rows, potentials
        return self._matching[offset]

    def _can_continue(self, offset: int, token: int) -> bool:
        """Whether a token may follow at an offset after the given token. Conservative: it may return True wrongly."""
        if offset == len(self.pattern) or self.pattern[offset] == BYTES.mask:
            return True
        rows, _ = self.matching_tokens(offset)
        return len(rows) > MAX_CHECKED_TOKENS or any(
            self.tokens.follows(token, int(self.tokens.token_ids[row])) for row in rows
        )

    def candidates(self) -> dict[bytes, float]:
        """Return the score of each candidate, summed over the tokenizations of its span."""
        scores: dict[bytes, float] = {}
        for hypothesis in self.complete:
            candidate = self.span.open_bytes(hypothesis.data)
            scores[candidate] = float(np.logaddexp(scores.get(candidate, -np.inf), hypothesis.score))
        return scores


def search(
    tree: PrefixTree, text: bytes, spans: Sequence[Span], log_potentials: LogPotentials, limits: SearchLimits
) -> list[dict[bytes, float]]:
    """Return the scores of the likely candidates of each span, given the rest of the text. All spans are batched.

    score(candidate) = log q(span with the candidate | text before it) + sum of the log-potentials of its open bytes
    """
    searches = [SpanSearch(span, text, log_potentials, tree.vocabulary, limits) for span in spans]
    for span_search in searches:
        span_search.by_length[0].append(tree.empty_hypothesis(span_search.span.start))
    while due := [
        (span_search, hypothesis) for span_search in searches for hypothesis in span_search.next_hypotheses()
    ]:
        for begin in range(0, len(due), BATCH_NODES):
            batch = due[begin : begin + BATCH_NODES]
            nodes = evaluate([hypothesis for _, hypothesis in batch], tree)
            for (span_search, hypothesis), log_probs in zip(batch, tree.log_probs(nodes), strict=True):
                span_search.append_tokens(hypothesis, log_probs, tree)
    return [span_search.candidates() for span_search in searches]


def evaluate(hypotheses: Sequence[SpanHypothesis], tree: PrefixTree) -> list[int]:
    """Evaluate the last tokens of new hypotheses; return the nodes of all hypotheses."""
    new = [hypothesis for hypothesis in hypotheses if hypothesis.node is None]
    for number, hypothesis in enumerate(new):
        hypothesis.node = tree.nodes + number
    tree.append(
        [hypothesis.parent for hypothesis in new],
        [hypothesis.last for hypothesis in new if hypothesis.last is not None],
    )
    return [hypothesis.node for hypothesis in hypotheses if hypothesis.node is not None]
