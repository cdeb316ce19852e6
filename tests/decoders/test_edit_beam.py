"""The beam over edits against enumeration: exact with one model, close with several."""

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
from conservator.decoders.edits.beam import MISSING
from conservator.decoders.edits.changes import expected_edits
from conservator.experts.char_ngram import CharNgramMixture, CharNgramModel

CHANNEL = EditChannel({("ab", "c"): 0.2, ("a", "b"): 0.1, ("b", ""): 0.05, ("", "c"): 0.02}, {"a": 0.8}, 0.9)
TINY = CharNgramModel.of("tiny", ["abba cab ab", "ba ab"], order=3)
MIXTURE = CharNgramMixture.of([TINY])
WIDE = Beam(width=3000, margin=500.0, scale=0.8)  # no line has as many ways


def every_path(steps, place=0, missing=0):
    """All ways through a line, as lists of steps."""
    last = len(steps.begins) - 2
    found = [[]] if place == last else []
    for step in range(steps.begins[place], steps.begins[place + 1]):
        width = int(steps.widths[step])
        if width or missing < MISSING:
            rest = every_path(steps, place + width, 0 if width else missing + 1)
            found += [[step, *path] for path in rest]
    return found


def scorer(mixture):
    """A function that gives the clean text of a path and its score."""

    @cache
    def log_prob(text):
        """Many ways lead to the same text."""
        return mixture.log_probs(text).sum()

    def score(steps, path):
        text = "".join(chr(one) for step in path for one in steps.texts[step, : steps.sizes[step]])
        return text, steps.chances[path].sum() + WIDE.scale * log_prob(text)

    return score


score = scorer(MIXTURE)


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet="abc", min_size=1, max_size=3))
def test_a_wide_beam_is_exact_with_one_model(line):
    steps = ArcTable(CHANNEL).of(line)
    paths = every_path(steps)
    assert len(paths) < WIDE.width
    scores = {tuple(path): score(steps, path) for path in paths}
    total = np.logaddexp.reduce([one for _, one in scores.values()])
    lattice = WIDE.search(MIXTURE, steps, "\n")
    assert lattice.behind[0] == pytest.approx(total)
    best = max(scores, key=lambda path: scores[path][1])
    found = tuple(lattice.steps[lattice.path()].tolist())
    assert scores[found][1] == pytest.approx(scores[best][1])
    edits = sum(
        math.exp(one - total) * sum(not steps.stays[step] for step in path) for path, (_, one) in scores.items()
    )
    assert expected_edits(lattice, steps) == pytest.approx(edits)
    for change in find_changes(line, lattice, steps):
        assert change.seen == line[change.start : change.stop]
        made, kept = masses(steps, scores, found, change)
        assert math.log(change.probability) == pytest.approx(made - total)
        assert change.log_odds == pytest.approx(made - kept)


@pytest.mark.parametrize("other", ["ccc acc cca c", "cba cba bca"])
def test_a_wide_beam_is_close_with_two_models(other):
    """Merged hypotheses share mixture weights, so log Z is approximate; the best path is the best of all here."""
    mixture = CharNgramMixture.of([TINY, CharNgramModel.of("other", [other], order=3)])
    score, table = scorer(mixture), ArcTable(CHANNEL)
    for line in map("".join, itertools.chain(*(itertools.product("abc", repeat=length) for length in (1, 2, 3)))):
        steps = table.of(line)
        paths = every_path(steps)
        assert len(paths) < WIDE.width
        scores = [score(steps, path)[1] for path in paths]
        lattice = WIDE.search(mixture, steps, "\n")
        assert lattice.behind[0] == pytest.approx(np.logaddexp.reduce(scores), abs=0.05, rel=0)
        assert score(steps, lattice.steps[lattice.path()].tolist())[1] == pytest.approx(max(scores))


def masses(steps, scores, best, change):
    """The log masses of the paths that make a change as the best one does, and of those that leave it alone."""
    run, place = [], 0
    for step in best:
        if change.start <= place and place + steps.widths[step] <= change.stop and not steps.stays[step]:
            run.append(step)
        place += steps.widths[step]
    found = defaultdict(list)
    for path, (_, one) in scores.items():
        places = np.concatenate([[0], np.cumsum(steps.widths[list(path)])])
        for first in np.flatnonzero(places == change.start):
            if list(path[first : first + len(run)]) == run:
                found["made"].append(one)
                break
        inside = [step for step, at in zip(path, places, strict=False) if change.start <= at < change.stop]
        before = [
            step for step, at in zip(path, places, strict=False) if at == change.start and steps.widths[step] == 0
        ]
        stays = [step for step in inside if steps.widths[step]]
        whole = {change.start, change.stop} <= set(places.tolist())
        if change.start == change.stop:
            if whole and not before:
                found["kept"].append(one)
        elif whole and all(steps.stays[step] for step in inside) and len(stays) == change.stop - change.start:
            found["kept"].append(one)
    if change.start != change.stop:  # what is missing before the stretch may be anything
        found["kept"] = [one for path, (_, one) in scores.items() if leaves(steps, path, change)]
    return (np.logaddexp.reduce(found[name] or [-np.inf]) for name in ("made", "kept"))


def leaves(steps, path, change):
    """Whether a path takes the characters of a stretch as they are, with nothing between them."""
    places = np.concatenate([[0], np.cumsum(steps.widths[list(path)])])
    starts = [number for number, step in enumerate(path) if places[number] == change.start and steps.stays[step]]
    if not starts:
        return False
    part = path[starts[0] : starts[0] + change.stop - change.start]
    return len(part) == change.stop - change.start and all(steps.stays[step] for step in part)


def test_a_narrow_beam_finds_what_a_wide_one_does():
    line = "cab abb ca"
    steps = ArcTable(CHANNEL).of(line)
    changes = [
        find_changes(line, beam.search(MIXTURE, steps, "\n"), steps) for beam in (Beam(width=32), Beam(width=500))
    ]
    assert [(one.start, one.text) for one in changes[0]] == [(one.start, one.text) for one in changes[1]]
