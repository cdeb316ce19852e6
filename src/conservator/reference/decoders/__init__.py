"""Decoders of the paper: one step, iterative, channel posterior, uniform source."""
