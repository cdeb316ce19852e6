"""The tables that Tesseract writes: a row for each page, block, paragraph, line and word."""

from collections.abc import Sequence

from conservator.errors import ConservatorError
from conservator.pages.elements import Limits
from conservator.pages.model import Box, Change, Line, Page, Word
from conservator.pages.numbers import divide, read_confidence, read_coordinate, write_coordinate
from conservator.pages.transcript import Transcript

HEADER = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext"
COLUMNS = HEADER.split("\t")
ADDED = "original"  # the column with the originals of changes, which a table gets with its first change
PAGE, WORD = "1", "5"  # levels
NUMBER, LEFT, WIDTH, CONFIDENCE, TEXT, ORIGINAL = 5, 6, 8, 10, 11, 12  # columns
ORDER = b"\xef\xbb\xbf"


class Table:
    """A table: its rows as they are, and which of them are words."""

    def __init__(self, rows: list[list[str]], ends: list[str], order: bytes) -> None:
        """Take rows of cells, and how each row ends."""
        self.rows, self.ends, self.order = rows, ends, order
        self.places: list[int] = []

    def rewrite(self, words: Sequence[Word], changes: Sequence[Change]) -> bytes:
        """The table with changes, and with a column for their originals.

        A row for a word that is new is added, one for a word too many is dropped, and the words of the line are counted
        anew.
        """
        rows: dict[int, list[list[str]]] = {}
        for change in changes:
            places, parts = self.places[change.start : change.stop], change.text.split()
            if len(parts) in (0, len(places)):
                for place, text in zip(places, parts or [""] * len(places), strict=True):
                    before = self.rows[place][TEXT]
                    rows[place] = [_changed(self.rows[place], text, None, change.confidence, before)]
                continue
            boxes = divide(words[change.start : change.stop], parts)
            before = " ".join(self.rows[place][TEXT] for place in places)
            first, *others = zip(parts, boxes, strict=True)
            made = [_changed(self.rows[places[0]], *first, change.confidence, before)]
            made += [[*_changed(made[0], *one, change.confidence, "")[:ORIGINAL], ""] for one in others]
            rows |= {place: [] for place in places} | {places[0]: made}
        lines, counts = [], dict[tuple[str, ...], int]()
        recounted = {self._line(place) for place, made in rows.items() if len(made) != 1}
        for place, (cells, end) in enumerate(zip(self.rows, self.ends, strict=True)):
            for row in rows.get(place, [cells]):
                if row[0] == WORD and self._line(place) in recounted:
                    counts[self._line(place)] = counts.get(self._line(place), 0) + 1
                    row = [*row[:NUMBER], str(counts[self._line(place)]), *row[NUMBER + 1 :]]
                ended = end or "\n" if len(rows.get(place, [cells])) > 1 else end
                lines.append("\t".join(_widened(row, ADDED if place == 0 else "")) + ended)
        return self.order + "".join(lines).encode()

    def _line(self, place: int) -> tuple[str, ...]:
        """The page, block, paragraph and line of a row."""
        return tuple(self.rows[place][1:NUMBER])


def read_tsv(data: bytes, limits: Limits) -> Transcript:
    """Read a table of Tesseract."""
    if len(data) > limits.size:
        raise ConservatorError(f"the file has {len(data):,} bytes; at most {limits.size:,} are accepted")
    order = ORDER if data.startswith(ORDER) else b""
    try:
        text = data[len(order) :].decode()
    except UnicodeDecodeError as error:
        raise ConservatorError(f"the table is not UTF-8: byte {error.start} is {data[error.start]:#04x}") from error
    if "\0" in text:
        raise ConservatorError("the table has a null, which no text has")
    raw = text.split("\n")
    if len(raw) > limits.elements:
        raise ConservatorError(f"the table has more than {limits.elements:,} rows")
    ends = [("\r" if row.endswith("\r") else "") + "\n" for row in raw]
    ends[-1] = ends[-1][:-1]
    table = Table([row.removesuffix("\r").split("\t") for row in raw], ends, order)
    if table.rows[0] not in (COLUMNS, [*COLUMNS, ADDED]):
        raise ConservatorError(f"the table does not begin with the columns {', '.join(COLUMNS)}")
    return Transcript("TSV", None, "tesseract", "pixel", _read_pages(table), data, table)


def _read_pages(table: Table) -> tuple[Page, ...]:
    """The pages of a table; the places of its words are noted in it."""
    pages: dict[str, dict[tuple[str, ...], list[Word]]] = {}
    found: dict[tuple[str, ...], list[int]] = {}
    boxes: dict[tuple[str, ...], Box] = {}
    for number, row in enumerate(table.rows[1:], 1):
        if row == [""]:
            continue
        where = f"row {number + 1} of the table"
        if not len(COLUMNS) - 1 <= len(row) <= len(table.rows[0]):
            raise ConservatorError(f"{where} has {len(row)} columns; {len(table.rows[0])} are expected")
        if not all(cell.isascii() and cell.isdigit() for cell in row[:LEFT]):
            raise ConservatorError(f"{where} does not begin with {LEFT} numbers")
        left, top, width, height = (read_coordinate(cell, where.__str__) for cell in row[LEFT:CONFIDENCE])
        box = Box(left, top, left + width, top + height)
        lines = pages.setdefault(row[1], {})
        line = tuple(row[1:NUMBER])
        if row[0] != WORD:
            boxes[row[0], *line] = box
            continue
        lines.setdefault(line, [])  # a word without text keeps the place of its line
        if len(row) >= len(COLUMNS) and row[TEXT].strip():
            confidence, original = read_confidence(row[CONFIDENCE], 100), "".join(row[ORIGINAL:]) or None
            word = Word(" ".join(row[TEXT].split()), confidence, box, original=original)
            lines[line].append(word)
            found.setdefault(line, []).append(number)
    made = []
    for page, every in pages.items():
        lines = {line: words for line, words in every.items() if words}
        table.places += [place for line in lines for place in found[line]]
        blocks = {line[:3]: None for line in lines}
        numbers = {block: number for number, block in enumerate(blocks)}
        made.append(
            Page(
                tuple(Line(tuple(words), boxes.get(("4", *line)), numbers[line[:3]]) for line, words in lines.items()),
                boxes.get((PAGE, page, "0", "0", "0")),
            )
        )
    return tuple(made)


def _changed(row: list[str], text: str, box: Box | None, confidence: float | None, before: str) -> list[str]:
    """A row of a word with another text; with another box and confidence if there are any.

    An original that it has already stays that of its first change.
    """
    made = [*row[:TEXT], text, "".join(row[ORIGINAL:]) or (before if text != before else "")]
    if box is not None:
        made[LEFT:CONFIDENCE] = [
            write_coordinate(value) for value in (box.left, box.top, box.right - box.left, box.bottom - box.top)
        ]
    if confidence is not None:
        made[CONFIDENCE] = f"{100 * confidence:g}"
    return made


def _widened(row: list[str], last: str) -> list[str]:
    """A row with the column for originals; an empty row stays so."""
    return row if row == [""] or len(row) > ORIGINAL else [*row, *[""] * (ORIGINAL - len(row)), last]
