"""The effort ``best``: a language model writes again what networks and memory leave in doubt."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from conservator import RestoreOptions, Restorer
from conservator.decoders.rescoring import Judged, Rescored
from conservator.decoders.rescoring.spans import Region
from conservator.errors import ConservatorError, OptionError
from conservator.experts.causal import CausalSpec
from conservator.pipelines.rescoring import calibrated, longest_run
from conservator.restorer import restore
from conservator.vocabularies import Tokens
from support.causal_experts import Bookworm
from support.fakes import FakeExpert

TEXT = "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. " * 3


def damaged(rate=0.15, seed=0):
    data = TEXT.encode()
    lost = np.random.default_rng(seed).random(len(data)) < rate
    return b"".join("\ufffd".encode() if gone else bytes([byte]) for byte, gone in zip(data, lost, strict=True)), lost


def run(language_models=None, **options):
    document, _ = damaged()
    worm = Bookworm(TEXT.encode())
    restorer = Restorer(
        [FakeExpert(1), FakeExpert(2)], language_models=[worm] if language_models is None else language_models
    )
    return restorer.restore(document, lost="bytes", **options)


def test_the_record_names_the_precision_of_language_models():
    worm = Bookworm(TEXT.encode())
    spec = replace(worm.spec, precision="bfloat16")
    found = run(language_models=[SimpleNamespace(spec=spec, read=worm.read)], effort="best")
    assert json.loads(found.to_json())["precision"] == {spec.name: "bfloat16"}
    assert json.loads(run(effort="fast").to_json())["precision"] == {}


def test_a_language_model_that_knows_the_text_gives_it_back():
    found = run(effort="best", memory=False)
    assert found.text == TEXT
    assert run(effort="fast", memory=False).text != TEXT


def test_fast_is_the_default_and_asks_no_language_model():
    assert run(language_models=["not asked"]).text == run(effort="fast").text


@pytest.mark.parametrize("memory", [True, False])
def test_the_field_names_the_language_model_before_the_memory(memory):
    found = run(effort="best", memory=memory)
    names = ("fake1", "fake2", "bookworm", "memory")
    assert found.experts == (names if memory else names[:3])
    assert found.is_retrieval == memory
    assert np.allclose(found.field[found.positions].sum(axis=1), 1)
    _, lost = damaged()
    assert found.field[lost, 2].max() == pytest.approx(2 / 3)
    assert not found.field[~lost, 2].any()
    assert json.loads(found.to_json())["experts"] == list(found.experts)
    assert "bookworm" in found.to_html()


def test_visible_bytes_stay_and_confidence_is_a_probability():
    found = run(effort="best")
    _, lost = damaged()
    assert (found.tokens[~lost] == np.frombuffer(TEXT.encode(), dtype=np.uint8)[~lost]).all()
    assert (found.confidence[~lost] == 1).all()
    assert ((found.confidence > 0) & (found.confidence <= 1)).all()


def test_alternatives_change_nothing_and_begin_with_the_text():
    plain, shown = run(effort="best"), run(effort="best", alternatives=3)
    assert plain.text == shown.text
    assert np.array_equal(plain.confidence, shown.confidence)
    for span, fills in zip(shown.spans, shown.alternatives, strict=True):
        assert fills[0].data == shown.tokens[span.start : span.stop].astype(np.uint8).tobytes()
        assert len(fills) <= 3
        assert all(0 <= fill.probability <= 1 for fill in fills)


def test_two_language_models_are_trusted_where_they_know_the_text():
    half = len(TEXT) // 2
    first, second = Bookworm(TEXT[:half].encode(), "first"), Bookworm(TEXT[half:].encode(), "second")
    found = run(language_models=[first, second], effort="best", memory=False)
    assert found.experts[2:] == ("first", "second")
    assert found.summary.weights[2] > 0
    assert found.summary.weights[3] > 0


def test_nothing_lost_asks_nobody():
    assert restore("whole", language_models=["not asked"], effort="best").text == "whole"


def test_a_doubtful_text_cannot_be_written_again():
    with pytest.raises(OptionError, match="effort: language models write marked gaps again"):
        run(effort="best", channel="replacement:0.05")


@pytest.mark.parametrize("option", [{"effort": "most"}, {"language_models": ""}, {"language_models": "smollm2,,x"}])
def test_bad_options_are_refused(option):
    with pytest.raises(OptionError, match=next(iter(option))):
        RestoreOptions(**option)


def test_progress_goes_from_none_to_all():
    told = []
    run(effort="best", progress=lambda stage, share: told.append((stage, share)))
    shares = [share for stage, share in told if stage == "writing again"]
    assert shares[0] == 0
    assert shares[-1] == 1
    assert shares == sorted(shares)


def test_it_says_how_long_it_will_take():
    document, _ = damaged()
    options = RestoreOptions(effort="best", lost="bytes")
    assert (
        Restorer([FakeExpert(1)], options, language_models=[Bookworm(TEXT.encode())]).seconds_to_rewrite(document) > 0
    )
    assert Restorer([FakeExpert(1)]).seconds_to_rewrite(document) == 0


@pytest.mark.parametrize(("places", "length"), [([3], 1), ([3, 5, 9], 1), ([1, 2, 4, 5, 6, 9], 3)])
def test_the_longest_run_of_neighbours(places, length):
    assert longest_run(places) == length


def test_softening_keeps_the_text_and_the_order_of_fills():
    sharp = {b"ab": 0.9, b"cd": 0.08, b"ce": 0.02}
    region = Region(0, 4, (1, 2))
    judged = Judged(region, sharp)
    soft = calibrated(Rescored(b"xabx", {1: 0.9, 2: 0.9}, {1: judged, 2: judged}))
    fills = soft.judged[1].fills
    assert soft.text == b"xabx"
    assert list(fills) == list(sharp)
    assert sum(fills.values()) == pytest.approx(1 - 0.05)
    assert soft.confidence[1] == fills[b"ab"] < 0.9
    assert soft.judged[1] is soft.judged[2]


class Printable(Bookworm):
    """Has no token for control characters."""

    def __init__(self, text, name):
        super().__init__(text, name)
        self.spec = CausalSpec(name, Tokens(self.spec.tokens.token_bytes, self.cut))

    def cut(self, text):
        if "\x04" in text:
            raise ConservatorError("no token for '\\x04'")
        return list(text.encode())


def test_a_character_without_a_token_leaves_the_text_as_networks_and_memory_have_it():
    worms = [Printable(TEXT.encode(), "first"), Printable(TEXT.encode(), "second")]
    document = damaged()[0] + b"\x04"
    options = RestoreOptions(lost="bytes", memory=False)
    restorer = Restorer([FakeExpert(1)], options, language_models=worms)
    assert restorer.restore(document, effort="best").text == restorer.restore(document).text
    best = Restorer([FakeExpert(1)], RestoreOptions(lost="bytes", effort="best"), language_models=worms)
    assert best.seconds_to_rewrite(document) > 0
