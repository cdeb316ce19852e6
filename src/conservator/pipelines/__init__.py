"""Pipelines: lost bytes, lost characters, OCR correction, rescoring with language models."""
