"""Scans: images and PDF documents, and their OCR by the installed Tesseract."""
