"""Token bytes, tokenization, and tokens that match a damaged text, compared with a trained byte-pair tokenizer."""

import itertools
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.vocabularies import BYTES, MAX_TOKEN_BYTES, Tokens
from support.causal_experts import VOCABULARIES

TOKEN_BYTES = [b"a", b"", b"ab", b"abc", b"b", b"bb", b"c", b"a", b"ca" * 9]
BOOK = [
    "It's the cat's hat, isn't it? We're sure they've seen that he'd said she'll come; I'm not.",
    "def f(x):\n    if x == 'abc':\n        return [x, 's']\n\n\ndef g():\n    pass\n",
    "    indented   text\twith  runs   of    spaces\n\n\n\nand empty lines",
    "## Title\n\n* item (one)\n* item ((two))\n\n```\n$ ls -la  # 1234567 files\n```\n",
    "café naïve «été» — ─── 你好 世界",
]


@cache
def byte_pairs(regex=True):
    """Train a byte-level tokenizer on a few lines, with the word splitting of GPT-2 or with byte pairs alone."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(BOOK, trainer)
    shown = [byte for byte in range(BYTES.size) if chr(byte).isprintable() and byte not in (32, 160, 173)]
    hidden = [byte for byte in range(BYTES.size) if byte not in shown]
    bytes_of = {chr(byte): byte for byte in shown} | {chr(BYTES.size + n): byte for n, byte in enumerate(hidden)}
    token_bytes = [b""] * tokenizer.get_vocab_size()
    for name, token in tokenizer.get_vocab().items():
        token_bytes[token] = bytes(bytes_of[character] for character in name)
    return Tokens(token_bytes, lambda text: tokenizer.encode(text).ids)


TEXTS = st.text() | st.text("ab 's\n.(tre1─é") | st.lists(st.sampled_from(" ".join(BOOK).split(" "))).map(" ".join)


@pytest.mark.parametrize("regex", [True, False], ids=["words", "byte pairs alone"])
@given(text=TEXTS)
def test_neighbours_in_a_canonical_tokenization_follow_each_other(regex, text):
    tokens = byte_pairs(regex)
    canonical = tokens.tokenize(text)
    assert b"".join(tokens.token_bytes[token] for token in canonical) == text.encode()
    for first, second in itertools.pairwise(canonical):
        assert tokens.follows(first, second), (tokens.token_bytes[first], tokens.token_bytes[second])


@given(text=st.text("abcdehinst", min_size=1, max_size=6))
def test_with_byte_pairs_alone_pairs_determine_the_canonical_tokenization(text):
    """Exactly one tokenization has only neighbours that follow each other: the canonical one."""
    tokens = byte_pairs(False)
    prefixes = [[]]
    complete = []
    while prefixes:
        prefix = prefixes.pop()
        size = sum(len(tokens.token_bytes[token]) for token in prefix)
        if size == len(text):
            complete.append(prefix)
            continue
        for row in tokens.matching_rows(list(text.encode()[size:])):
            token = int(tokens.token_ids[row])
            if not prefix or tokens.follows(prefix[-1], token):
                prefixes.append([*prefix, token])
    assert complete == [tokens.tokenize(text)]


def test_a_pair_that_is_not_canonical_does_not_follow():
    tokens = byte_pairs()
    token_of = {form: token for token, form in enumerate(tokens.token_bytes)}
    assert not tokens.follows(token_of[b"a"], token_of[b"t"])  # at is a token
    assert tokens.follows(token_of[b"'"], token_of[b"s"])  # as in ['s
    assert tokens.follows(token_of[b"  "], token_of[b" "])  # as before a character that shares no token with a space
    assert tokens.follows(token_of[b"\xc3"], token_of[b"\x80"])  # parts of characters are not checked


@pytest.mark.parametrize("token_bytes", [TOKEN_BYTES, *VOCABULARIES.values()])
@given(pattern=st.lists(st.sampled_from([*b"abc", BYTES.mask]), min_size=1, max_size=MAX_TOKEN_BYTES))
def test_matching_rows_are_the_tokens_that_match_a_pattern(token_bytes, pattern):
    tokens = Tokens(token_bytes)
    expected = [
        token
        for token, form in enumerate(token_bytes)
        if 0 < len(form) <= min(len(pattern), MAX_TOKEN_BYTES)
        and all(pattern_byte in (byte, BYTES.mask) for pattern_byte, byte in zip(pattern, form, strict=False))
    ]
    assert sorted(tokens.token_ids[tokens.matching_rows(pattern)].tolist()) == expected


@given(pattern=st.lists(st.sampled_from([*b" est'\xc3", BYTES.mask]), min_size=1, max_size=8))
def test_matching_rows_of_a_trained_vocabulary(pattern):
    tokens = byte_pairs()
    expected = [
        token
        for token, form in enumerate(tokens.token_bytes)
        if 0 < len(form) <= len(pattern)
        and all(pattern_byte in (byte, BYTES.mask) for pattern_byte, byte in zip(pattern, form, strict=False))
    ]
    assert sorted(tokens.token_ids[tokens.matching_rows(pattern)].tolist()) == expected


@given(text=st.text("abc"))
def test_without_a_tokenizer_tokenization_is_greedy(text):
    tokens = Tokens(TOKEN_BYTES)
    greedy = tokens.tokenize(text)
    assert b"".join(TOKEN_BYTES[token] for token in greedy) == text.encode()
    assert all(tokens.follows(first, second) for first, second in itertools.pairwise(greedy))
    if text.startswith("abc"):
        assert TOKEN_BYTES[greedy[0]] == b"abc"
