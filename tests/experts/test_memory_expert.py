"""The memory: its votes against brute force, and that it sees nothing that is hidden."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator.channels import MaskChannel
from conservator.errors import ConservatorError
from conservator.experts import Context, Memory, MemorySource, make_references
from conservator.experts.memory import references as references_module
from conservator.experts.memory.expert import DOUBT, REFERENCE, SHAPES, SILENT
from conservator.experts.memory.index import UNKNOWN, around, build_index, gram
from conservator.experts.memory.references import SHAPES as REFERENCE_SHAPES
from conservator.experts.memory.retrieval import MOST, POWER, REACH, SKIPPED, count_votes
from conservator.vocabularies import BYTES

HIDDEN = BYTES.mask
documents = st.lists(st.sampled_from([97, 98, 99]), min_size=4, max_size=28)
holes = st.lists(st.booleans(), min_size=28, max_size=28)


def observe(tokens):
    return MaskChannel(BYTES.size, 0.5).observe(torch.as_tensor(tokens)[None])


def context_of(tokens, hidden, start=0):
    tokens, hidden = torch.as_tensor(tokens)[None], torch.as_tensor(hidden)[None]
    return Context(tokens.masked_fill(hidden, 0), hidden, start=torch.tensor([start]))


def predict(expert, tokens, hidden, start=0):
    """The probabilities at all hidden positions."""
    at = torch.as_tensor(hidden).nonzero()[:, 0]
    return expert.predict(context_of(tokens, hidden, start), (torch.zeros_like(at), at)).exp().double()


def matched(ours, here, theirs, there, side):
    """How many bytes agree on one side, by the definition; None is a hidden byte."""
    found = skipped = 0
    for step in range(1, 100):
        p, r = here + side * step, there + side * step
        if not (0 <= p < len(ours) and 0 <= r < len(theirs)) or found == REACH:
            break
        if ours[p] is None or theirs[r] is None:
            skipped += 1
            if skipped > SKIPPED:
                break
        elif ours[p] != theirs[r]:
            break
        else:
            found, skipped = found + 1, 0
    return found


def contexts(text, place, shapes):
    """The contexts of a byte: their shape, where they stand relative to it, and their bytes."""
    for shape in shapes:
        anchors = [0] if shape[0] < 0 else []
        for side in (-1, 1) if shape[0] >= 0 else ():
            for skipped in range(SKIPPED + 1):
                anchor = 1 + skipped if side > 0 else -len(shape) - skipped
                if visible(text, place + anchor, shape):
                    anchors.append(anchor)
                    break
        for anchor in anchors:
            if visible(text, place + anchor, shape):
                yield shape, anchor, [text[place + anchor + offset] for offset in shape]


def visible(text, place, shape):
    return all(0 <= place + offset < len(text) and text[place + offset] is not None for offset in shape)


def votes_by_definition(ours, here, theirs, shapes):
    votes = np.zeros(BYTES.size)
    for there, byte in enumerate(theirs):
        if byte is None:
            continue
        for shape, anchor, content in contexts(ours, here, shapes):
            place = there + anchor
            if visible(theirs, place, shape) and [theirs[place + offset] for offset in shape] == content:
                left, right = (matched(ours, here, theirs, there, side) for side in (-1, 1))
                votes[byte] += ((1 + left) * (1 + right)) ** POWER
                break
    return votes


@given(documents, holes, st.data())
@settings(max_examples=60)
def test_its_law_is_that_of_all_matching_places(text, hidden, data):
    """In a short document no context has more places than are looked at, so that the definition can be computed."""
    hidden = hidden[: len(text)]
    other = data.draw(documents)
    shown = [None if gone else byte for byte, gone in zip(text, hidden, strict=True)]
    lost = [data.draw(st.booleans()) and gone for gone in hidden]  # the others are hidden by the context alone
    document = observe([HIDDEN if gone else byte for byte, gone in zip(text, lost, strict=True)])
    for references in (None, make_references([("other", np.array(other, dtype=np.int16))])):
        found = predict(Memory(references, phrases=False).condition(document), text, hidden)
        for row, place in zip(found, np.flatnonzero(hidden), strict=True):
            votes = votes_by_definition(shown, int(place), shown, SHAPES)
            if references is not None:
                votes += REFERENCE * votes_by_definition(shown, int(place), other, REFERENCE_SHAPES)
            law = (1 - DOUBT) * (votes + SILENT / 256) / (votes.sum() + SILENT) + DOUBT / 256
            np.testing.assert_allclose(row, law, rtol=1e-4)


@given(st.lists(st.sampled_from([97, 98]), min_size=60, max_size=60), st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_what_is_hidden_changes_nothing(text, seed):
    """The index contains bytes that a context hides; whatever they are, the predictions are the same."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(60) < 0.4
    changed = np.where(hidden, rng.integers(97, 99, 60), text)
    first, second = (predict(Memory().condition(observe(one)), text, hidden) for one in (np.array(text), changed))
    assert torch.equal(first, second)


def test_a_window_in_a_long_document_sees_the_rest_of_it():
    sentence = b"The quick brown fox jumps over the lazy dog. "
    text = list(sentence + bytes(range(32, 127)) * 20 + sentence)
    start = len(text) - len(sentence)
    window = text[start:]
    hidden = np.zeros(len(window), dtype=bool)
    hidden[[5, 6, 20]] = True
    found = predict(Memory(phrases=False).condition(observe(text)), window, hidden, start)
    assert found.argmax(-1).tolist() == [window[place] for place in (5, 6, 20)]
    assert found.max(-1).values.min() > 0.9


