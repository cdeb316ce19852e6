"""Alignment: choose the lengths of gaps, and fit edit channels to pairs of texts."""

from conservator.alignment.gap_lengths import choose_lengths

__all__ = ["choose_lengths"]
