"""The beam over edits against enumeration: exact with one model, approximate with several."""

import itertools
import math
from collections import defaultdict
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator.channels import EditChannel
from conservator.decoders.edits import ArcTable, Beam, find_changes
from conservator.decoders.edits.beam import MAX_MISSING
from conservator.decoders.edits.changes import expected_edits
from conservator.experts.char_ngram import CharNgramMixture, CharNgramModel

CHANNEL = EditChannel({("ab", "c"): 0.2, ("a", "b"): 0.1, ("b", ""): 0.05, ("", "c"): 0.02}, {"a": 0.8}, 0.9)
TINY = CharNgramModel.of("tiny", ["abba cab ab", "ba ab"], order=3)
MIXTURE = CharNgramMixture.of([TINY])
WIDE = Beam(width=3000, prune_nats=500.0, lm_weight=0.8)  # no line has as many paths


def every_path(arcs, position=0, missing=0):
    """All paths through a line, as lists of arcs."""
    last = len(arcs.offsets) - 2
    paths = [[]] if position == last else []
    for arc in range(arcs.offsets[position], arcs.offsets[position + 1]):
        width = int(arcs.widths[arc])
        if width or missing < MAX_MISSING:
            rest = every_path(arcs, position + width, 0 if width else missing + 1)
            paths += [[arc, *path] for path in rest]
    return paths


def scorer(mixture):
    """Return a function that computes the clean text of a path and its score."""

    @cache
    def log_prob(text):
        """Many paths have the same text."""
        return mixture.log_probs(text).sum()

    def score(arcs, path):
        text = "".join(chr(character) for arc in path for character in arcs.texts[arc, : arcs.lengths[arc]])
        return text, arcs.log_probs[path].sum() + WIDE.lm_weight * log_prob(text)

    return score


score = scorer(MIXTURE)


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet="abc", min_size=1, max_size=3))
def test_a_wide_beam_is_exact_with_one_model(line):
    arcs = ArcTable(CHANNEL).of(line)
    paths = every_path(arcs)
    assert len(paths) < WIDE.width
    scores = {tuple(path): score(arcs, path) for path in paths}
    total = np.logaddexp.reduce([path_score for _, path_score in scores.values()])
    lattice = WIDE.search(MIXTURE, arcs, "\n")
    assert lattice.beta[0] == pytest.approx(total)
    best = max(scores, key=lambda path: scores[path][1])
    best_arcs = tuple(lattice.arcs[lattice.best_path()].tolist())
    assert scores[best_arcs][1] == pytest.approx(scores[best][1])
    edits = sum(
        math.exp(path_score - total) * sum(not arcs.keep[arc] for arc in path)
        for path, (_, path_score) in scores.items()
    )
    assert expected_edits(lattice, arcs) == pytest.approx(edits)
    for change in find_changes(line, lattice, arcs):
        assert change.seen == line[change.start : change.stop]
        log_made, log_keep = log_masses(arcs, scores, best_arcs, change)
        assert math.log(change.probability) == pytest.approx(log_made - total)
        assert change.log_odds == pytest.approx(log_made - log_keep)


@pytest.mark.parametrize("other", ["ccc acc cca c", "cba cba bca"])
def test_a_wide_beam_is_close_with_two_models(other):
    """Merged hypotheses share mixture weights, so log Z is approximate; the best path is exact here."""
    mixture = CharNgramMixture.of([TINY, CharNgramModel.of("other", [other], order=3)])
    score, table = scorer(mixture), ArcTable(CHANNEL)
    for line in map("".join, itertools.chain(*(itertools.product("abc", repeat=length) for length in (1, 2, 3)))):
        arcs = table.of(line)
        paths = every_path(arcs)
        assert len(paths) < WIDE.width
        scores = [score(arcs, path)[1] for path in paths]
        lattice = WIDE.search(mixture, arcs, "\n")
        assert lattice.beta[0] == pytest.approx(np.logaddexp.reduce(scores), abs=0.05, rel=0)
        assert score(arcs, lattice.arcs[lattice.best_path()].tolist())[1] == pytest.approx(max(scores))


def log_masses(arcs, scores, best, change):
    """The log masses of the paths that make the change of the best path, and of those that keep the observed text."""
    run, position = [], 0
    for arc in best:
        if change.start <= position and position + arcs.widths[arc] <= change.stop and not arcs.keep[arc]:
            run.append(arc)
        position += arcs.widths[arc]
    log_scores = defaultdict(list)
    for path, (_, path_score) in scores.items():
        positions = np.concatenate([[0], np.cumsum(arcs.widths[list(path)])])
        for first in np.flatnonzero(positions == change.start):
            if list(path[first : first + len(run)]) == run:
                log_scores["made"].append(path_score)
                break
        inside = [arc for arc, at in zip(path, positions, strict=False) if change.start <= at < change.stop]
        before = [arc for arc, at in zip(path, positions, strict=False) if at == change.start and arcs.widths[arc] == 0]
        keeps = [arc for arc in inside if arcs.widths[arc]]
        whole = {change.start, change.stop} <= set(positions.tolist())
        if change.start == change.stop:
            if whole and not before:
                log_scores["keep"].append(path_score)
        elif whole and all(arcs.keep[arc] for arc in inside) and len(keeps) == change.stop - change.start:
            log_scores["keep"].append(path_score)
    if change.start != change.stop:  # any characters may be missing before the span
        log_scores["keep"] = [path_score for path, (_, path_score) in scores.items() if keeps_span(arcs, path, change)]
    return (np.logaddexp.reduce(log_scores[name] or [-np.inf]) for name in ("made", "keep"))


def keeps_span(arcs, path, change):
    """Whether a path keeps the characters of a span, without insertions between them."""
    positions = np.concatenate([[0], np.cumsum(arcs.widths[list(path)])])
    starts = [number for number, arc in enumerate(path) if positions[number] == change.start and arcs.keep[arc]]
    if not starts:
        return False
    part = path[starts[0] : starts[0] + change.stop - change.start]
    return len(part) == change.stop - change.start and all(arcs.keep[arc] for arc in part)


def test_a_narrow_beam_finds_the_changes_of_a_wide_one():
    line = "cab abb ca"
    arcs = ArcTable(CHANNEL).of(line)
    changes = [find_changes(line, beam.search(MIXTURE, arcs, "\n"), arcs) for beam in (Beam(width=32), Beam(width=500))]
    assert [(change.start, change.text) for change in changes[0]] == [
        (change.start, change.text) for change in changes[1]
    ]
