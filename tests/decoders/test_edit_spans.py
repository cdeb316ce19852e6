"""Uncertain spans: without limits their texts have the exact posterior, by n-grams and by language models."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_edit_beam import CHANNEL, MIXTURE, WIDE, every_path, score

from conservator.decoders.edits import ArcTable, find_uncertain_spans, scoring
from conservator.decoders.edits import spans as span_module
from conservator.decoders.edits.scoring import CandidateSpan, rescore_spans
from conservator.errors import ConservatorError
from conservator.experts import Meter
from conservator.reference import MarkovExpert


@pytest.fixture(scope="class")
def unlimited():
    with pytest.MonkeyPatch.context() as patch:
        limits = {"max_texts": 10**6, "max_score_gap_nats": np.inf, "prune_nats": np.inf, "min_keep_prob": 2.0}
        patch.setattr(span_module, "CONFIG", span_module.UncertainSpanConfig(**limits))
        yield


@pytest.mark.usefixtures("unlimited")
@settings(max_examples=30, deadline=None)
@given(st.text(alphabet="abc", min_size=1, max_size=3))
def test_texts_have_the_posterior_of_all_their_paths(line):
    arcs = ArcTable(CHANNEL).of(line)
    exact = {}
    for path in every_path(arcs):
        text, path_score = score(arcs, path)
        exact[text] = np.logaddexp(exact.get(text, -np.inf), path_score)
    total = np.logaddexp.reduce(list(exact.values()))
    (span,) = find_uncertain_spans(line, WIDE.search(MIXTURE, arcs, "\n"), arcs)
    assert (span.start, span.stop) == (0, len(line))
    scores = {candidate.text: candidate.score for candidate in span.alternatives}
    assert scores == pytest.approx({text: text_score - total for text, text_score in exact.items()}, abs=1e-9)
    assert list(scores.values()) == sorted(scores.values(), reverse=True)
    for candidate in span.alternatives:
        assert "".join(chr(c) for arc in candidate.arcs for c in arcs.texts[arc, : arcs.lengths[arc]]) == candidate.text
        assert sum(arcs.widths[list(candidate.arcs)]) == len(line)


def test_uncertain_spans_end_at_confident_spaces():
    line = "ab cab ab"
    arcs = ArcTable(CHANNEL.scale_error_rate(0.1)).of(line)
    spans = find_uncertain_spans(line, WIDE.search(MIXTURE, arcs, "\n"), arcs)
    assert spans
    assert all(span.start == 0 or line[span.start] == " " for span in spans)
    assert all(span.stop == len(line) or line[span.stop] == " " for span in spans)
    for span in spans:
        assert line[span.start : span.stop] in [candidate.text for candidate in span.alternatives]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31 - 1), st.floats(0, 1))
def test_language_models_score_texts_with_the_words_after_them(seed, weight):
    generator = torch.Generator().manual_seed(seed)
    token_bytes = [bytes([byte]) for byte in b"ab "]
    experts = [MarkovExpert.random(token_bytes, 1.0, generator) for _ in range(2)]
    text, spans = (
        b"ab ba ab aab ba",
        [CandidateSpan(2, 5, (b" ba", b" a", b" bab")), CandidateSpan(8, 12, (b" aab", b" ab"))],
    )
    weights = np.tile([weight, 1 - weight], (len(text), 1))
    results = rescore_spans(experts, weights, text, spans, Meter())
    for span, scores in zip(spans, results, strict=True):
        exact = []
        for candidate in span.texts:
            whole = text[: span.start] + candidate + text[span.stop :]
            exact.append(weight * log_prob(experts[0], whole) + (1 - weight) * log_prob(experts[1], whole))
        assert scores - scores[0] == pytest.approx(np.array(exact) - exact[0], abs=1e-4)


def log_prob(expert, text):
    tokens = [b"ab ".index(byte) for byte in text]
    rows = [0, *(token + 1 for token in tokens)]
    return sum(float(expert.log_probs[row, token]) for row, token in zip(rows, tokens, strict=False))


def test_a_model_that_cannot_tokenize_the_text_has_no_effect():
    class FailingExpert(MarkovExpert):
        def read(self):
            raise ConservatorError("a control character")

    expert = FailingExpert([b"a", b"b"], torch.zeros(2), torch.zeros(2, 2))
    (scores,) = rescore_spans([expert], np.ones((4, 1)), b"abba", [CandidateSpan(2, 3, (b"b", b"a"))], Meter())
    assert scores.tolist() == [0, 0]


def test_long_texts_are_split_into_chunks():
    text = "ä b ".encode() * 3000
    spans = [CandidateSpan(position + 3, position + 4, (b"b", b"a")) for position in range(0, len(text), 500)]
    chunks = list(scoring.split_text(text, spans, None))
    assert [span for _, _, part in chunks for span in part] == spans
    assert len(chunks) > 2
    for begin, end, part in chunks:
        text[begin:end].decode()
        assert begin <= part[0].start
        assert part[-1].stop <= end
    assert all(end - begin <= 100 for begin, end, _ in scoring.split_text(text, spans, 100))
