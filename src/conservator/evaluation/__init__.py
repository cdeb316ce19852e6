"""Scores of experts, tables, figures and provenance of results."""
