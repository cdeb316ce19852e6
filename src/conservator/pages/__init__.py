"""Files that readers of pages write, OCR engines mostly: hOCR, ALTO, PAGE and the tables of Tesseract, in and out."""

from conservator.pages.confidence import character_confidences, ocr_confidence_of
from conservator.pages.elements import Limits
from conservator.pages.images import check_scan, crop_line, name_scan
from conservator.pages.indentation import indented
from conservator.pages.model import Alternative, Box, Change, Glyph, Line, Page, Word
from conservator.pages.pdf import draw_page, text_layer
from conservator.pages.pictures import Picture, picture_lines
from conservator.pages.reading import name_format, read_pages
from conservator.pages.scans import read_scan
from conservator.pages.tesseract import Tesseract, find_tesseract
from conservator.pages.transcript import Transcript

__all__ = [
    "Alternative",
    "Box",
    "Change",
    "Glyph",
    "Limits",
    "Line",
    "Page",
    "Picture",
    "Tesseract",
    "Transcript",
    "Word",
    "character_confidences",
    "check_scan",
    "crop_line",
    "draw_page",
    "find_tesseract",
    "indented",
    "name_format",
    "name_scan",
    "ocr_confidence_of",
    "picture_lines",
    "read_pages",
    "read_scan",
    "text_layer",
]
