"""The memory: comparison of its votes with brute force, and independence of hidden bytes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator.channels import MaskChannel
from conservator.errors import ConservatorError
from conservator.experts import Context, Memory, MemorySource, make_references
from conservator.experts.memory import references as references_module
from conservator.experts.memory.config import CONFIG
from conservator.experts.memory.expert import SHAPES
from conservator.experts.memory.index import UNKNOWN, build_index, ngram_context, surrounding_context
from conservator.experts.memory.references import SHAPES as REFERENCE_SHAPES
from conservator.experts.memory.retrieval import count_votes
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
    """Return the probabilities at all hidden positions."""
    at = torch.as_tensor(hidden).nonzero()[:, 0]
    return expert.predict(context_of(tokens, hidden, start), (torch.zeros_like(at), at)).exp().double()


def match_length(window, target, text, position, side):
    """Count the bytes that agree on one side, by the definition; None is a hidden byte."""
    matched = skipped = 0
    for step in range(1, 100):
        in_window, in_text = target + side * step, position + side * step
        if not (0 <= in_window < len(window) and 0 <= in_text < len(text)) or matched == CONFIG.max_match_bytes:
            break
        if window[in_window] is None or text[in_text] is None:
            skipped += 1
            if skipped > CONFIG.max_hidden_run:
                break
        elif window[in_window] != text[in_text]:
            break
        else:
            matched, skipped = matched + 1, 0
    return matched


def contexts(text, position, shapes):
    """Yield the contexts of a byte: their shape, their position relative to it, and their bytes."""
    for shape in shapes:
        anchors = [0] if shape[0] < 0 else []
        for side in (-1, 1) if shape[0] >= 0 else ():
            for skipped in range(CONFIG.max_hidden_run + 1):
                anchor = 1 + skipped if side > 0 else -len(shape) - skipped
                if visible(text, position + anchor, shape):
                    anchors.append(anchor)
                    break
        for anchor in anchors:
            if visible(text, position + anchor, shape):
                yield shape, anchor, [text[position + anchor + offset] for offset in shape]


def visible(text, position, shape):
    return all(0 <= position + offset < len(text) and text[position + offset] is not None for offset in shape)


def votes_by_definition(window, target, text, shapes):
    votes = np.zeros(BYTES.size)
    for position, byte in enumerate(text):
        if byte is None:
            continue
        for shape, anchor, content in contexts(window, target, shapes):
            start = position + anchor
            if visible(text, start, shape) and [text[start + offset] for offset in shape] == content:
                left, right = (match_length(window, target, text, position, side) for side in (-1, 1))
                votes[byte] += ((1 + left) * (1 + right)) ** CONFIG.vote_exponent
                break
    return votes


@given(documents, holes, st.data())
@settings(max_examples=60)
def test_probabilities_agree_with_the_votes_of_all_matching_positions(text, hidden, data):
    """In a short document no context exceeds the limit of matches, so the definition is exact."""
    hidden = hidden[: len(text)]
    other = data.draw(documents)
    shown = [None if is_hidden else byte for byte, is_hidden in zip(text, hidden, strict=True)]
    lost = [data.draw(st.booleans()) and is_hidden for is_hidden in hidden]  # the others are hidden by the context only
    document = observe([HIDDEN if is_lost else byte for byte, is_lost in zip(text, lost, strict=True)])
    for references in (None, make_references([("other", np.array(other, dtype=np.int16))])):
        result = predict(Memory(references, phrases=False).condition(document), text, hidden)
        for row, position in zip(result, np.flatnonzero(hidden), strict=True):
            votes = votes_by_definition(shown, int(position), shown, SHAPES)
            if references is not None:
                other_votes = votes_by_definition(shown, int(position), other, REFERENCE_SHAPES)
                votes += CONFIG.reference_weight * other_votes
            probs = (votes + CONFIG.uniform_votes / 256) / (votes.sum() + CONFIG.uniform_votes)
            probs = (1 - CONFIG.uniform_mix) * probs + CONFIG.uniform_mix / 256
            np.testing.assert_allclose(row, probs, rtol=1e-4)


@given(st.lists(st.sampled_from([97, 98]), min_size=60, max_size=60), st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_hidden_bytes_do_not_change_predictions(text, seed):
    """The index contains bytes that a context hides; the predictions do not depend on them."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(60) < 0.4
    changed = np.where(hidden, rng.integers(97, 99, 60), text)
    first, second = (predict(Memory().condition(observe(tokens)), text, hidden) for tokens in (np.array(text), changed))
    assert torch.equal(first, second)


def test_a_window_in_a_long_document_retrieves_from_the_rest_of_it():
    sentence = b"The quick brown fox jumps over the lazy dog. "
    text = list(sentence + bytes(range(32, 127)) * 20 + sentence)
    start = len(text) - len(sentence)
    window = text[start:]
    hidden = np.zeros(len(window), dtype=bool)
    hidden[[5, 6, 20]] = True
    probs = predict(Memory(phrases=False).condition(observe(text)), window, hidden, start)
    assert probs.argmax(-1).tolist() == [window[position] for position in (5, 6, 20)]
    assert probs.max(-1).values.min() > 0.9


