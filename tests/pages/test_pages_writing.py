"""Files of OCR engines with corrected words: all else stays, and the original stands beside each change."""

import math
import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from conservator.errors import ConservatorError
from conservator.pages import Box, Change, read_pages
from conservator.pages.elements import Edits
from conservator.pages.word_alignment import distance, match_words, retell, spread
from support.ocr_files import SAMPLES

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Co", "Zs", "Zl", "Zp"]), min_size=1, max_size=8)
LINES = st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=5)
NAMES = st.sampled_from(sorted(SAMPLES))
XML = [name for name in SAMPLES if not name.endswith(("html", "tsv"))]


def changed(name, *changes):
    transcript = read_pages(SAMPLES[name])
    return transcript, transcript.with_text([Change(*change) for change in changes])


def corrected(name, old, new, confidence=None):
    transcript = read_pages(SAMPLES[name])
    assert transcript.text.count(old) == 1
    data = transcript.with_text(transcript.changes(transcript.text.replace(old, new), confidence))
    assert read_pages(data).text == transcript.text.replace(old, new)
    return data.decode("latin-1" if name.endswith("html") else "utf-8")


@pytest.mark.parametrize("name", SAMPLES)
def test_without_a_change_the_bytes_are_the_same(name):
    transcript = read_pages(SAMPLES[name])
    same = [Change(at, at + 1, word.text) for at, word in enumerate(transcript.words)]
    assert transcript.with_text([]) == transcript.with_text(same) == SAMPLES[name]
    assert transcript.changes(transcript.text) == transcript.changes(transcript.text.removesuffix("\n")) == []


def undone(data):
    """A corrected file with the originals in their places again, as canonical XML."""
    root = ET.fromstring(data.replace(b"&nbsp;", b" "))
    parents = {child: parent for parent in root.iter() for child in parent}
    for one in list(root.iter()):
        tag = one.tag.rpartition("}")[2]
        if "data-original" in one.attrib:
            one.text = one.attrib.pop("data-original") + (one.text or "")[len((one.text or "").rstrip()) :]
        elif tag == "ALTERNATIVE" and one.get("PURPOSE") == "original":
            parents[one].set("CONTENT", one.text)
            parents[one].remove(one)
        elif tag == "TextEquiv" and one.get("comments") == "original":
            word = parents[one]
            main = min((other for other in word if other.tag == one.tag), key=lambda other: int(other.get("index", 0)))
            for inner in main:
                inner.text = one[0].text
            word.remove(one)
        elif tag == "TextEquiv" and parents[one].tag.endswith(("TextLine", "TextRegion")):
            one[-1].text = ""  # which repeats the words
    return ET.canonicalize(ET.tostring(root, encoding="unicode"), strip_text=True)


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("tesseract.hocr", 4),
        ("choices.hocr", 1),
        ("ocrmypdf.hocr", 3),
        ("tesseract.alto.xml", 4),
        ("abbyy.alto.xml", 1),
        ("glyphs.alto.xml", 0),
        ("glyphs.page.xml", 0),
    ],
)
@settings(max_examples=20)
@given(text=WORDS)
def test_all_but_the_change_stays(name, at, text):
    transcript, data = changed(name, (at, at + 1, text))
    assert undone(data) == undone(transcript.data)
    assert len(data) > len(transcript.data) or text == transcript.words[at].text


def structure(data):
    """The elements of a file with their attributes, without what a change of words may touch."""
    root = ET.fromstring(data.replace(b"&nbsp;", b" "))
    found = []
    for one in root.iter():
        tag = one.tag.rpartition("}")[2]
        if one.get("PURPOSE") == "original" or one.get("comments") == "original" or tag in ("Unicode", "PlainText"):
            continue
        touched = ("data-original", "CONTENT", "SUBS_CONTENT", "WC", "conf", "index", "comments")
        kept = {key: value for key, value in one.attrib.items() if key not in touched}
        kept |= {"title": re.sub(r"; x_wconf \d+|x_wconf \d+(; )?", "", one.get("title", ""))}
        found.append((tag, kept))
    return found


@pytest.mark.parametrize("name", XML)
@settings(max_examples=10)
@given(choice=st.data())
def test_every_element_attribute_and_coordinate_stays(name, choice):
    """Any words become others, with a confidence."""
    transcript = read_pages(SAMPLES[name])
    places = choice.draw(st.sets(st.integers(0, len(transcript.words) - 1), min_size=1))
    made = transcript.with_text([Change(at, at + 1, choice.draw(WORDS), 0.5) for at in places])
    before, after = ([one for one in structure(data) if one[0] != "HYP"] for data in (SAMPLES[name], made))
    assert after == before


