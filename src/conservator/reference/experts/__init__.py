"""Experts with exact conditionals on small vocabularies, for simulations and as oracles."""
