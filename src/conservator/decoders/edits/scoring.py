"""Score candidate texts for spans of a text with language models."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from conservator.arrays import Floats
from conservator.decoders.rescoring.score_texts import score_texts
from conservator.decoders.rescoring.search import PrefixTree
from conservator.decoders.rescoring.spans import CONFIG, Span, begins_word, next_character_start
from conservator.errors import ConservatorError
from conservator.experts import Meter
from conservator.experts.causal import CausalExpert


class CandidateSpan(NamedTuple):
    """A span of a text, in bytes, and its candidate texts."""

    start: int
    stop: int
    texts: tuple[bytes, ...]


def rescore_spans(
    experts: Sequence[CausalExpert], weights: Floats, text: bytes, spans: Sequence[CandidateSpan], meter: Meter
) -> list[Floats]:
    """Return the log-probabilities of the texts of each span under the pool of language models, up to a constant.

        score(t) = sum_i lambda_i log q_i(t and the words after it | text before it)

    Other spans have their text in ``text``. If a model cannot tokenize the text, all texts get the same score.

    Args:
        experts: m causal experts.
        weights: (L, m) lambda, the weight of each expert at each byte of the text.
        text: valid UTF-8.
        spans: in order, without overlap.
        meter: counts the evaluated tokens, and reports progress.
    """
    max_bytes = min((expert.spec.max_length for expert in experts if expert.spec.max_length is not None), default=None)
    scores: list[Floats] = []
    for begin, end, part in meter.steps(list(split_text(text, spans, max_bytes))):
        moved = [CandidateSpan(span.start - begin, span.stop - begin, span.texts) for span in part]
        try:
            trees = [PrefixTree(expert, text[begin:end], meter) for expert in experts]
            scores += score_chunk(trees, weights[begin:end], text[begin:end], moved)
        except ConservatorError:  # for example, a control character for which a model has no token
            scores += [np.zeros(len(span.texts)) for span in part]
    return scores


def score_chunk(
    trees: Sequence[PrefixTree], weights: Floats, text: bytes, spans: Sequence[CandidateSpan]
) -> list[Floats]:
    """Return the scores of the texts of each span of a chunk."""
    boundaries = trees[0].boundaries
    for tree in trees[1:]:
        boundaries = np.intersect1d(boundaries, tree.boundaries)
    words = np.array([boundary for boundary in boundaries.tolist() if begins_word(text, boundary)])
    jobs, job_weights = [], []
    for span in spans:
        first = int(words[np.searchsorted(words, span.start, side="right") - 1])
        last = int(words[np.searchsorted(words, min(span.stop + CONFIG.right_context_bytes, len(text)))])
        scored = Span(first, last, (span.start,))
        jobs += [(scored, text[first : span.start] + candidate + text[span.stop : last]) for candidate in span.texts]
        job_weights += [weights[first:last].mean(axis=0)] * len(span.texts)
    scores = np.stack([score_texts(tree, jobs) for tree in trees], axis=1)
    pooled = (np.array(job_weights) * scores).sum(axis=1)
    return np.split(pooled, np.cumsum([len(span.texts) for span in spans])[:-1])


def split_text(
    text: bytes, spans: Sequence[CandidateSpan], max_bytes: int | None
) -> Iterator[tuple[int, int, list[CandidateSpan]]]:
    """Yield the start and the end of each chunk of a text, and the spans in it.

    Args:
        text: the text.
        spans: in order.
        max_bytes: approximate largest size of a chunk; None for no limit.
    """
    full_size = CONFIG.chunk_bytes + 2 * CONFIG.left_context_bytes
    fraction = 1.0 if max_bytes is None else min(1.0, max_bytes / full_size)
    first = 0
    while first < len(spans):
        last = first + 1
        while last < len(spans) and spans[last].stop - spans[first].start <= fraction * CONFIG.chunk_bytes:
            last += 1
        begin = max(0, spans[first].start - int(fraction * CONFIG.left_context_bytes))
        begin = next_character_start(text, begin) if begin else 0
        end = next_character_start(text, min(len(text), spans[last - 1].stop + 2 * CONFIG.right_context_bytes))
        yield begin, end, list(spans[first:last])
        first = last
