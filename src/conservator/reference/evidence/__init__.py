"""Evidence of the composition field: exact, factorised, composite and denoising scores."""
