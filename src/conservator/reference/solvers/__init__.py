"""Solvers for the point estimate of the field."""