@given(choice=st.data())
def test_every_cell_of_a_table_stays(choice):
    transcript = read_pages(SAMPLES["tesseract.tsv"])
    places = choice.draw(st.sets(st.integers(0, len(transcript.words) - 1), min_size=1))
    changes = [Change(at, at + 1, choice.draw(WORDS), 0.25) for at in places]
    before, after = (data.decode().split("\n") for data in (transcript.data, transcript.with_text(changes)))
    assert after[0] == before[0] + "\toriginal"
    changed = 0
    for old, new in zip(before[1:], after[1:], strict=True):
        cells = new.split("\t")
        assert cells[:10] == old.split("\t")[:10]
        assert cells == [""] or len(cells) == 13
        if cells[10:] != [*old.split("\t")[10:], ""] and cells != [""]:
            assert cells[10] == "25"
            assert cells[12] in ("", old.split("\t")[11])
            changed += 1
    assert changed == len(places)


@settings(max_examples=100)
@given(name=NAMES, choice=st.data())
def test_changes_of_characters_are_written_with_their_probability(name, choice):
    transcript = read_pages(SAMPLES[name])
    text, stretches, at = transcript.text, [], 0
    for _ in range(choice.draw(st.integers(1, 6))):
        start = choice.draw(st.integers(at, len(text)))
        stop = choice.draw(st.integers(start, min(len(text), start + 4)))
        first, last = transcript.words_in(start, stop)
        if "\n" in text[start:stop] or first == last:
            continue
        stretches.append((start, stop, choice.draw(st.text("ab é", max_size=3)), choice.draw(st.floats(0.1, 1))))
        at = stop + 1
        if at > len(text):
            break
    parts, done = [], 0
    for start, stop, new, _ in stretches:
        parts += [text[done:start], new]
        done = stop
    changes = transcript.changes_at(stretches)
    again = read_pages(transcript.with_text(changes))
    assert again.text.split() == "".join([*parts, text[done:]]).split()
    for change in changes:
        assert change.confidence >= math.prod(one[3] for one in stretches) - 1e-9
        assert change.confidence <= max(one[3] for one in stretches)


def test_a_change_of_a_space_is_one_of_both_words():
    transcript = read_pages(SAMPLES["ocrmypdf.hocr"])
    at = transcript.text.index("ye ar")
    assert transcript.text[transcript.spans[4][0] :].startswith("ye ar")
    assert transcript.changes_at([(at + 2, at + 3, "", 0.75)]) == [Change(4, 6, "year", 0.75)]
    assert transcript.changes_at([(at, at + 1, "y", 0.5), (at + 2, at + 3, "", 0.5)]) == [Change(4, 6, "year", 0.25)]
    assert transcript.changes_at([(at + 2, at + 2, "s", 0.5)]) == [Change(4, 5, "yes", 0.5)]
    empty = read_pages(b"<html><div class='ocr_page'></div></html>")
    with pytest.raises(ConservatorError, match="beside which is no word"):
        empty.changes_at([(0, 0, "a", 0.5)])


@settings(max_examples=60)
@given(name=NAMES, choice=st.data())
def test_words_take_the_places_of_words(name, choice):
    transcript = read_pages(SAMPLES[name])
    old = transcript.words
    places = choice.draw(st.sets(st.integers(0, len(old) - 1), min_size=1, max_size=3))
    new = {at: choice.draw(WORDS) for at in sorted(places)}
    again = read_pages(transcript.with_text([Change(at, at + 1, text) for at, text in new.items()])).words
    assert [word.text for word in again] == [new.get(at, word.text) for at, word in enumerate(old)]
    assert [(word.box, word.confidence) for word in again] == [(word.box, word.confidence) for word in old]
    hyphenated = {at for at, word in enumerate(old) if word.whole}
    assert all(again[at] == word for at, word in enumerate(old) if at not in new and at not in hyphenated)
    alone = {at for at in new if new[at] != old[at].text and old[at].box is not None}
    assert all(again[at].original == old[at].text for at in alone)


