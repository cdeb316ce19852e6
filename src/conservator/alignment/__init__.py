"""Alignment: choose the lengths of gaps of unknown length."""

from conservator.alignment.gap_lengths import choose_lengths

__all__ = ["choose_lengths"]
