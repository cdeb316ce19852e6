"""Symbols: every byte of a text belongs to one symbol."""

from hypothesis import given
from hypothesis import strategies as st

from conservator.documents import GAP_SYMBOL, SymbolText

MARK = "\ufffd"


@given(st.lists(st.sampled_from(["a", "é", "\U0001f600", " ", "\n", MARK, "[...]", "["])), st.binary(max_size=4))
def test_the_symbols_cover_the_text(parts, invalid):
    data = "".join(parts).encode() + invalid
    symbols = SymbolText.of(data, MARK, ["[...]"])
    assert symbols.bytes_of(0, len(symbols.symbols)) == data
    assert len(symbols.edges) == len(symbols.symbols) + 1
    assert (symbols.edges[1:] > symbols.edges[:-1]).all()


def test_whitespace_and_markers_are_one_symbol():
    symbols = SymbolText.of(b"a \n b__c[...]d", "__", ["[...]"])
    assert symbols.symbols == f"a b\uffffc{GAP_SYMBOL}d"
    assert symbols.bytes_of(1, 2) == b" \n "


def test_a_mark_that_was_decoded_wrongly_is_a_mark():
    assert SymbolText.of("a\u00ef\u00bf\u00bdb".encode(), MARK).symbols == "a\uffffb"


def test_an_invalid_byte_is_a_symbol():
    symbols = SymbolText.of(b"a\xffb", MARK)
    assert len(symbols.symbols) == 3
    assert symbols.bytes_of(1, 2) == b"\xff"
