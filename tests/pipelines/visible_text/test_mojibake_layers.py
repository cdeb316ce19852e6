"""Wrong decodings are undone exactly, and sequences with lost bytes stand for all characters that they can be."""

import re
from itertools import pairwise
from unicodedata import category

import pytest
from ftfy.chardata import CHARMAP_ENCODINGS
from hypothesis import given
from hypothesis import strategies as st

from conservator.pipelines.visible_text.mojibake_layers import (
    CHARACTER,
    FIRST_PLACEHOLDER,
    RARE_LATIN,
    Encoding,
    Placeholders,
    Tracked,
    changed_ranges,
    decode_line,
    enumerate_characters,
    select_encoding,
    undo,
)

MARK = "\ufffd"
COMPLETE = ("latin-1", "iso-8859-2", "macroman", "cp437")  # they have a character for every byte
CHARACTERS = st.characters(exclude_categories=("Cs",), max_codepoint=FIRST_PLACEHOLDER - 1)
LINES = st.text(CHARACTERS.filter(lambda character: character not in "\n\ufffd"), max_size=40)
ASSIGNED = [character for character in map(chr, range(0x80, 0x10000)) if category(character) not in ("Cn", "Co", "Cs")]


def tracked(text):
    return Tracked(text, list(range(len(text) + 1)))


def decoded(text, encoding):
    """The UTF-8 of a text, decoded with a one-byte encoding; undefined bytes become U+FFFD."""
    return text.encode().decode(encoding, "replace")


def is_lossy(character):
    """Whether one byte of a character is lost, and it is not one of those that are not decoded."""
    return decoded(character, "windows-1252").count(MARK) == 1 and ord(character) not in RARE_LATIN


def observed_of(line, observed):
    return [observed[start:stop] for start, stop in pairwise(line.origin)]


@given(LINES, st.sampled_from(COMPLETE))
def test_decoding_a_line_is_the_exact_inverse(text, encoding):
    line = decode_line(tracked(decoded(text, encoding)), Encoding.of(encoding), Placeholders())
    assert line.text == text
    assert "".join(observed_of(line, decoded(text, encoding))) == decoded(text, encoding)
    for character, observed in zip(text, observed_of(line, decoded(text, encoding)), strict=True):
        assert decoded(character, encoding) == observed


@given(st.sampled_from([character for character in ASSIGNED if is_lossy(character)]))
def test_a_sequence_with_a_lost_byte_stands_for_the_character(character):
    damaged = f"a {decoded(character, 'windows-1252')} b"
    placeholders = Placeholders()
    line = decode_line(tracked(damaged), Encoding.of("sloppy-windows-1252"), placeholders)
    middle = line.text.removeprefix("a ").removesuffix(" b")
    assert character in placeholders.sets.get(middle, {middle: 1.0})
    for member in placeholders.sets.get(middle, {}):
        assert decoded(member, "windows-1252") == decoded(character, "windows-1252")


@given(st.lists(st.sets(st.integers(0x80, 0xF4), min_size=1, max_size=4), min_size=2, max_size=3))
def test_enumerated_characters_are_all_that_the_bytes_can_be(sets):
    enumerated = enumerate_characters([dict.fromkeys(choices, 0.5) for choices in sets])
    pattern = re.compile(b"".join(b"[" + b"".join(b"\\x%02x" % byte for byte in choices) + b"]" for choices in sets))
    for character in ASSIGNED:
        if pattern.fullmatch(character.encode()):
            assert character in enumerated or all(ord(other) in RARE_LATIN for other in [character, *enumerated])
        else:
            assert character not in enumerated
    assert not enumerated or sum(enumerated.values()) == pytest.approx(1)


@given(st.text(CHARACTERS, max_size=60))
def test_the_origin_covers_the_text(text):
    line = undo(tracked(text), Placeholders())
    assert len(line.origin) == len(line.text) + 1
    assert (line.origin[0], line.origin[-1]) == (0, len(text))
    assert line.origin == sorted(line.origin)
    ranges = list(changed_ranges(text, line))
    assert all(first[1] < second[0] for first, second in pairwise(ranges))
    changed = [range(*span) for span in ranges]
    for index, observed in enumerate(observed_of(line, text)):
        assert any(index in span for span in changed) == (line.text[index] != observed)


