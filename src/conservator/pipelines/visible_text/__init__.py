"""Correction of visible text: channels propose candidates, and ``correction`` chooses among them."""

from conservator.pipelines.visible_text.correction import Proposal, TextChannel, correct_visible_text

__all__ = ["Proposal", "TextChannel", "correct_visible_text"]
