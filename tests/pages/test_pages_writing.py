"""OCR files with corrected words: everything else stays the same, and the original texts are recorded."""

import math
import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from conservator.documents import splice
from conservator.errors import ConservatorError
from conservator.pages import Box, WordChange, read_pages
from conservator.pages.formats.word_alignment import distribute_text, replace_words
from conservator.pages.markup.edits import Edits
from support.ocr_files import SAMPLES
from support.word_changes import align_words, changes_between

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Co", "Zs", "Zl", "Zp"]), min_size=1, max_size=8)
LINES = st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=5)
NAMES = st.sampled_from(sorted(SAMPLES))
XML = [name for name in SAMPLES if not name.endswith(("html", "tsv"))]


def change_words(name, *changes):
    transcript = read_pages(SAMPLES[name])
    return transcript, transcript.apply_changes([WordChange(*change) for change in changes])


def correct(name, old, new, confidence=None):
    transcript = read_pages(SAMPLES[name])
    assert transcript.text.count(old) == 1
    data = transcript.apply_changes(changes_between(transcript, transcript.text.replace(old, new), confidence))
    assert read_pages(data).text == transcript.text.replace(old, new)
    return data.decode("latin-1" if name.endswith("html") else "utf-8")


@pytest.mark.parametrize("name", SAMPLES)
def test_without_a_change_the_bytes_are_the_same(name):
    transcript = read_pages(SAMPLES[name])
    same = [WordChange(index, index + 1, word.text) for index, word in enumerate(transcript.words)]
    assert transcript.apply_changes([]) == transcript.apply_changes(same) == SAMPLES[name]


def undo_changes(data):
    """A corrected file with the original texts restored, as canonical XML."""
    root = ET.fromstring(data.replace(b"&nbsp;", b" "))
    parents = {child: parent for parent in root.iter() for child in parent}
    for element in list(root.iter()):
        tag, text = element.tag.rpartition("}")[2], element.text or ""
        if "data-original" in element.attrib:
            element.text = element.attrib.pop("data-original") + text[len(text.rstrip()) :]
        elif tag == "ALTERNATIVE" and element.get("PURPOSE") == "original":
            parents[element].set("CONTENT", element.text)
            parents[element].remove(element)
        elif tag == "TextEquiv" and element.get("comments") == "original":
            word = parents[element]
            texts = (sibling for sibling in word if sibling.tag == element.tag)
            main = min(texts, key=lambda sibling: int(sibling.get("index", 0)))
            for content in main:
                content.text = element[0].text
            word.remove(element)
        elif tag == "TextEquiv" and parents[element].tag.endswith(("TextLine", "TextRegion")):
            element[-1].text = ""  # it repeats the words
    return ET.canonicalize(ET.tostring(root, encoding="unicode"), strip_text=True)


