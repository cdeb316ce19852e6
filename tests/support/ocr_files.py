"""Files of OCR engines: samples in every format, mutations of them, and files written from plain words."""

import html
import random
from itertools import pairwise
from pathlib import Path

from conservator.errors import ConservatorError
from conservator.pages import FileLimits
from conservator.pages.markup import read_html, read_xml

FOLDER = Path(__file__).parents[1] / "pages" / "samples"
SAMPLES = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir())}
FORMATS = {"hocr": "hOCR", "html": "hOCR", "alto.xml": "ALTO", "page.xml": "PAGE", "tsv": "TSV"}


def format_of(name):
    return next(found for end, found in FORMATS.items() if name.endswith(end))


def mutate(data, generator: random.Random):
    """A file with a few faults: flipped, dropped, doubled or cut bytes, or numbers that no page has."""
    made = bytearray(data)
    for _ in range(generator.choice([1, 1, 2, 5])):
        if not made:
            break
        at = generator.randrange(len(made))
        kind = generator.randrange(9)
        if kind == 0:
            made[at] ^= 1 << generator.randrange(8)
        elif kind == 1:
            made[at] = generator.randrange(256)
        elif kind == 2:
            del made[at:]
        elif kind == 3:
            del made[at : at + generator.randrange(1, 60)]
        elif kind == 4:
            part = made[at : at + generator.randrange(1, 300)]
            made[at:at] = part
        elif kind == 5:
            made[at:at] = generator.choice(
                [b"\0", b"<", b">", b"&", b'"', b"\xff\xfe", b"&x;", b"]]>", b"<!--", b"\t", b"\n"]
            )
        else:
            digits = [place for place, byte in enumerate(made) if chr(byte).isdigit()]
            if digits:
                place = generator.choice(digits)
                worst = [b"1e308", b"NaN", b"-1", b"99999999999999999999", b"", b"-0", b"1e-5", b"infinity", b"0x1"]
                made[place : place + 1] = generator.choice(worst)
        if kind == 8:  # an element twice
            start = made.find(b"<", at)
            stop = made.find(b">", start) + 1
            made[stop:stop] = made[start:stop]
    return bytes(made)


def rearrange(data, generator: random.Random):
    """A file whose parts are whole, but doubled, dropped or put elsewhere: elements, or rows of a table."""
    for _ in range(generator.choice([1, 2, 4])):
        if data.lstrip(b"\xef\xbb\xbf \n").startswith(b"<"):
            places = _elements(data)
        else:
            ends = [at + 1 for at, byte in enumerate(data) if byte == 10]
            places = list(pairwise(ends))
        if not places:
            break
        start, stop = generator.choice(places)
        part = data[start:stop]
        kind = generator.randrange(4)
        if kind == 0:
            data = data[:start] + data[stop:]
        elif kind == 1:
            data = data[:stop] + part * generator.choice([1, 3]) + data[stop:]
        else:
            at = generator.choice(generator.choice(places))
            data = data[:at] + part + data[at:]
    return data


def _elements(data):
    """Where the elements of a file begin and end; the root is none of them."""
    try:
        markup = read_html(data, FileLimits()) if b"<meta charset" in data else read_xml(data, FileLimits())
    except ConservatorError:
        return []
    return [(one.start, one.stop) for one in markup.root.walk() if one.parent is not None]


def write_hocr(lines):
    words = "".join(
        "<span class='ocr_line'>" + " ".join(_span(word, number, at) for at, word in enumerate(line)) + "</span>\n"
        for number, line in enumerate(lines)
    )
    return f"<html><body><div class='ocr_page'><p class='ocr_par'>{words}</p></div></body></html>".encode()


def _span(word, line, at):
    title = f"bbox {10 * at} {10 * line} {10 * at + 9} {10 * line + 9}; x_wconf 50"
    return f"<span class='ocrx_word' title='{title}'>{html.escape(word)}</span>"


def write_alto(lines):
    made = "".join(
        "<TextLine>"
        + "<SP/>".join(
            f'<String HPOS="{10 * at}" VPOS="{10 * line}" WIDTH="9" HEIGHT="9" WC="0.5" CONTENT="{html.escape(word)}"/>'
            for at, word in enumerate(words)
        )
        + "</TextLine>"
        for line, words in enumerate(lines)
    )
    return f"<alto><Layout><Page><PrintSpace><TextBlock>{made}</TextBlock></PrintSpace></Page></Layout></alto>".encode()


def write_page(lines):
    made = "".join(
        "<TextLine>"
        + "".join(
            f'<Word><Coords points="{10 * at},{10 * line} {10 * at + 9},{10 * line + 9}"/>'
            f'<TextEquiv conf="0.5"><Unicode>{html.escape(word)}</Unicode></TextEquiv></Word>'
            for at, word in enumerate(words)
        )
        + "</TextLine>"
        for line, words in enumerate(lines)
    )
    return f"<PcGts><Page><TextRegion>{made}</TextRegion></Page></PcGts>".encode()


def write_tsv(lines):
    rows = ["level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext"]
    for line, words in enumerate(lines):
        rows += [
            f"5\t1\t1\t1\t{line + 1}\t{at + 1}\t{10 * at}\t{10 * line}\t9\t9\t50\t{word}"
            for at, word in enumerate(words)
        ]
    return ("\n".join(rows) + "\n").encode()


WRITERS = {"hOCR": write_hocr, "ALTO": write_alto, "PAGE": write_page, "TSV": write_tsv}
