"""Alignment: choose the lengths of gaps of unknown length."""

from conservator.alignment.lengths import choose_lengths

__all__ = ["choose_lengths"]