def test_a_byte_does_not_remember_itself():
    text = list(b"every word here differs")
    hidden = np.arange(len(text)) == 9
    alone = predict(Memory().condition(observe(text)), text, hidden)
    without = [HIDDEN if gone else byte for byte, gone in zip(text, hidden, strict=True)]
    assert torch.equal(alone, predict(Memory().condition(observe(without)), text, hidden))


def test_what_is_filled_in_is_read_but_does_not_vote():
    text = list(b"abcdefgh ... abcdXfgh")
    lost = [HIDDEN if place in (3, 17) else byte for place, byte in enumerate(text)]
    memory = Memory(phrases=False).condition(observe(lost))
    hidden = np.arange(len(text)) == 17
    filled = predict(memory, text, hidden)  # position 3 is shown as d
    both = predict(memory, text, [place in (3, 17) for place in range(len(text))])[1]
    assert filled[0].argmax() == ord("e")
    assert filled[0, ord("e")] > both[ord("e")]
    only = list(b"abcd")
    assert torch.allclose(
        predict(
            Memory(phrases=False).condition(observe([97, HIDDEN, 99, HIDDEN])),
            [97, 98, 99, 100],
            [False, False, False, True],
        ),
        predict(Memory(phrases=False).condition(observe([97, HIDDEN, 99, HIDDEN])), only, [False, True, False, True])[
            1:
        ],
    )


def test_the_index_has_every_context():
    rng = np.random.default_rng(0)
    text = rng.integers(-1, 4, 500).astype(np.int16)
    index = build_index(text, [gram(3), around(1)])
    for shape, offsets in enumerate(([0, 1, 2], [-1, 1])):
        known = [
            place
            for place in range(500)
            if all(0 <= place + one < 500 and text[place + one] != UNKNOWN for one in offsets)
        ]
        stored = index.places[shape, : index.starts[shape, -1]]
        assert sorted(stored.tolist()) == known
        for low, high in zip(index.starts[shape], index.starts[shape][1:], strict=False):
            assert (np.diff(index.places[shape, low:high]) > 0).all()


def test_a_query_has_bounded_work():
    """Of 50,000 places with the same surroundings, only so many vote."""
    index = build_index(np.full(50_000, 97, dtype=np.int16), SHAPES)
    row = np.full((1, 40), 97, dtype=np.int16)
    row[0, 20] = UNKNOWN
    votes = np.zeros((1, 256))
    zero = np.zeros(1, dtype=np.int64)
    count_votes(index, row, zero + 25_000, zero, zero + 20, 1.0, votes)
    each = ((1 + REACH) ** 2) ** POWER
    assert 1 <= votes[0, 97] / each <= 2 * MOST * len(SHAPES)
    assert votes[0, 97] == votes.sum()


def test_it_says_where_a_byte_was_remembered_from():
    other = np.frombuffer(b"first\nsecond\nthe answer is forty-two\n", dtype=np.uint8).astype(np.int16)
    references = make_references([("empty", other[:0]), ("a.txt", other[:13]), ("b.txt", other)])
    text = np.array(list(b"one: alpha beta gamma\ntwo: alpha beta gamma\nthe answer is forty-two"))
    lost = np.array([9, 60])
    damaged = text.copy()
    damaged[lost] = HIDDEN
    memory = Memory(references, phrases=False).condition(observe(damaged))
    assert memory.sources(text, lost) == [MemorySource(None, 2), MemorySource("b.txt", 3)]
    strange = text.copy()
    strange[9] = ord("~")
    assert memory.sources(strange, lost[:1]) == [None]


def test_common_words_are_recalled():
    text = list(b"some of the people, and other people")
    hidden = np.arange(len(text)) == 14
    document = observe([HIDDEN if gone else byte for byte, gone in zip(text[:20], hidden[:20], strict=True)])
    law = [predict(Memory(phrases=one).condition(document), text[:20], hidden[:20])[0] for one in (True, False)]
    assert law[0].argmax() == text[14]
    assert law[0][text[14]] > 0.5 > law[1][text[14]]
    assert Memory().condition(document).sources(np.array(text[:20]), np.array([14])) == [None]


def test_references_end_where_they_end():
    """No match goes from one text into the next."""
    parts = [np.frombuffer(part, dtype=np.uint8).astype(np.int16) for part in (b"xxxxabcde", b"fghijxxxx")]
    apart, joined = make_references(zip("ab", parts, strict=True)), make_references([("ab", np.concatenate(parts))])
    text = list(b"abcdefghij")
    hidden = np.arange(10) == 4
    document = observe([HIDDEN if gone else byte for byte, gone in zip(text, hidden, strict=True)])
    sure = [
        float(predict(Memory(one, phrases=False).condition(document), text, hidden)[0, ord("e")])
        for one in (apart, joined)
    ]
    assert sure[0] < sure[1]


def test_references_that_are_none_or_too_many(monkeypatch):
    assert make_references([]) is None
    assert make_references([("empty", np.empty(0, dtype=np.int16))]) is None
    monkeypatch.setattr(references_module, "LARGEST", 40)
    with pytest.raises(ConservatorError, match=r"more than 40 bytes, with b\.txt"):
        make_references([("a.txt", np.zeros(10, dtype=np.int16)), ("b.txt", np.zeros(10, dtype=np.int16))])


def test_a_memory_is_of_one_whole_document():
    with pytest.raises(ConservatorError, match="one whole document"):
        Memory().condition(MaskChannel(BYTES.size, 0.5).observe(torch.zeros(2, 8, dtype=torch.long)))