@given(st.text(st.characters(max_codepoint=0x7F)))
def test_ascii_does_not_change(text):
    line = tracked(text)
    assert undo(line, Placeholders()) is line


@pytest.mark.parametrize("encoding", CHARMAP_ENCODINGS)
def test_sequences_of_an_encoding(encoding):
    text = "Čeština, déjà vu, русский язык"
    try:
        damaged = text.encode().decode(encoding)
    except UnicodeDecodeError:
        pytest.skip("the text is not lossless")
    assert undo(tracked(damaged), Placeholders()).text == text


@pytest.mark.parametrize(
    ("damaged", "clean"),
    [
        ("nÃƒÂ© en Espagne", "né en Espagne"),  # two layers
        ("Classificação: DivisÃ£o", "Classificação: Divisão"),  # a part of the line
        ("Il va Ã la plage", "Il va à la plage"),  # a no-break space became a space
        ("le mГ©dicament est Г la mode", "le médicament est à la mode"),  # a letter of Windows-1251 in a Latin word
        ("a \x93quoted\x94 word", "a “quoted” word"),  # Latin-1 for Windows-1252
        ("\xed\xa0\xbd\xed\xb8\x82 ha", "😂 ha"),  # surrogates
    ],
)
def test_examples(damaged, clean):
    assert undo(tracked(damaged), Placeholders()).text == clean


@pytest.mark.parametrize(
    "text",
    ["SÓ… NÃO", "Ã’s", "MÄ£ÄM ÌÑÌ Q £ÄGÌ", "Brontë…”", "2012—∞", "10 Å—", "o¬ô", "L’épisode", "\x81 control"],  # noqa: RUF001
)
def test_intact_text_does_not_change(text):
    line = tracked(text)
    assert undo(line, Placeholders()) is line


@pytest.mark.parametrize("text", [f"CAFÉ{MARK} ET É{MARK}", f"É{MARK}, été"])
def test_a_capital_letter_before_a_mark_stays(text):
    line = tracked(text)
    assert undo(line, Placeholders()) is line


def test_a_sequence_with_a_lost_byte_in_a_line_with_other_characters():
    placeholders = Placeholders()
    line = undo(tracked(f"“real” and â€œfalseâ€{MARK} 漢字"), placeholders)
    assert re.fullmatch("“real” and “false(.) 漢字", line.text)[1] in placeholders.sets


def test_a_mark_that_is_no_part_of_mojibake_stays():
    assert undo(tracked(f"cafÃ© and caf{MARK} "), Placeholders()).text == f"café and caf{MARK} "


def test_two_layers_with_lost_bytes():
    placeholders = Placeholders()
    line = undo(tracked("ItÃ?Â¢â?¬â?¢s"), placeholders)
    (placeholder,) = set(line.text) & set(placeholders.sets)
    assert line.text == f"It{placeholder}s"
    assert "’" in placeholders.sets[placeholder]  # noqa: RUF001


def test_lines_have_the_encoding_of_the_other_lines():
    placeholders = Placeholders()
    left = [tracked(decoded("Sí", "windows-1251"))]
    assert select_encoding(left, placeholders) is None
    placeholders.encodings["sloppy-windows-1251"] = 3
    assert select_encoding(left, placeholders) == Encoding.of("sloppy-windows-1251")


def test_lines_whose_characters_are_all_explained():
    text = "àé, día, año, más, qué"
    assert select_encoding([tracked(decoded(text, "windows-1251"))], Placeholders()) is not None
    assert select_encoding([tracked(decoded(text, "windows-1251") + " Ж")], Placeholders()) is None


def test_characters_of_a_run():
    assert [match[0] for match in CHARACTER.finditer("\xc3\xa9\xe2\x80\x99")] == ["\xc3\xa9", "\xe2\x80\x99"]