@settings(max_examples=60)
@given(name=NAMES, choice=st.data())
def test_any_correction_of_a_line_can_be_written(name, choice):
    transcript = read_pages(SAMPLES[name])
    lines = transcript.text.split("\n")
    at = choice.draw(st.sampled_from([at for at, line in enumerate(lines) if line]))
    words = choice.draw(
        st.lists(st.sampled_from([*lines[at].split(), *lines[at].replace("e", " ").split(), "new"]), min_size=1)
    )
    lines[at] = " ".join(words)
    data = transcript.with_text(transcript.changes("\n".join(lines), 0.5))
    assert read_pages(data).text == "\n".join(lines)


@settings(max_examples=60)
@given(name=NAMES, choice=st.data())
def test_changes_of_several_words(name, choice):
    transcript = read_pages(SAMPLES[name])
    line = choice.draw(st.sampled_from(range(len(transcript.lines))))
    first = sum(len(one.words) for one in transcript.lines[:line])
    count = len(transcript.lines[line].words)
    start = choice.draw(st.integers(0, count - 1))
    stop = choice.draw(st.integers(start + 1, count))
    parts = choice.draw(st.lists(WORDS, max_size=4))
    assume(parts or stop - start < count)
    again = read_pages(transcript.with_text([Change(first + start, first + stop, " ".join(parts), 0.25)]))
    expected = [word.text for word in transcript.words]
    expected[first + start : first + stop] = parts
    assert " ".join(word.text for word in again.words) == " ".join(expected)
    assert len(again.lines) == len(transcript.lines)
    boxes = [word.box for word in again.words[first + start : first + start + len(parts)]]
    if all(word.box for word in transcript.words[first + start : first + stop]) and parts:
        around = [word.box for word in transcript.words[first + start : first + stop]]
        assert min(box.left for box in boxes) >= min(box.left for box in around)
        assert max(box.right for box in boxes) <= max(box.right for box in around) + 0.01
        assert len(parts) == stop - start or all(one.right <= two.left + 0.01 for one, two in pairwise(boxes))


def test_hocr_keeps_the_original_in_an_attribute():
    data = corrected("ocrmypdf.hocr", "Tbe", "The", 0.995)
    assert (
        'id="word_1_1" title="bbox 90 100 180 140; x_wconf 100; x_fsize 12" data-original="Tbe">'
        "<strong>The</strong></span>" in data
    )
    again = read_pages(data.encode())
    assert again.words[0].original == "Tbe"
    twice = again.with_text([Change(0, 1, "She")]).decode()
    assert twice.count("data-original") == 1
    assert 'data-original="Tbe"><strong>She<' in twice


def test_hocr_parts_and_joins_words():
    data = corrected("ocrmypdf.hocr", "ofthe ye ar", "of the year")
    assert (
        'title="bbox 90 160 127 200; x_wconf 33" data-original="ofthe">of</span> '
        '<span class="ocrx_word" id="word_1_4_2" title="bbox 145 160 200 200; x_wconf 33">the</span>' in data
    )
    assert 'title="bbox 210 160 320 200; x_wconf 45" data-original="ye ar">year</span>' in data
    assert "word_1_6" not in data


def test_a_word_within_a_word_is_joined_with_another():
    nested = "<span class='ocrx_word'>a</span> <span class='ocrx_word'><span class='ocrx_word'>b</span>c</span>"
    transcript = read_pages(f"<html><div class='ocr_page'><span class='ocr_line'>{nested}</span></div></html>".encode())
    assert transcript.text == "a b\n"
    assert read_pages(transcript.with_text([Change(0, 2, "ab")])).text == "ab\n"


def test_changes_that_overlap_are_refused():
    edits = Edits(b"<a><b>c</b></a>")
    edits.replace(3, 11, b"")
    edits.replace(6, 7, b"d")
    with pytest.raises(ConservatorError, match="byte 6 of the file: words that stand within each other"):
        edits.apply()


def test_alto_keeps_the_original_as_an_alternative():
    data = corrected("abbyy.alto.xml", "tlie patient", "the patience", 0.9)
    assert (
        'WC="0.90" CC="0 2 9 0" CONTENT="the"><ALTERNATIVE PURPOSE="original">tlie</ALTERNATIVE></String><SP ID="SP1"'
        in data
    )
    assert (
        'CONTENT="patience"><ALTERNATIVE PURPOSE="dictionary">patients</ALTERNATIVE>'
        '<ALTERNATIVE PURPOSE="original">patient</ALTERNATIVE></String>' in data
    )
    data = corrected("glyphs.alto.xml", "modem", "modern")
    assert '</a:Shape><a:ALTERNATIVE PURPOSE="original">modem</a:ALTERNATIVE>\n' in data
    assert data.count("<a:Glyph") == 5


