"""Corrections that language models rescore."""

from dataclasses import replace

import pytest
import torch

from conservator.channels import EditChannel
from conservator.experts.char_ngram import CharNgramMixture, CharNgramModel
from conservator.pipelines.correction import Corrector
from conservator.pipelines.correction.coverage import COVERAGE
from conservator.pipelines.correction.rescoring import CORRECTION_RESCORING
from conservator.pipelines.rescoring import Rescorer
from conservator.reference import MarkovExpert

TOKENS = [bytes([byte]) for byte in b"abc \n"]
CHANNEL = EditChannel({("a", "c"): 0.1, ("b", "c"): 0.1, ("", "c"): 0.02}, {}, 0.9)
EVEN = Corrector(
    CHANNEL, CharNgramMixture.of([CharNgramModel.of("references", ["ab ba aab bba abab baba ac bc ca cb"], order=2)])
)
LINES = 2


@pytest.fixture(autouse=True)
def covered(monkeypatch):
    """The texts are too short to show that the models cover them."""
    monkeypatch.setattr("conservator.pipelines.correction.coverage.COVERAGE", replace(COVERAGE, reference_limit=9.0))


def expert(likely, strength=15.0):
    """Return a model in which one character is more probable than the others."""
    logits = torch.zeros(len(TOKENS))
    logits[TOKENS.index(likely)] = strength
    return MarkovExpert(TOKENS, logits, logits.repeat(len(TOKENS), 1))


@pytest.mark.parametrize("likely", [b"a", b"b"])
def test_the_language_model_decides_between_equally_probable_candidates(likely):
    corrector = Corrector(CHANNEL, EVEN.prior, min_log_odds=0.5, rescorer=Rescorer([expert(likely)]))
    result = corrector.correct("ba c ab\n" * LINES)
    assert result.text == f"ba {likely.decode()} ab\n" * LINES
    change = result.changes[0]
    assert (change.seen, change.text, change.start) == ("c", likely.decode(), 3)
    assert 0.5 < change.probability < 1
    assert result.names == ("references", "markov")
    assert sum(result.weights) == pytest.approx(1)


def test_log_odds_combine_all_models():
    log_odds, model_log_odds = [], []
    for strength in (15.0, 18.0):
        model = expert(b"a", strength)
        corrector = Corrector(CHANNEL, EVEN.prior, min_log_odds=0.0, rescorer=Rescorer([model]))
        change, *_ = corrector.correct("ba c ab\n" * LINES).changes
        log_odds.append(change.log_odds)
        model_log_odds.append(float(model.log_probs[1, TOKENS.index(b"a")] - model.log_probs[1, TOKENS.index(b"c")]))
    assert log_odds[1] - log_odds[0] == pytest.approx(
        CORRECTION_RESCORING.language_model_weight * (model_log_odds[1] - model_log_odds[0]), abs=1e-4
    )


def test_a_text_without_uncertain_spans_is_unchanged():
    corrector = Corrector(CHANNEL, EVEN.prior, rescorer=Rescorer([expert(b"a")]))
    assert corrector.correct("ab ba\n\nab").text == "ab ba\n\nab"
    assert corrector.correct("").text == ""
