"""Word changes between the text of a transcript and a corrected text, for tests."""

from itertools import product

from rapidfuzz.distance import Levenshtein

from conservator.pages import WordChange

STEPS = ((1, 1), (1, 0), (1, 2), (2, 1), (1, 3), (3, 1))  # old words, new words


def changes_between(transcript, corrected, confidence=None):
    """Word changes that turn the text of a transcript into a corrected text with the same lines."""
    pairs = zip(transcript.text.split("\n"), corrected.split("\n"), strict=True)
    new_lines = [new for old, new in pairs if old]
    changes, first = [], 0
    for line, new_line in zip(transcript.lines, new_lines, strict=True):
        words = [word.text for word in line.words]  # a word may contain spaces
        changes += [
            WordChange(first + start, first + stop, text, confidence)
            for start, stop, text in align_words(words, new_line.split())
        ]
        first += len(words)
    return changes


def align_words(old, new):
    """``(start, stop, text)`` of the changed old words, with the fewest edited characters that STEPS allow."""
    costs, steps = {(0, 0): 0}, {}
    for end in product(range(len(old) + 1), range(len(new) + 1)):
        for step in STEPS:
            begin = (end[0] - step[0], end[1] - step[1])
            if begin in costs:
                before, after = " ".join(old[begin[0] : end[0]]), " ".join(new[begin[1] : end[1]])
                cost = costs[begin] + Levenshtein.distance(before, after)
                if end not in costs or cost < costs[end]:
                    costs[end], steps[end] = cost, step
    end, changes = (len(old), len(new)), []
    if end not in costs:
        return [(0, len(old), " ".join(new))] if old else []
    while end in steps:
        begin = (end[0] - steps[end][0], end[1] - steps[end][1])
        text = " ".join(new[begin[1] : end[1]])
        if text != " ".join(old[begin[0] : end[0]]):
            changes.insert(0, (begin[0], end[0], text))
        end = begin
    return changes