@pytest.mark.parametrize(
    ("name", "index"),
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
def test_everything_but_the_change_stays_the_same(name, index, text):
    transcript, data = change_words(name, (index, index + 1, text))
    assert undo_changes(data) == undo_changes(transcript.data)
    assert len(data) > len(transcript.data) or text == transcript.words[index].text


def structure(data):
    """The elements of a file with their attributes, without those that a change of words may set."""
    root = ET.fromstring(data.replace(b"&nbsp;", b" "))
    elements = []
    for element in root.iter():
        tag = element.tag.rpartition("}")[2]
        is_original = element.get("PURPOSE") == "original" or element.get("comments") == "original"
        if is_original or tag in ("Unicode", "PlainText"):
            continue
        changeable = ("data-original", "CONTENT", "SUBS_CONTENT", "WC", "conf", "index", "comments")
        attributes = {key: value for key, value in element.attrib.items() if key not in changeable}
        attributes |= {"title": re.sub(r"; x_wconf \d+|x_wconf \d+(; )?", "", element.get("title", ""))}
        elements.append((tag, attributes))
    return elements


@pytest.mark.parametrize("name", XML)
@settings(max_examples=10)
@given(choice=st.data())
def test_every_element_attribute_and_coordinate_stays(name, choice):
    """Any words are changed, with a confidence."""
    transcript = read_pages(SAMPLES[name])
    indices = choice.draw(st.sets(st.integers(0, len(transcript.words) - 1), min_size=1))
    changes = [WordChange(index, index + 1, choice.draw(WORDS), 0.5) for index in indices]
    before, after = (
        [element for element in structure(data) if element[0] != "HYP"]
        for data in (SAMPLES[name], transcript.apply_changes(changes))
    )
    assert after == before


@given(choice=st.data())
def test_every_other_cell_of_a_table_stays(choice):
    transcript = read_pages(SAMPLES["tesseract.tsv"])
    indices = choice.draw(st.sets(st.integers(0, len(transcript.words) - 1), min_size=1))
    changes = [WordChange(index, index + 1, choice.draw(WORDS), 0.25) for index in indices]
    before, after = (data.decode().split("\n") for data in (transcript.data, transcript.apply_changes(changes)))
    assert after[0] == before[0] + "\toriginal"
    changed_rows = 0
    for old, new in zip(before[1:], after[1:], strict=True):
        cells = new.split("\t")
        assert cells[:10] == old.split("\t")[:10]
        assert cells == [""] or len(cells) == 13
        if cells[10:] != [*old.split("\t")[10:], ""] and cells != [""]:
            assert cells[10] == "25"
            assert cells[12] in ("", old.split("\t")[11])
            changed_rows += 1
    assert changed_rows == len(indices)


@settings(max_examples=100)
@given(name=NAMES, choice=st.data())
def test_changes_of_characters_become_changes_of_words(name, choice):
    transcript = read_pages(SAMPLES[name])
    text, spans, offset = transcript.text, [], 0
    for _ in range(choice.draw(st.integers(1, 6))):
        start = choice.draw(st.integers(offset, len(text)))
        stop = choice.draw(st.integers(start, min(len(text), start + 4)))
        first, last = transcript.words_in(start, stop)
        if "\n" in text[start:stop] or first == last:
            continue
        spans.append((start, stop, choice.draw(st.text("ab é", max_size=3)), choice.draw(st.floats(0.1, 1))))
        offset = stop + 1
        if offset > len(text):
            break
    changes = transcript.word_changes(spans)
    result = read_pages(transcript.apply_changes(changes))
    assert result.text.split() == splice(text, [span[:3] for span in spans]).split()
    probabilities = [span[3] for span in spans]
    for change in changes:
        assert change.confidence >= math.prod(probabilities) - 1e-9
        assert change.confidence <= max(probabilities)


def test_a_change_of_a_space_changes_both_words():
    transcript = read_pages(SAMPLES["ocrmypdf.hocr"])
    start = transcript.text.index("ye ar")
    assert transcript.text[transcript.spans[4][0] :].startswith("ye ar")
    space, letter = (start + 2, start + 3, "", 0.5), (start, start + 1, "y", 0.5)
    assert transcript.word_changes([(start + 2, start + 3, "", 0.75)]) == [WordChange(4, 6, "year", 0.75)]
    assert transcript.word_changes([letter, space]) == [WordChange(4, 6, "year", 0.25)]
    assert transcript.word_changes([(start + 2, start + 2, "s", 0.5)]) == [WordChange(4, 5, "yes", 0.5)]
    empty = read_pages(b"<html><div class='ocr_page'></div></html>")
    with pytest.raises(ConservatorError, match="does not touch a word"):
        empty.word_changes([(0, 0, "a", 0.5)])


@settings(max_examples=60)
@given(name=NAMES, choice=st.data())
def test_changed_words_keep_boxes_and_confidences(name, choice):
    transcript = read_pages(SAMPLES[name])
    old = transcript.words
    indices = choice.draw(st.sets(st.integers(0, len(old) - 1), min_size=1, max_size=3))
    texts = {index: choice.draw(WORDS) for index in sorted(indices)}
    changes = [WordChange(index, index + 1, text) for index, text in texts.items()]
    new = read_pages(transcript.apply_changes(changes)).words
    assert [word.text for word in new] == [texts.get(index, word.text) for index, word in enumerate(old)]
    assert [(word.box, word.confidence) for word in new] == [(word.box, word.confidence) for word in old]
    hyphenated = {index for index, word in enumerate(old) if word.whole}
    assert all(new[index] == word for index, word in enumerate(old) if index not in texts and index not in hyphenated)
    with_element = {index for index in texts if texts[index] != old[index].text and old[index].box is not None}
    assert all(new[index].original == old[index].text for index in with_element)


@settings(max_examples=60)
@given(name=NAMES, choice=st.data())
def test_any_correction_of_a_line_can_be_written(name, choice):
    transcript = read_pages(SAMPLES[name])
    lines = transcript.text.split("\n")
    index = choice.draw(st.sampled_from([index for index, line in enumerate(lines) if line]))
    words = choice.draw(
        st.lists(st.sampled_from([*lines[index].split(), *lines[index].replace("e", " ").split(), "new"]), min_size=1)
    )
    lines[index] = " ".join(words)
    data = transcript.apply_changes(changes_between(transcript, "\n".join(lines), 0.5))
    assert read_pages(data).text == "\n".join(lines)


@settings(max_examples=60)
@given(name=NAMES, choice=st.data())
def test_changes_of_several_words(name, choice):
    transcript = read_pages(SAMPLES[name])
    line = choice.draw(st.sampled_from(range(len(transcript.lines))))
    first = sum(len(previous.words) for previous in transcript.lines[:line])
    count = len(transcript.lines[line].words)
    start = choice.draw(st.integers(0, count - 1))
    stop = choice.draw(st.integers(start + 1, count))
    parts = choice.draw(st.lists(WORDS, max_size=4))
    assume(parts or stop - start < count)
    change = WordChange(first + start, first + stop, " ".join(parts), 0.25)
    result = read_pages(transcript.apply_changes([change]))
    expected = [word.text for word in transcript.words]
    expected[first + start : first + stop] = parts
    assert " ".join(word.text for word in result.words) == " ".join(expected)
    assert len(result.lines) == len(transcript.lines)
    boxes = [word.box for word in result.words[first + start : first + start + len(parts)]]
    if all(word.box for word in transcript.words[first + start : first + stop]) and parts:
        old_boxes = [word.box for word in transcript.words[first + start : first + stop]]
        assert min(box.left for box in boxes) >= min(box.left for box in old_boxes)
        assert max(box.right for box in boxes) <= max(box.right for box in old_boxes) + 0.01
        assert len(parts) == stop - start or all(left.right <= right.left + 0.01 for left, right in pairwise(boxes))


def test_hocr_keeps_the_original_in_an_attribute():
    data = correct("ocrmypdf.hocr", "Tbe", "The", 0.995)
    assert (
        'id="word_1_1" title="bbox 90 100 180 140; x_wconf 100; x_fsize 12" data-original="Tbe">'
        "<strong>The</strong></span>" in data
    )
    transcript = read_pages(data.encode())
    assert transcript.words[0].original == "Tbe"
    twice = transcript.apply_changes([WordChange(0, 1, "She")]).decode()
    assert twice.count("data-original") == 1
    assert 'data-original="Tbe"><strong>She<' in twice


def test_hocr_words_are_split_and_joined():
    data = correct("ocrmypdf.hocr", "ofthe ye ar", "of the year")
    assert (
        'title="bbox 90 160 127 200; x_wconf 33" data-original="ofthe">of</span> '
        '<span class="ocrx_word" id="word_1_4_2" title="bbox 145 160 200 200; x_wconf 33">the</span>' in data
    )
    assert 'title="bbox 210 160 320 200; x_wconf 45" data-original="ye ar">year</span>' in data
    assert "word_1_6" not in data


def test_a_nested_word_is_joined_with_another():
    nested = "<span class='ocrx_word'>a</span> <span class='ocrx_word'><span class='ocrx_word'>b</span>c</span>"
    transcript = read_pages(f"<html><div class='ocr_page'><span class='ocr_line'>{nested}</span></div></html>".encode())
    assert transcript.text == "a b\n"
    assert read_pages(transcript.apply_changes([WordChange(0, 2, "ab")])).text == "ab\n"


def test_overlapping_edits_are_refused():
    edits = Edits(b"<a><b>c</b></a>")
    edits.replace(3, 11, b"")
    edits.replace(6, 7, b"d")
    with pytest.raises(ConservatorError, match="byte 6 of the file: nested words cannot be changed in one call"):
        edits.apply()


def test_alto_keeps_the_original_as_an_alternative():
    data = correct("abbyy.alto.xml", "tlie patient", "the patience", 0.9)
    assert (
        'WC="0.90" CC="0 2 9 0" CONTENT="the"><ALTERNATIVE PURPOSE="original">tlie</ALTERNATIVE></String><SP ID="SP1"'
        in data
    )
    assert (
        'CONTENT="patience"><ALTERNATIVE PURPOSE="dictionary">patients</ALTERNATIVE>'
        '<ALTERNATIVE PURPOSE="original">patient</ALTERNATIVE></String>' in data
    )
    data = correct("glyphs.alto.xml", "modem", "modern")
    assert '</a:Shape><a:ALTERNATIVE PURPOSE="original">modem</a:ALTERNATIVE>\n' in data
    assert data.count("<a:Glyph") == 5


def test_alto_words_are_split_and_joined():
    data = correct("abbyy.alto.xml", "readsthe li ne &c.", "reads the line &c.")
    assert 'HPOS="430" VPOS="192" WIDTH="167" HEIGHT="36" WC="0.61" CONTENT="reads">' in data
    assert (
        '</String><SP HPOS="597" VPOS="192" WIDTH="33"/>'
        '<String ID="S5_2" HPOS="630" VPOS="192" WIDTH="100" HEIGHT="36" WC="0.61" CONTENT="the"/>' in data
    )
    data = change_words("abbyy.alto.xml", (5, 7, "line"))[1].decode()
    assert 'HPOS="750" VPOS="192" WIDTH="138" HEIGHT="36" WC="0.40" CONTENT="line">' in data
    assert '<ALTERNATIVE PURPOSE="original">li ne &amp;c.</ALTERNATIVE></String>\n          </TextLine>' in data


def test_alto_updates_the_complete_word_of_hyphenated_words():
    data = correct("abbyy.alto.xml", "servator", "servatory")
    assert data.count('SUBS_CONTENT="conservatory"') == 2
    data = correct("abbyy.alto.xml", "con-", "pre-")
    assert 'CONTENT="pre" SUBS_TYPE="HypPart1" SUBS_CONTENT="preservator"' in data
    assert '<HYP HPOS="660" VPOS="160" WIDTH="12" CONTENT="-"/>' in data
    data = correct("abbyy.alto.xml", "con-", "con")
    assert "<HYP" not in data
    data = change_words("abbyy.alto.xml", (2, 3, "a con-"))[1].decode()
    assert 'CONTENT="con"/><HYP' in data
    assert "SUBS_" not in data
    data = change_words("abbyy.alto.xml", (2, 3, "con- x"))[1]
    assert read_pages(data).text.startswith("tlie patient con- x\n")
    data = correct("abbyy.alto.xml", "patient con-", "patientcon-")
    assert 'CONTENT="patientcon"><ALTERNATIVE' in data
    assert data.count("<HYP") == 1


def test_page_keeps_the_original_as_a_text_of_higher_index():
    data = correct("glyphs.page.xml", "cn pleinair pa inted", "en plein air painted", 0.75)
    assert (
        '<pc:TextEquiv index="0" conf="0.75"><pc:PlainText>en</pc:PlainText><pc:Unicode>en</pc:Unicode></pc:TextEquiv>'
        '<pc:TextEquiv index="2" conf="0.64" comments="original"><pc:Unicode>cn</pc:Unicode></pc:TextEquiv>' in data
    )
    assert '<pc:Word id="w2_2"><pc:Coords points="211,10 ' not in data
    assert data.count("<pc:Unicode>en plein air painted</pc:Unicode>") == 2
    assert read_pages(data.encode()).words[3].box == Box(310, 10, 500, 40)


def test_page_of_2013_keeps_the_original_as_a_comment():
    data = correct("transkribus.page.xml", "fricnd", "friend")
    assert 'comments="faded; original: My dear fricnd, the parcel">' in data
    assert data.count("My dear friend, the parcel") == 2
    assert data.count("<TextEquiv") == 5
    data = correct("transkribus.page.xml", "kind regards &", "kindest regards &")
    assert data.count("with kindest regards &amp; haste") == 2


def test_lines_without_word_elements_are_changed():
    data = correct("lines.hocr.html", "carne to the café", "came to the café, ☃")
    assert "nobody <i>came</i> to the caf\xe9, &#9731;</span>" in data
    assert 'data-original="nobody carne to the caf\xe9"' in data


def test_words_of_changed_lines_of_a_table_are_renumbered():
    data = correct("tesseract.tsv", "of-it, and", "of it, and", 0.5)
    assert (
        "\n5\t1\t1\t1\t2\t2\t97\t93\t20\t25\t50\tof\tof-it,\n5\t1\t1\t1\t2\t3\t128\t93\t30\t25\t50\tit,\t\n"
        "5\t1\t1\t1\t2\t4\t" in data
    )
    data = correct("tesseract.tsv", "guesses what", "guesseswhat")
    assert data.count("\n") == SAMPLES["tesseract.tsv"].count(b"\n") - 1


@pytest.mark.parametrize("name", ["characters.hocr", "both.hocr", "choices.hocr"])
def test_glyphs_stay_in_words_that_are_split_or_joined(name):
    count = SAMPLES[name].count(b"ocrx_cinfo")
    for old, new in [("~amodern", "~a modern"), ("page, read", "page,read"), ("~amodern page,", "a mod erns page")]:
        data = correct(name, old, new)
        assert data.count("ocrx_cinfo") == count
    data = correct(name, "~amodern", "~a modern").encode()
    if name != "choices.hocr":
        assert "".join(glyph.text for glyph in read_pages(data).words[1].glyphs) == "modern"
        boxes = [
            [glyph.box for word in read_pages(file).words for glyph in word.glyphs] for file in (data, SAMPLES[name])
        ]
        assert boxes[0] == boxes[1]


def test_glyphs_move_with_their_characters():
    data = change_words("glyphs.alto.xml", (0, 1, "mo dem"))[1]
    first, second, _ = read_pages(data).words
    assert ["".join(glyph.text for glyph in word.glyphs) for word in (first, second)] == ["mo", "dem"]
    assert second.glyphs[-1].alternatives
    data = change_words("glyphs.alto.xml", (0, 2, "modemtimes"))[1]
    assert data.count(b"<a:Glyph") == 5
    data = change_words("glyphs.page.xml", (0, 1, "c n"))[1]
    assert [[glyph.text for glyph in word.glyphs] for word in read_pages(data).words[:2]] == [["c"], ["n"]]
    data = change_words("glyphs.page.xml", (0, 2, "cnpleinair"))[1]
    assert data.count(b"<pc:Glyph") == 2


def test_boxes_of_glyphs_determine_the_boxes_of_a_split_word():
    data = correct("characters.hocr", "~amodern", "~a modern")
    glyphs = read_pages(SAMPLES["characters.hocr"]).words[0].glyphs
    first, second = (word.box for word in read_pages(data.encode()).words[:2])
    assert first == glyphs[0].box.union(glyphs[1].box)
    assert second.left == glyphs[2].box.left


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([(0, 99, "a")], "within the 9 words of the transcript, got words"),
        ([(-1, 1, "a")], "within the 9 words of the transcript, got words"),
        ([(1, 1, "a")], "within the 9 words of the transcript, got words"),
        ([(2, 4, "a")], "are on several lines"),
        ([(0, 2, "a"), (1, 2, "b")], "word 1 is changed twice"),
        ([(0, 1, "a\x01")], "which XML does not allow"),
        ([(0, 1, "a", 1.5)], "must be between 0 and 1, got 1.5"),
    ],
)
def test_invalid_changes_are_refused(changes, message):
    with pytest.raises(ConservatorError, match=message):
        change_words("abbyy.alto.xml", *changes)


@given(parts=st.lists(st.text("abc", max_size=3), min_size=1, max_size=5), text=st.text("abcd", max_size=9))
def test_a_text_is_distributed_over_parts(parts, text):
    new_parts = distribute_text(parts, text)
    assert "".join(new_parts) == text
    assert len(new_parts) == len(parts)
    assert distribute_text(parts, "".join(parts)) == parts


@given(old=LINES, new=st.lists(st.text("ab", min_size=1, max_size=3), max_size=5))
def test_words_of_a_text_are_replaced(old, new):
    assert replace_words(" \n".join(old), old, align_words(old, new)).split() == new
