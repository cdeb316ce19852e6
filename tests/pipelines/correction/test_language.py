"""Corrections that language models judge."""

import pytest
import torch

from conservator.channels import EditChannel
from conservator.experts.char_ngram import CharNgramMixture, CharNgramModel
from conservator.pipelines.correction import Corrector
from conservator.pipelines.correction.rescoring import WEIGHT
from conservator.pipelines.rescoring import Rescorer
from conservator.reference import MarkovExpert

PIECES = [bytes([one]) for one in b"abc \n"]
CHANNEL = EditChannel({("a", "c"): 0.1, ("b", "c"): 0.1, ("", "c"): 0.02}, {}, 0.9)
EVEN = Corrector(
    CHANNEL, CharNgramMixture.of([CharNgramModel.of("references", ["ab ba aab bba abab baba ac bc ca cb"], order=2)])
)
LINES = 2


@pytest.fixture(autouse=True)
def covered(monkeypatch):
    """The texts are too short to show that the models cover them."""
    monkeypatch.setattr("conservator.pipelines.correction.coverage.REFERENCE_LIMIT", 9.0)


def expert(liked, strength=15.0):
    """A model for which one character is likelier than others."""
    energies = torch.zeros(len(PIECES))
    energies[PIECES.index(liked)] = strength
    return MarkovExpert(PIECES, energies, energies.repeat(len(PIECES), 1))


@pytest.mark.parametrize("liked", [b"a", b"b"])
def test_the_language_model_decides_between_what_characters_leave_open(liked):
    corrector = Corrector(CHANNEL, EVEN.prior, min_log_odds=0.5, rescorer=Rescorer([expert(liked)]))
    found = corrector.correct("ba c ab\n" * LINES)
    assert found.text == f"ba {liked.decode()} ab\n" * LINES
    change = found.changes[0]
    assert (change.seen, change.text, change.start) == ("c", liked.decode(), 3)
    assert 0.5 < change.probability < 1
    assert found.names == ("references", "markov")
    assert sum(found.weights) == pytest.approx(1)


def test_gains_are_those_of_all_models_together():
    gains, said = [], []
    for strength in (15.0, 18.0):
        model = expert(b"a", strength)
        corrector = Corrector(CHANNEL, EVEN.prior, min_log_odds=0.0, rescorer=Rescorer([model]))
        change, *_ = corrector.correct("ba c ab\n" * LINES).changes
        gains.append(change.log_odds)
        said.append(float(model.log_probs[1, PIECES.index(b"a")] - model.log_probs[1, PIECES.index(b"c")]))
    assert gains[1] - gains[0] == pytest.approx(WEIGHT * (said[1] - said[0]), abs=1e-4)


def test_a_text_without_doubt_is_left_alone():
    corrector = Corrector(CHANNEL, EVEN.prior, rescorer=Rescorer([expert(b"a")]))
    assert corrector.correct("ab ba\n\nab").text == "ab ba\n\nab"
    assert corrector.correct("").text == ""
