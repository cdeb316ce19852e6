"""Energies and fixed-time predictions of experts with a uniform source."""
