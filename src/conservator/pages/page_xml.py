"""PAGE: XML of PRImA, with polygons, reading orders and texts at every level."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from conservator.errors import ConservatorError
from conservator.pages.elements import Edits, Element, Text, end_tag, escape, qualified, quote
from conservator.pages.markup import Markup
from conservator.pages.markup_file import MarkupFile, Passage, Place, find_tokens
from conservator.pages.model import Alternative, Box, Change, Glyph, Line, Page, Word
from conservator.pages.numbers import read_confidence, read_coordinate, write_coordinate
from conservator.pages.transcript import Transcript
from conservator.pages.word_alignment import retell

ORIGINAL = "original"  # the comment at the text that is the original of a change
COMMENT = re.compile(rf"(?:^|; ){ORIGINAL}: (.*)$", re.DOTALL)
VERSION = re.compile(r"/(\d{4})-\d\d-\d\d$")
SEVERAL = 2016  # the first version in which an element may have several texts, told apart by an index
REFERENCES = ("RegionRef", "RegionRefIndexed")
TEXT, CONTENT = "TextEquiv", "Unicode"


@dataclass
class PageFile(MarkupFile):
    """A file in PAGE. A word that becomes two is two ``Word`` elements, with rectangles for polygons.

    Attributes:
        groups: elements whose own text repeats words, with the numbers of these words.
        several: whether its version allows several texts of an element.
    """

    groups: list[tuple[Element, range]] = field(default_factory=list)
    several: bool = True

    def set_word(
        self,
        edits: Edits,
        place: Place,
        before: str,
        text: str,
        box: Box | None,
        confidence: float | None,
        *,
        split: bool = False,
        glyphs: bytes = b"",
    ) -> None:
        """Change the main text of a word, its confidence and its outline."""
        element = place.element
        if box is not None:
            coords = element.elements("Coords")
            if coords:
                edits.attribute(coords[0], "points", _points(box))
        main = _main(element)
        assert main is not None
        if confidence is not None:
            edits.attribute(main, "conf", f"{confidence:.4g}")
        if text != before:
            for one in _forms(main):
                if one.name == CONTENT or one.text().strip() == before:
                    _set_text(edits, one, text)
            self._mark(edits, element, main, before)
        if glyphs:
            ahead = [one.stop for one in element.elements() if one.name in ("AlternativeImage", "Coords", "Glyph")]
            edits.insert(element, max(ahead, default=element.inside), glyphs)

    def add_word(
        self,
        edits: Edits,
        place: Place,
        text: str,
        gap: tuple[Box | None, Box | None],
        name: str | None,
        confidence: float | None,
        *,
        last: bool,
        glyphs: bytes,
    ) -> None:
        """Add a word after a word."""
        element, source = place.element, self.markup.source
        prefix, own = qualified(source, element)
        attributes = {key: value for key, value in element.attributes.items() if " " not in key and key != "comments"}
        attributes |= {"id": name} if name is not None else {}
        outline = b""
        if gap[1] is not None:
            outline = b"<" + prefix + b"Coords points=" + quote(_points(gap[1])) + b"/>"
        conf = b"" if confidence is None else b' conf="' + f"{confidence:.4g}".encode() + b'"'
        shown = b"".join(b" " + key.encode() + b"=" + quote(value) for key, value in attributes.items())
        tag = b"<" + prefix + own + shown + b">"
        content = outline + glyphs + self._told(prefix, conf, text)
        edits.replace(element.stop, element.stop, tag + content + end_tag(source, element))

    def remove_word(self, edits: Edits, first: Place, place: Place) -> None:
        """Take out a word."""
        edits.delete(place.element)

    def glyph_text(self, glyph: Element) -> str:
        """The text of a glyph."""
        main = _main(glyph)
        return _content(main).strip() if main is not None else ""

    def mark_passage(self, edits: Edits, passage: Passage) -> None:
        """Put the text of a line beside its change."""
        main = _main(passage.element)
        assert main is not None
        self._mark(edits, passage.element, main, passage.text.strip())

    def follow(self, edits: Edits, words: Sequence[Word], changes: Sequence[Change]) -> None:
        """Change the texts of lines and regions that repeat the words in them."""
        for element, numbers in self.groups:
            inside = [change for change in changes if change.start in numbers]
            main = _main(element) if inside else None
            if main is None:
                continue
            own = [words[number].text for number in numbers]
            made = [(one.start - numbers.start, one.stop - numbers.start, one.text) for one in inside]
            for one in _forms(main):
                text = retell(one.text(), own, made)
                if text is not None and text != one.text():
                    _set_text(edits, one, text)

    def _mark(self, edits: Edits, element: Element, main: Element, before: str) -> None:
        """Put the original beside a text: as one with a higher index, or as a comment where that is not allowed."""
        if not self.several:
            comments = element.attributes.get("comments", "")
            if not COMMENT.search(comments):
                edits.attribute(element, "comments", f"{comments}{'; ' if comments else ''}{ORIGINAL}: {before}")
            return
        texts = element.elements(TEXT)
        if any(one.attributes.get("comments") == ORIGINAL for one in texts):
            return
        highest = max([_index(one) for one in texts if "index" in one.attributes], default=0)
        if "index" not in main.attributes:
            edits.attribute(main, "index", "0")
        prefix, _ = qualified(self.markup.source, main)
        conf = main.attributes.get("conf")
        details = b' index="' + str(highest + 1).encode() + b'"'
        details += b" conf=" + quote(conf) if conf is not None else b""
        details += b' comments="original"'
        edits.replace(texts[-1].stop, texts[-1].stop, self._told(prefix, details, before))

    def _told(self, prefix: bytes, attributes: bytes, text: str) -> bytes:
        """A text as an element."""
        name, content = prefix + TEXT.encode(), prefix + CONTENT.encode()
        inner = b"<" + content + b">" + escape(text) + b"</" + content + b">"
        return b"<" + name + attributes + b">" + inner + b"</" + name + b">"


def read_page(data: bytes, markup: Markup) -> Transcript:
    """Read PAGE; regions are in its reading order, lines in the order of the file."""
    version = VERSION.search(markup.root.space)
    file = PageFile(markup, several=version is None or int(version[1]) >= SEVERAL)
    pages = tuple(_read_one(file, page) for page in markup.root.elements("Page"))
    creators = (" ".join(one.text().split()) for one in markup.root.walk() if one.name == "Creator")
    return Transcript("PAGE", version[0][1:] if version else None, next(creators, None), "pixel", pages, data, file)


def _read_one(file: PageFile, page: Element) -> Page:
    """A page."""
    lines: list[Line] = []
    for number, region in enumerate(_ordered(page)):
        first = len(file.places)
        inside = region.elements("TextLine")
        for line in inside:
            words = _read_line(file, line)
            if words:
                lines.append(Line(tuple(words), _box(file.markup, line), number))
        if inside:
            file.groups.append((region, range(first, len(file.places))))
        else:
            lines += [Line(tuple(words), None, number) for words in _read_passage(file, region)]
    sides = [page.attributes.get(name) for name in ("imageWidth", "imageHeight")]
    numbers = [read_coordinate(value, lambda: file.markup.where(page)) for value in sides if value is not None]
    box = Box(0.0, 0.0, *numbers) if len(numbers) == 2 else None
    return Page(tuple(lines), box, page.attributes.get("imageFilename") or None)


def _ordered(page: Element) -> list[Element]:
    """The regions of text of a page: first those that its reading order names, in that order, then the others.

    A region that is not named goes with the one around it.
    """
    named: list[str] = []
    for order in page.elements("ReadingOrder"):
        for group in order.elements():
            named += _references(group)
    rank = {name: place for place, name in reversed(list(enumerate(named)))}
    places: dict[Element, int] = {page: len(named)}
    regions = []
    for one in page.walk():
        if one is not page:
            around = places.get(one.parent or page, len(named))
            places[one] = rank.get(one.attributes.get("id", ""), around) if one.name.endswith("Region") else around
        if one.name == "TextRegion":
            regions.append(one)
    return sorted(regions, key=lambda region: places[region])


def _references(group: Element) -> Iterable[str]:
    """The names of the regions of a group of a reading order, in order."""
    inside = group.elements()
    if group.name.startswith("Ordered"):
        inside = sorted(inside, key=_index)
    for one in inside:
        if one.name in REFERENCES:
            yield one.attributes.get("regionRef", "")
        elif "Group" in one.name:
            if "regionRef" in one.attributes:
                yield one.attributes["regionRef"]
            yield from _references(one)


def _read_line(file: PageFile, line: Element) -> list[Word]:
    """The words of a line, from its words or its own text."""
    elements = line.elements("Word")
    if not elements:
        return [word for words in _read_passage(file, line) for word in words]
    first, words = len(file.places), []
    for element in elements:
        word = _read_word(file, element)
        if word is not None:
            words.append(word)
            file.places.append(Place(element))
    file.groups.append((line, range(first, len(file.places))))
    return words


def _read_word(file: PageFile, element: Element) -> Word | None:
    """A word; None if it has no text."""
    main = _main(element)
    text = " ".join(_content(main).split()) if main is not None else ""
    if main is None or not text:
        return None
    original, others = _others(element, main)
    glyphs = []
    for one in element.elements("Glyph"):
        own = _main(one)
        if own is not None:
            confidence = read_confidence(own.attributes.get("conf"))
            glyphs.append(Glyph(_content(own).strip(), confidence, _box(file.markup, one), _others(one, own)[1]))
    confidence = read_confidence(main.attributes.get("conf"))
    return Word(text, confidence, _box(file.markup, element), tuple(glyphs), others, None, original)


def _read_passage(file: PageFile, element: Element) -> Iterable[list[Word]]:
    """The words of the lines of an element's own text."""
    main = _main(element)
    input_file = next(iter(main.elements(CONTENT)), None) if main is not None else None
    if main is None or input_file is None:
        return
    runs = tuple(one for one in input_file.children if isinstance(one, Text))
    passage = Passage(element, runs)
    confidence = read_confidence(main.attributes.get("conf"))
    at = 0
    for line in passage.text.split("\n"):
        spans = [(at + start, at + stop) for start, stop in find_tokens(line)]
        file.add_passage(passage, spans)
        if spans:
            yield [Word(passage.text[start:stop], confidence) for start, stop in spans]
        at += len(line) + 1


