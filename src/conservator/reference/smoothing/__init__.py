"""Smoothing along the sequence: the penalty tau * sum_l |lambda_l - lambda_{l-1}|, and its variants."""