def test_alto_parts_and_joins_words():
    data = corrected("abbyy.alto.xml", "readsthe li ne &c.", "reads the line &c.")
    assert 'HPOS="430" VPOS="192" WIDTH="167" HEIGHT="36" WC="0.61" CONTENT="reads">' in data
    assert (
        '</String><SP HPOS="597" VPOS="192" WIDTH="33"/>'
        '<String ID="S5_2" HPOS="630" VPOS="192" WIDTH="100" HEIGHT="36" WC="0.61" CONTENT="the"/>' in data
    )
    data = changed("abbyy.alto.xml", (5, 7, "line"))[1].decode()
    assert 'HPOS="750" VPOS="192" WIDTH="138" HEIGHT="36" WC="0.40" CONTENT="line">' in data
    assert '<ALTERNATIVE PURPOSE="original">li ne &amp;c.</ALTERNATIVE></String>\n          </TextLine>' in data


def test_alto_keeps_hyphenated_words_whole():
    data = corrected("abbyy.alto.xml", "servator", "servatory")
    assert data.count('SUBS_CONTENT="conservatory"') == 2
    data = corrected("abbyy.alto.xml", "con-", "pre-")
    assert 'CONTENT="pre" SUBS_TYPE="HypPart1" SUBS_CONTENT="preservator"' in data
    assert '<HYP HPOS="660" VPOS="160" WIDTH="12" CONTENT="-"/>' in data
    data = corrected("abbyy.alto.xml", "con-", "con")
    assert "<HYP" not in data
    data = changed("abbyy.alto.xml", (2, 3, "a con-"))[1].decode()
    assert 'CONTENT="con"/><HYP' in data
    assert "SUBS_" not in data
    data = corrected("abbyy.alto.xml", "patient con-", "patientcon-")
    assert 'CONTENT="patientcon"><ALTERNATIVE' in data
    assert data.count("<HYP") == 1


def test_page_keeps_the_original_as_a_text_of_higher_index():
    data = corrected("glyphs.page.xml", "cn pleinair pa inted", "en plein air painted", 0.75)
    assert (
        '<pc:TextEquiv index="0" conf="0.75"><pc:PlainText>en</pc:PlainText><pc:Unicode>en</pc:Unicode></pc:TextEquiv>'
        '<pc:TextEquiv index="2" conf="0.64" comments="original"><pc:Unicode>cn</pc:Unicode></pc:TextEquiv>' in data
    )
    assert '<pc:Word id="w2_2"><pc:Coords points="211,10 ' not in data
    assert data.count("<pc:Unicode>en plein air painted</pc:Unicode>") == 2
    assert read_pages(data.encode()).words[3].box == Box(310, 10, 500, 40)


def test_page_of_2013_keeps_the_original_as_a_comment():
    data = corrected("transkribus.page.xml", "fricnd", "friend")
    assert 'comments="faded; original: My dear fricnd, the parcel">' in data
    assert data.count("My dear friend, the parcel") == 2
    assert data.count("<TextEquiv") == 5
    data = corrected("transkribus.page.xml", "kind regards &", "kindest regards &")
    assert data.count("with kindest regards &amp; haste") == 2


def test_lines_without_words():
    data = corrected("lines.hocr.html", "carne to the café", "came to the café, ☃")
    assert "nobody <i>came</i> to the caf\xe9, &#9731;</span>" in data
    assert 'data-original="nobody carne to the caf\xe9"' in data


def test_tables_count_their_words():
    data = corrected("tesseract.tsv", "of-it, and", "of it, and", 0.5)
    assert (
        "\n5\t1\t1\t1\t2\t2\t97\t93\t20\t25\t50\tof\tof-it,\n5\t1\t1\t1\t2\t3\t128\t93\t30\t25\t50\tit,\t\n"
        "5\t1\t1\t1\t2\t4\t" in data
    )
    data = corrected("tesseract.tsv", "guesses what", "guesseswhat")
    assert data.count("\n") == SAMPLES["tesseract.tsv"].count(b"\n") - 1