def _main(element: Element) -> Element | None:
    """The main text of an element: the one with the lowest index, else the first."""
    texts = element.elements(TEXT)
    return min(texts, key=_index) if texts else None


def _others(element: Element, main: Element) -> tuple[str | None, tuple[Alternative, ...]]:
    """The original of an element, if it was corrected, and its other readings."""
    comment = COMMENT.search(element.attributes.get("comments", ""))
    original = comment[1] if comment is not None else None
    others = []
    for one in sorted(element.elements(TEXT), key=_index):
        if one is main:
            continue
        if one.attributes.get("comments") == ORIGINAL:
            original = _content(one).strip()
        else:
            others.append(Alternative(_content(one).strip(), read_confidence(one.attributes.get("conf"))))
    return original, tuple(others)


def _content(text: Element) -> str:
    """The characters of a text."""
    return "".join(one.text() for one in text.elements(CONTENT)[:1])


def _forms(text: Element) -> list[Element]:
    """The elements in which a text stands: as it is, and in a simple form."""
    return [*text.elements(CONTENT)[:1], *text.elements("PlainText")[:1]]


def _index(element: Element) -> int:
    """The index of an element; 0 if it has none."""
    value = element.attributes.get("index", "0").strip()
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else 0


def _box(markup: Markup, element: Element) -> Box | None:
    """The box around the outline of an element."""
    points = " ".join(one.attributes.get("points", "") for one in element.elements("Coords")[:1]).split()
    numbers = []
    for point in points:
        pair = point.split(",")
        if len(pair) != 2:
            raise ConservatorError(f"{markup.where(element)}: {point[:40]!r} is no point; two numbers are expected")
        numbers.append([read_coordinate(value, lambda: markup.where(element)) for value in pair])
    if not numbers:
        return None
    across, down = zip(*numbers, strict=True)
    return Box(min(across), min(down), max(across), max(down))


def _points(box: Box) -> str:
    """A box as an outline."""
    left, top, right, bottom = map(write_coordinate, (round(value) for value in box))
    return f"{left},{top} {right},{top} {right},{bottom} {left},{bottom}"


def _set_text(edits: Edits, element: Element, text: str) -> None:
    """Give an element another text in the place of the old one."""
    runs = [one for one in element.children if isinstance(one, Text)]
    if not runs:
        edits.insert(element, element.inside, escape(text))
    for number, run in enumerate(runs):
        edits.replace(run.start, run.stop, escape(text) if number == 0 else b"")
