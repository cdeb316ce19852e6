"""Files of OCR engines: samples in every format, their mutations, and files written from plain words."""

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
    return next(format_name for end, format_name in FORMATS.items() if name.endswith(end))


def mutate(data, generator: random.Random):
    """A file with a few faults: flipped, deleted, repeated or truncated bytes, or invalid numbers."""
    mutated = bytearray(data)
    for _ in range(generator.choice([1, 1, 2, 5])):
        if not mutated:
            break
        at = generator.randrange(len(mutated))
        kind = generator.randrange(9)
        if kind == 0:
            mutated[at] ^= 1 << generator.randrange(8)
        elif kind == 1:
            mutated[at] = generator.randrange(256)
        elif kind == 2:
            del mutated[at:]
        elif kind == 3:
            del mutated[at : at + generator.randrange(1, 60)]
        elif kind == 4:
            part = mutated[at : at + generator.randrange(1, 300)]
            mutated[at:at] = part
        elif kind == 5:
            mutated[at:at] = generator.choice(
                [b"\0", b"<", b">", b"&", b'"', b"\xff\xfe", b"&x;", b"]]>", b"<!--", b"\t", b"\n"]
            )
        else:
            digits = [index for index, byte in enumerate(mutated) if chr(byte).isdigit()]
            if digits:
                index = generator.choice(digits)
                values = [b"1e308", b"NaN", b"-1", b"99999999999999999999", b"", b"-0", b"1e-5", b"infinity", b"0x1"]
                mutated[index : index + 1] = generator.choice(values)
        if kind == 8:  # repeats an element
            start = mutated.find(b"<", at)
            stop = mutated.find(b">", start) + 1
            mutated[stop:stop] = mutated[start:stop]
    return bytes(mutated)


def rearrange(data, generator: random.Random):
    """A file with repeated, deleted or moved parts: elements, or rows of a table."""
    for _ in range(generator.choice([1, 2, 4])):
        if data.lstrip(b"\xef\xbb\xbf \n").startswith(b"<"):
            ranges = _elements(data)
        else:
            ends = [at + 1 for at, byte in enumerate(data) if byte == 10]
            ranges = list(pairwise(ends))
        if not ranges:
            break
        start, stop = generator.choice(ranges)
        part = data[start:stop]
        kind = generator.randrange(4)
        if kind == 0:
            data = data[:start] + data[stop:]
        elif kind == 1:
            data = data[:stop] + part * generator.choice([1, 3]) + data[stop:]
        else:
            at = generator.choice(generator.choice(ranges))
            data = data[:at] + part + data[at:]
    return data


def _elements(data):
    """The ranges of the elements of a file, without the root."""
    try:
        markup = read_html(data, FileLimits()) if b"<meta charset" in data else read_xml(data, FileLimits())
    except ConservatorError:
        return []
    return [(element.start, element.stop) for element in markup.root.walk() if element.parent is not None]


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
    content = "".join(
        "<TextLine>"
        + "<SP/>".join(
            f'<String HPOS="{10 * at}" VPOS="{10 * line}" WIDTH="9" HEIGHT="9" WC="0.5" CONTENT="{html.escape(word)}"/>'
            for at, word in enumerate(words)
        )
        + "</TextLine>"
        for line, words in enumerate(lines)
    )
    return (
        f"<alto><Layout><Page><PrintSpace><TextBlock>{content}</TextBlock></PrintSpace></Page></Layout></alto>".encode()
    )


def write_page(lines):
    content = "".join(
        "<TextLine>"
        + "".join(
            f'<Word><Coords points="{10 * at},{10 * line} {10 * at + 9},{10 * line + 9}"/>'
            f'<TextEquiv conf="0.5"><Unicode>{html.escape(word)}</Unicode></TextEquiv></Word>'
            for at, word in enumerate(words)
        )
        + "</TextLine>"
        for line, words in enumerate(lines)
    )
    return f"<PcGts><Page><TextRegion>{content}</TextRegion></Page></PcGts>".encode()


def write_tsv(lines):
    rows = ["level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext"]
    for line, words in enumerate(lines):
        rows += [
            f"5\t1\t1\t1\t{line + 1}\t{at + 1}\t{10 * at}\t{10 * line}\t9\t9\t50\t{word}"
            for at, word in enumerate(words)
        ]
    return ("\n".join(rows) + "\n").encode()


WRITERS = {"hOCR": write_hocr, "ALTO": write_alto, "PAGE": write_page, "TSV": write_tsv}