@pytest.mark.parametrize("name", ["characters.hocr", "both.hocr", "choices.hocr"])
def test_glyphs_stay_in_words_that_are_parted_or_joined(name):
    kept = SAMPLES[name].count(b"ocrx_cinfo")
    for old, new in [("~amodern", "~a modern"), ("page, read", "page,read"), ("~amodern page,", "a mod erns page")]:
        data = corrected(name, old, new)
        assert data.count("ocrx_cinfo") == kept
    data = corrected(name, "~amodern", "~a modern").encode()
    if name != "choices.hocr":
        assert "".join(glyph.text for glyph in read_pages(data).words[1].glyphs) == "modern"
        boxes = [
            [glyph.box for word in read_pages(one).words for glyph in word.glyphs] for one in (data, SAMPLES[name])
        ]
        assert boxes[0] == boxes[1]


def test_glyphs_move_with_their_characters():
    data = changed("glyphs.alto.xml", (0, 1, "mo dem"))[1]
    first, second, _ = read_pages(data).words
    assert ["".join(glyph.text for glyph in word.glyphs) for word in (first, second)] == ["mo", "dem"]
    assert second.glyphs[-1].alternatives
    data = changed("glyphs.alto.xml", (0, 2, "modemtimes"))[1]
    assert data.count(b"<a:Glyph") == 5
    data = changed("glyphs.page.xml", (0, 1, "c n"))[1]
    assert [[glyph.text for glyph in word.glyphs] for word in read_pages(data).words[:2]] == [["c"], ["n"]]
    data = changed("glyphs.page.xml", (0, 2, "cnpleinair"))[1]
    assert data.count(b"<pc:Glyph") == 2


def test_glyphs_say_where_a_word_is_parted():
    data = corrected("characters.hocr", "~amodern", "~a modern")
    glyphs = read_pages(SAMPLES["characters.hocr"]).words[0].glyphs
    first, second = (word.box for word in read_pages(data.encode()).words[:2])
    assert first == glyphs[0].box.joined(glyphs[1].box)
    assert second.left == glyphs[2].box.left


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([(0, 99, "a")], "the transcript has 9 words"),
        ([(-1, 1, "a")], "the transcript has 9 words"),
        ([(1, 1, "a")], "the transcript has 9 words"),
        ([(2, 4, "a")], "on several lines"),
        ([(0, 2, "a"), (1, 2, "b")], "can be changed once"),
        ([(0, 1, "a\x01")], "has no place"),
        ([(0, 1, "a", 1.5)], "one from 0 to 1"),
    ],
)
def test_changes_that_cannot_be_made(changes, said):
    with pytest.raises(ConservatorError, match=said):
        changed("abbyy.alto.xml", *changes)


def test_lines_must_be_kept():
    transcript = read_pages(SAMPLES["abbyy.alto.xml"])
    with pytest.raises(ConservatorError, match="has 1 lines, the transcript 4"):
        transcript.changes("one line")
    with pytest.raises(ConservatorError, match="line 3 of the corrected text is not empty"):
        transcript.changes(transcript.text.replace("\n\n", "\nx\n"))


@given(pieces=st.lists(st.text("abc", max_size=3), min_size=1, max_size=5), text=st.text("abcd", max_size=9))
def test_a_text_is_spread_over_pieces(pieces, text):
    made = spread(pieces, text)
    assert "".join(made) == text
    assert len(made) == len(pieces)
    assert spread(pieces, "".join(pieces)) == pieces


@given(old=LINES, new=st.lists(st.text("ab", min_size=1, max_size=3), max_size=5))
def test_matched_words_make_the_new_line(old, new):
    made, at = [], 0
    for start, stop, text in match_words(old, new):
        assert at <= start < stop
        made += [*old[at:start], *text.split()]
        at = stop
    assert made + old[at:] == new
    assert retell(" \n".join(old), old, match_words(old, new)).split() == new


def test_matched_words_are_those_that_are_alike():
    assert match_words(["tlie", "old", "ofthe", "ye", "ar", "."], ["the", "old", "of", "the", "year"]) == [
        (0, 1, "the"),
        (2, 3, "of the"),
        (3, 5, "year"),
        (5, 6, ""),
    ]
    assert match_words(["a"], ["a", "b"]) == [(0, 1, "a b")]


@given(st.text("abc", max_size=6), st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_the_edit_distance_is_one(one, two, three):
    assert (distance(one, two) == 0) == (one == two)
    assert distance(one, two) == distance(two, one) <= max(len(one), len(two))
    assert distance(one, three) <= distance(one, two) + distance(two, three)
