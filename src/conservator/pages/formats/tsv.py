"""Tables of Tesseract (TSV): one row per page, block, paragraph, line and word."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from conservator.errors import ConservatorError
from conservator.pages.formats.numbers import divide_boxes, read_confidence, read_coordinate, write_coordinate
from conservator.pages.markup.elements import FileLimits
from conservator.pages.model import Box, Line, Page, Word, WordChange
from conservator.pages.transcript import Transcript

HEADER = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext"
COLUMN_NAMES = HEADER.split("\t")
ORIGINAL_NAME = "original"  # column with the texts before changes, added with the first change of a table
PAGE_LEVEL, LINE_LEVEL, WORD_LEVEL = "1", "4", "5"
WORD_NUMBER, LEFT, CONFIDENCE, TEXT, ORIGINAL = 5, 6, 10, 11, 12  # index: columns of a row [definition]
UTF8_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass
class TsvFile:
    """A table.

    Attributes:
        rows: cells of each row.
        row_ends: end of each row: a newline, a carriage return and a newline, or empty.
        byte_order_mark: byte order mark at the start of the file, or empty.
        word_rows: row index of each word, in reading order.
    """

    rows: list[list[str]]
    row_ends: list[str]
    byte_order_mark: bytes
    word_rows: list[int] = field(default_factory=list)

    def rewrite(self, words: Sequence[Word], changes: Sequence[WordChange]) -> bytes:
        """Return the table with changes, and with a column for the original texts; see ``OcrFile``.

        Rows of new words are added, rows of removed words are dropped, and the words of changed lines are renumbered.
        """
        new_rows: dict[int, list[list[str]]] = {}  # row index -> the rows that replace it
        for change in changes:
            indices, parts = self.word_rows[change.start : change.stop], change.text.split()
            if len(parts) in (0, len(indices)):
                for index, text in zip(indices, parts or [""] * len(indices), strict=True):
                    old_text = self.rows[index][TEXT]
                    new_rows[index] = [_changed_row(self.rows[index], text, None, change.confidence, old_text)]
                continue
            boxes = divide_boxes(words[change.start : change.stop], parts)
            old_text = " ".join(self.rows[index][TEXT] for index in indices)
            rows = [_changed_row(self.rows[indices[0]], parts[0], boxes[0], change.confidence, old_text)]
            for part, box in zip(parts[1:], boxes[1:], strict=True):
                row = _changed_row(rows[0], part, box, change.confidence, "")
                rows.append([*row[:ORIGINAL], ""])
            new_rows |= {index: [] for index in indices} | {indices[0]: rows}
        output, word_counts = [], dict[tuple[str, ...], int]()
        renumbered_lines = {self._line_key(index) for index, rows in new_rows.items() if len(rows) != 1}
        for index, (cells, row_end) in enumerate(zip(self.rows, self.row_ends, strict=True)):
            replacements = new_rows.get(index, [cells])
            for row in replacements:
                line = self._line_key(index)
                if row[0] == WORD_LEVEL and line in renumbered_lines:
                    word_counts[line] = word_counts.get(line, 0) + 1
                    row = [*row[:WORD_NUMBER], str(word_counts[line]), *row[WORD_NUMBER + 1 :]]
                end = row_end or "\n" if len(replacements) > 1 else row_end
                output.append("\t".join(_with_original_column(row, ORIGINAL_NAME if index == 0 else "")) + end)
        return self.byte_order_mark + "".join(output).encode()

    def _line_key(self, index: int) -> tuple[str, ...]:
        """Return the page, block, paragraph and line numbers of a row."""
        return tuple(self.rows[index][1:WORD_NUMBER])


def read_tsv(data: bytes, limits: FileLimits) -> Transcript:
    """Read a table of Tesseract."""
    limits.check_size(data)
    byte_order_mark = UTF8_BYTE_ORDER_MARK if data.startswith(UTF8_BYTE_ORDER_MARK) else b""
    try:
        text = data[len(byte_order_mark) :].decode()
    except UnicodeDecodeError as error:
        offset = len(byte_order_mark) + error.start
        raise ConservatorError(f"the table is not valid UTF-8: byte {offset} is {data[offset]:#04x}") from error
    if "\0" in text:
        raise ConservatorError("the table contains a null character, which text does not allow")
    raw_rows = text.split("\n")
    if len(raw_rows) > limits.max_elements:
        raise ConservatorError(f"the table has more than {limits.max_elements:,} rows, which is the limit")
    row_ends = [("\r" if row.endswith("\r") else "") + "\n" for row in raw_rows]
    row_ends[-1] = row_ends[-1][:-1]
    table = TsvFile([row.removesuffix("\r").split("\t") for row in raw_rows], row_ends, byte_order_mark)
    if table.rows[0] not in (COLUMN_NAMES, [*COLUMN_NAMES, ORIGINAL_NAME]):
        raise ConservatorError(f"the first row of the table must have the columns {', '.join(COLUMN_NAMES)}")
    return Transcript("TSV", "tesseract", "pixel", _read_pages(table), data, table)


def _read_pages(table: TsvFile) -> tuple[Page, ...]:
    """Read the pages of a table, and set ``table.word_rows``."""
    words_of_lines: dict[str, dict[tuple[str, ...], list[Word]]] = {}  # page number -> line key -> words
    rows_of_line: dict[tuple[str, ...], list[int]] = {}
    boxes: dict[tuple[str, ...], Box] = {}  # level and line key -> box
    for index, row in enumerate(table.rows[1:], 1):
        if row == [""]:
            continue
        location = f"row {index + 1} of the table"
        if not len(COLUMN_NAMES) - 1 <= len(row) <= len(table.rows[0]):
            raise ConservatorError(f"{location} must have {len(table.rows[0])} columns, got {len(row)}")
        if not all(cell.isascii() and cell.isdigit() for cell in row[:LEFT]):
            raise ConservatorError(f"{location} must begin with {LEFT} whole numbers")
        left, top, width, height = (read_coordinate(cell, location.__str__) for cell in row[LEFT:CONFIDENCE])
        box = Box(left, top, left + width, top + height)
        lines = words_of_lines.setdefault(row[1], {})
        line = tuple(row[1:WORD_NUMBER])
        if row[0] != WORD_LEVEL:
            boxes[row[0], *line] = box
            continue
        lines.setdefault(line, [])  # a word without text fixes the position of its line
        if len(row) >= len(COLUMN_NAMES) and row[TEXT].strip():
            confidence, original = read_confidence(row[CONFIDENCE], 100), "".join(row[ORIGINAL:]) or None
            word = Word(" ".join(row[TEXT].split()), confidence, box, original=original)
            lines[line].append(word)
            rows_of_line.setdefault(line, []).append(index)
    pages = []
    for page, all_lines in words_of_lines.items():
        lines = {line: words for line, words in all_lines.items() if words}
        table.word_rows += [index for line in lines for index in rows_of_line[line]]
        blocks: dict[tuple[str, ...], int] = {}
        page_lines = tuple(
            Line(tuple(words), boxes.get((LINE_LEVEL, *line)), blocks.setdefault(line[:3], len(blocks)))
            for line, words in lines.items()
        )
        pages.append(Page(page_lines, boxes.get((PAGE_LEVEL, page, "0", "0", "0"))))
    return tuple(pages)


def _changed_row(row: list[str], text: str, box: Box | None, confidence: float | None, old_text: str) -> list[str]:
    """Return the row of a word with a new text; a box or confidence of None keeps the old value.

    A row that was changed before keeps the original text of its first change.
    """
    changed = [*row[:TEXT], text, "".join(row[ORIGINAL:]) or (old_text if text != old_text else "")]
    if box is not None:
        changed[LEFT:CONFIDENCE] = [
            write_coordinate(value) for value in (box.left, box.top, box.right - box.left, box.bottom - box.top)
        ]
    if confidence is not None:
        changed[CONFIDENCE] = f"{100 * confidence:g}"
    return changed


def _with_original_column(row: list[str], value: str) -> list[str]:
    """Return a row with the column for original texts; an empty row stays empty."""
    return row if row == [""] or len(row) > ORIGINAL else [*row, *[""] * (ORIGINAL - len(row)), value]
