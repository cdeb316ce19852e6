"""EpiDoc: gaps, the text of the edition, and offsets into the file."""

import pytest

from conservator.errors import ConservatorError
from conservator.notation import Lacuna, is_epidoc, read_epidoc

HEAD = '<?xml version="1.0"?>\n<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader>no</teiHeader><text><body>'
TAIL = "</body></text></TEI>\n"


def read(body):
    return read_epidoc(f"{HEAD}{body}{TAIL}".encode())


def shown(reading):
    """The reading text with _ at lacunae."""
    text = reading.data.decode()
    return "".join("_" if ord(character) >= 0xF0000 else character for character in text)


@pytest.mark.parametrize(
    ("attributes", "lacuna"),
    [
        ('reason="lost" quantity="3" unit="character"', Lacuna(3, is_exact=True)),
        ('reason="illegible" quantity="3" unit="character"', Lacuna(3, is_exact=True)),
        ('reason="lost" quantity="3" unit="character" precision="low"', Lacuna(3)),
        ('reason="lost" atLeast="4" atMost="6" unit="character"', Lacuna(5)),
        ('reason="lost" extent="unknown" unit="character"', Lacuna()),
        ('reason="lost" extent="unknown" unit="line"', None),
        ('reason="lost" quantity="2" unit="line"', None),
        ('reason="omitted" quantity="2" unit="character"', None),
    ],
)
def test_gaps(attributes, lacuna):
    reading = read(f"<ab>a <gap {attributes}/> b</ab>")
    assert [part.lacuna for _, part in reading.lacunae] == ([lacuna] if lacuna else [])
    if lacuna:
        (_, part), *_ = reading.lacunae
        assert reading.source[part.start : part.stop] == f"<gap {attributes}/>".encode()


def test_the_edition_is_read_without_markup():
    reading = read(
        '<div type="translation"><p>Not this</p></div><div type="edition"><ab>\n <lb n="1"/>D<ex>is</ex> Mani'
        '<lb n="2" break="no"/>bus   &amp; <choice><sic>x</sic><corr>fecit</corr></choice><note>no</note>'
        '<gap reason="lost" quantity="2" unit="character"/>\n<lb n="3"/>vixit<!-- no --> <![CDATA[an<]]></ab></div>'
    )
    assert shown(reading).split() == ["Dis", "Manibus", "&", "fecit_", "vixit", "an<"]


def test_every_byte_of_the_file_has_a_part():
    reading = read('<ab>a&lt;<gap reason="lost" quantity="1" unit="character"/></ab>')
    assert b"".join(reading.source[part.start : part.stop] for part in reading.parts) == reading.source
    (_, part), *_ = reading.lacunae
    assert part.markup == (
        b'<supplied reason="lost" evidence="conjecture" resp="#conservator" cert="low">',
        b"</supplied>",
    )


def test_the_prefix_of_the_gap_is_kept():
    source = (
        b'<t:TEI xmlns:t="http://www.tei-c.org/ns/1.0"><t:gap reason="lost" quantity="1" unit="character"/></t:TEI>'
    )
    (_, part), *_ = read_epidoc(source).lacunae
    assert part.markup[0].startswith(b"<t:supplied ")
    assert part.markup[1] == b"</t:supplied>"


def test_a_byte_order_mark_shifts_no_offset():
    source = b"\xef\xbb\xbf" + f'{HEAD}<ab>x<gap reason="lost" quantity="1" unit="character"/></ab>{TAIL}'.encode()
    (_, part), *_ = read_epidoc(source).lacunae
    assert source[part.start : part.stop].startswith(b"<gap")


@pytest.mark.parametrize(
    ("source", "problem"),
    [(b"<TEI><gap></TEI>", "not well-formed"), (b"<html><gap/></html>", "expected <TEI>"), (b"[...]", "EpiDoc")],
)
def test_other_files_are_refused(source, problem):
    with pytest.raises(ConservatorError, match=problem):
        read_epidoc(source)


def test_detection():
    assert is_epidoc(f"{HEAD}<ab><gap/></ab>{TAIL}".encode())
    assert not is_epidoc(f"{HEAD}<ab>a</ab>{TAIL}".encode())
    assert not is_epidoc(b"a [...] gap")
