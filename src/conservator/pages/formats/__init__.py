"""Formats of OCR files: hOCR, ALTO, PAGE XML and TSV of Tesseract."""
