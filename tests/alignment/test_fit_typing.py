"""Fit of the error model of typing errors."""

import numpy as np

from conservator.alignment.fit_typing import fit_typing
from conservator.channels.typing_errors import KINDS, load_typing_errors

WORDS = ["morning", "letter", "harbour", "question", "between", "another", "thought", "necessary", "people", "picture"]


def test_fitted_parameters_explain_the_pairs():
    pairs = [("mornign", "morning"), ("lettre", "letter"), ("pepole", "people")] * 20 + [("alot", "a lot")]
    errors = fit_typing(pairs)
    assert max(errors.kinds, key=errors.kinds.__getitem__) == "transpose"
    assert errors.joined > 0
    assert errors.log_prob("morning", "mornign") > load_typing_errors().log_prob("morning", "mornign")


def test_the_fit_recovers_the_kinds_of_drawn_errors():
    shipped, generator = load_typing_errors(), np.random.default_rng(0)
    drawn = [(shipped.corrupt(word, generator), word) for word in WORDS * 60]
    fitted = fit_typing([(observed, word) for observed, word in drawn if observed != word])
    for kind in KINDS:
        assert abs(fitted.kinds[kind] - shipped.kinds[kind]) < 0.12
    assert 0.03 < fitted.second < 0.4
