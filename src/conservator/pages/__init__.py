"""OCR files (hOCR, ALTO, PAGE and TSV of Tesseract): reading, and writing with corrected words; OCR of scans."""

from conservator.pages.confidence import character_confidences, ocr_confidence_of
from conservator.pages.indentation import add_indentation
from conservator.pages.markup.elements import FileLimits
from conservator.pages.model import Box, Glyph, Line, Page, TextAlternative, Word, WordChange
from conservator.pages.pictures import Picture, picture_lines
from conservator.pages.reading import detect_ocr_format, read_pages
from conservator.pages.scans.images import check_scan, detect_scan_format
from conservator.pages.scans.ocr import read_scan
from conservator.pages.scans.pdf import draw_page
from conservator.pages.scans.tesseract import Tesseract, find_tesseract
from conservator.pages.transcript import Transcript

__all__ = [
    "Box",
    "FileLimits",
    "Glyph",
    "Line",
    "Page",
    "Picture",
    "Tesseract",
    "TextAlternative",
    "Transcript",
    "Word",
    "WordChange",
    "add_indentation",
    "character_confidences",
    "check_scan",
    "detect_ocr_format",
    "detect_scan_format",
    "draw_page",
    "find_tesseract",
    "ocr_confidence_of",
    "picture_lines",
    "read_pages",
    "read_scan",
]