def test_a_byte_does_not_retrieve_itself():
    text = list(b"every word here differs")
    hidden = np.arange(len(text)) == 9
    complete = predict(Memory().condition(observe(text)), text, hidden)
    without = [HIDDEN if is_hidden else byte for byte, is_hidden in zip(text, hidden, strict=True)]
    assert torch.equal(complete, predict(Memory().condition(observe(without)), text, hidden))


def test_a_restored_byte_is_context_but_does_not_vote():
    text = list(b"abcdefgh ... abcdXfgh")
    lost = [HIDDEN if position in (3, 17) else byte for position, byte in enumerate(text)]
    memory = Memory(phrases=False).condition(observe(lost))
    hidden = np.arange(len(text)) == 17
    filled = predict(memory, text, hidden)  # position 3 is shown as d
    both = predict(memory, text, [position in (3, 17) for position in range(len(text))])[1]
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
    index = build_index(text, [ngram_context(3), surrounding_context(1)])
    for shape, offsets in enumerate(([0, 1, 2], [-1, 1])):
        known = [
            position
            for position in range(500)
            if all(0 <= position + offset < 500 and text[position + offset] != UNKNOWN for offset in offsets)
        ]
        stored = index.positions[shape, : index.starts[shape, -1]]
        assert sorted(stored.tolist()) == known
        for low, high in zip(index.starts[shape], index.starts[shape][1:], strict=False):
            assert (np.diff(index.positions[shape, low:high]) > 0).all()


def test_a_query_has_bounded_work():
    """Of 50,000 positions with the same surroundings, a bounded number votes."""
    index = build_index(np.full(50_000, 97, dtype=np.int16), SHAPES)
    row = np.full((1, 40), 97, dtype=np.int16)
    row[0, 20] = UNKNOWN
    votes = np.zeros((1, 256))
    zero = np.zeros(1, dtype=np.int64)
    count_votes(index, row, zero + 25_000, zero, zero + 20, 1.0, votes)
    each = ((1 + CONFIG.max_match_bytes) ** 2) ** CONFIG.vote_exponent
    assert 1 <= votes[0, 97] / each <= 2 * CONFIG.max_matches * len(SHAPES)
    assert votes[0, 97] == votes.sum()


def test_the_source_of_a_byte_is_reported():
    other = np.frombuffer(b"first\nsecond\nthe answer is forty-two\n", dtype=np.uint8).astype(np.int16)
    references = make_references([("empty", other[:0]), ("a.txt", other[:13]), ("b.txt", other)])
    text = np.array(list(b"one: alpha beta gamma\ntwo: alpha beta gamma\nthe answer is forty-two"))
    lost = np.array([9, 60])
    damaged = text.copy()
    damaged[lost] = HIDDEN
    memory = Memory(references, phrases=False).condition(observe(damaged))
    assert memory.sources(text, lost) == [MemorySource(None, 2), MemorySource("b.txt", 3)]
    unmatched = text.copy()
    unmatched[9] = ord("~")
    assert memory.sources(unmatched, lost[:1]) == [None]


def test_common_words_are_retrieved():
    text = list(b"some of the people, and other people")
    hidden = np.arange(len(text)) == 14
    document = observe([HIDDEN if is_hidden else byte for byte, is_hidden in zip(text[:20], hidden[:20], strict=True)])
    with_phrases, without = (
        predict(Memory(phrases=phrases).condition(document), text[:20], hidden[:20])[0] for phrases in (True, False)
    )
    assert with_phrases.argmax() == text[14]
    assert with_phrases[text[14]] > 0.5 > without[text[14]]
    assert Memory().condition(document).sources(np.array(text[:20]), np.array([14])) == [None]


def test_no_match_extends_over_the_end_of_a_reference():
    parts = [np.frombuffer(part, dtype=np.uint8).astype(np.int16) for part in (b"xxxxabcde", b"fghijxxxx")]
    separate, joined = make_references(zip("ab", parts, strict=True)), make_references([("ab", np.concatenate(parts))])
    text = list(b"abcdefghij")
    hidden = np.arange(10) == 4
    document = observe([HIDDEN if is_hidden else byte for byte, is_hidden in zip(text, hidden, strict=True)])
    probs = [
        float(predict(Memory(references, phrases=False).condition(document), text, hidden)[0, ord("e")])
        for references in (separate, joined)
    ]
    assert probs[0] < probs[1]


def test_empty_references_are_none_and_too_large_references_are_rejected(monkeypatch):
    assert make_references([]) is None
    assert make_references([("empty", np.empty(0, dtype=np.int16))]) is None
    monkeypatch.setattr(references_module, "MAX_REFERENCE_BYTES", 40)
    with pytest.raises(ConservatorError, match=r"more than 40 bytes, with b\.txt"):
        make_references([("a.txt", np.zeros(10, dtype=np.int16)), ("b.txt", np.zeros(10, dtype=np.int16))])


def test_the_memory_needs_one_complete_document():
    with pytest.raises(ConservatorError, match=r"one complete document of shape \(1, L\), got \(2, 8\)"):
        Memory().condition(MaskChannel(BYTES.size, 0.5).observe(torch.zeros(2, 8, dtype=torch.long)))
