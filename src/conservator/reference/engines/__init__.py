"""Engines of the paper: Algorithm 1, point estimates, and leave-one-out evidence for uniform sources."""
