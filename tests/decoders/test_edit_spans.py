"""Uncertain spans: without limits their texts have the exact posterior."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_edit_beam import CHANNEL, MIXTURE, WIDE, every_path, score

from conservator.decoders.edits import ArcTable, find_uncertain_spans
from conservator.decoders.edits import spans as span_module


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
