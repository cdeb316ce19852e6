"""What tokens stand for, how a text is cut, which tokens fit a damaged one; against a trained byte-pair tokenizer."""

import itertools
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.vocabularies import BYTES, LONGEST, Tokens
from support.causal_experts import VOCABULARIES

PIECES = [b"a", b"", b"ab", b"abc", b"b", b"bb", b"c", b"a", b"ca" * 9]
BOOK = [
    "It's the cat's hat, isn't it? We're sure they've seen that he'd said she'll come; I'm not.",
    "def f(x):\n    if x == 'abc':\n        return [x, 's']\n\n\ndef g():\n    pass\n",
    "    indented   text\twith  runs   of    spaces\n\n\n\nand empty lines",
    "## Title\n\n* item (one)\n* item ((two))\n\n```\n$ ls -la  # 1234567 files\n```\n",
    "café naïve «été» — ─── 你好 世界",
]


@cache
def byte_pairs(regex=True):
    """A byte-level tokenizer, trained on a few lines, as GPT-2's: words first, or byte pairs alone."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(BOOK, trainer)
    shown = [byte for byte in range(BYTES.size) if chr(byte).isprintable() and byte not in (32, 160, 173)]
    hidden = [byte for byte in range(BYTES.size) if byte not in shown]
    bytes_of = {chr(byte): byte for byte in shown} | {chr(BYTES.size + n): byte for n, byte in enumerate(hidden)}
    pieces = [b""] * tokenizer.get_vocab_size()
    for name, number in tokenizer.get_vocab().items():
        pieces[number] = bytes(bytes_of[character] for character in name)
    return Tokens(pieces, lambda text: tokenizer.encode(text).ids)


TEXTS = st.text() | st.text("ab 's\n.(tre1─é") | st.lists(st.sampled_from(" ".join(BOOK).split(" "))).map(" ".join)


@pytest.mark.parametrize("regex", [True, False], ids=["words", "byte pairs alone"])
@given(text=TEXTS)
def test_neighbours_of_a_canonical_cut_follow_each_other(regex, text):
    tokens = byte_pairs(regex)
    cut = tokens.cut(text)
    assert b"".join(tokens.pieces[token] for token in cut) == text.encode()
    for first, second in itertools.pairwise(cut):
        assert tokens.follows(first, second), (tokens.pieces[first], tokens.pieces[second])


@given(text=st.text("abcdehinst", min_size=1, max_size=6))
def test_in_a_cut_by_byte_pairs_alone_neighbours_are_enough(text):
    """Of all cuts of a text, the one whose neighbours all follow each other is the canonical one."""
    tokens = byte_pairs(False)
    cuts = [[]]
    found = []
    while cuts:
        cut = cuts.pop()
        size = sum(len(tokens.pieces[token]) for token in cut)
        if size == len(text):
            found.append(cut)
            continue
        for row in tokens.fitting(list(text.encode()[size:])):
            token = int(tokens.numbers[row])
            if not cut or tokens.follows(cut[-1], token):
                cuts.append([*cut, token])
    assert found == [tokens.cut(text)]


def test_what_is_no_canonical_cut_does_not_follow():
    tokens = byte_pairs()
    number = {piece: token for token, piece in enumerate(tokens.pieces)}
    assert not tokens.follows(number[b"a"], number[b"t"])  # at is a token
    assert tokens.follows(number[b"'"], number[b"s"])  # as in ['s
    assert tokens.follows(number[b"  "], number[b" "])  # as before a character that is in no token with a space
    assert tokens.follows(number[b"\xc3"], number[b"\x80"])  # halves are not checked


@pytest.mark.parametrize("pieces", [PIECES, *VOCABULARIES.values()])
@given(pattern=st.lists(st.sampled_from([*b"abc", BYTES.mask]), min_size=1, max_size=LONGEST))
def test_the_tokens_that_fit_a_pattern(pieces, pattern):
    tokens = Tokens(pieces)
    expected = [
        number
        for number, piece in enumerate(pieces)
        if 0 < len(piece) <= min(len(pattern), LONGEST)
        and all(seen in (byte, BYTES.mask) for seen, byte in zip(pattern, piece, strict=False))
    ]
    assert sorted(tokens.numbers[tokens.fitting(pattern)].tolist()) == expected


@given(pattern=st.lists(st.sampled_from([*b" est'\xc3", BYTES.mask]), min_size=1, max_size=8))
def test_the_tokens_of_a_trained_vocabulary_that_fit_a_pattern(pattern):
    tokens = byte_pairs()
    expected = [
        number
        for number, piece in enumerate(tokens.pieces)
        if 0 < len(piece) <= len(pattern)
        and all(seen in (byte, BYTES.mask) for seen, byte in zip(pattern, piece, strict=False))
    ]
    assert sorted(tokens.numbers[tokens.fitting(pattern)].tolist()) == expected


@given(text=st.text("abc"))
def test_without_a_canonical_cut_the_longest_piece_is_taken(text):
    tokens = Tokens(PIECES)
    cut = tokens.cut(text)
    assert b"".join(PIECES[token] for token in cut) == text.encode()
    assert all(tokens.follows(first, second) for first, second in itertools.pairwise(cut))
    if text.startswith("abc"):
        assert PIECES[cut[0]] == b"abc"
