"""The effort ``best``: language models rescore bytes with low confidence."""

import json
from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch

from conservator import RestoreOptions, Restorer
from conservator.channels import ReplacementChannel
from conservator.decoders import DecodedText
from conservator.decoders.rescoring import Draft, Rescored, SpanPosterior, longest_run, open_bytes
from conservator.document import open_document
from conservator.documents import read_damaged
from conservator.errors import ConservatorError, OptionError
from conservator.experts import Cost, Meter
from conservator.experts.causal import CausalSpec
from conservator.pipelines.rescoring import Rescorer, calibrate_posterior
from conservator.restorer import restore
from conservator.vocabularies import Tokens
from support.causal_experts import MemorizingCausalExpert
from support.fakes import FakeExpert

TEXT = "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. " * 3


def damaged(rate=0.15, seed=0):
    data = TEXT.encode()
    lost = np.random.default_rng(seed).random(len(data)) < rate
    return b"".join(
        "\ufffd".encode() if is_lost else bytes([byte]) for byte, is_lost in zip(data, lost, strict=True)
    ), lost


def run(language_models=None, **options):
    document, _ = damaged()
    worm = MemorizingCausalExpert(TEXT.encode())
    restorer = Restorer(
        [FakeExpert(1), FakeExpert(2)], language_models=[worm] if language_models is None else language_models
    )
    return restorer.restore(document, lost="bytes", **options)


def test_the_record_names_the_precision_of_language_models():
    worm = MemorizingCausalExpert(TEXT.encode())
    spec = replace(worm.spec, precision="bfloat16")
    result = run(language_models=[SimpleNamespace(spec=spec, read=worm.read)], effort="best")
    assert json.loads(result.to_json())["precision"] == {spec.name: "bfloat16"}
    assert json.loads(run(effort="fast").to_json())["precision"] == {}


def test_a_language_model_of_the_text_restores_it():
    result = run(effort="best", memory=False)
    assert result.text == TEXT
    assert run(effort="fast", memory=False).text != TEXT


def test_fast_is_the_default_and_uses_no_language_model():
    assert run(language_models=["not used"]).text == run(effort="fast").text


@pytest.mark.parametrize("memory", [True, False])
def test_the_field_names_the_language_model_before_the_memory(memory):
    result = run(effort="best", memory=memory)
    names = ("fake1", "fake2", "words", "bookworm", "memory") if memory else ("fake1", "fake2", "bookworm")
    assert result.experts == names
    assert result.has_memory == memory
    assert np.allclose(result.field[result.positions].sum(axis=1), 1)
    _, lost = damaged()
    column = names.index("bookworm")
    assert result.field[lost, column].max() == pytest.approx(2 / 3)
    assert not result.field[~lost, column].any()
    assert json.loads(result.to_json())["experts"] == list(result.experts)
    assert "bookworm" in result.to_html()


def test_visible_bytes_stay_and_confidence_is_a_probability():
    result = run(effort="best")
    _, lost = damaged()
    assert (result.tokens[~lost] == np.frombuffer(TEXT.encode(), dtype=np.uint8)[~lost]).all()
    assert (result.confidence[~lost] == 1).all()
    assert ((result.confidence > 0) & (result.confidence <= 1)).all()


def test_alternatives_change_nothing_and_start_with_the_text():
    plain, shown = run(effort="best"), run(effort="best", alternatives=3)
    assert plain.text == shown.text
    assert np.array_equal(plain.confidence, shown.confidence)
    assert shown.edits
    for edit in shown.edits:
        assert edit.alternatives[0].data == edit.data
        assert len(edit.alternatives) <= 3
        assert all(0 <= candidate.probability <= 1 for candidate in edit.alternatives)


def test_two_language_models_have_weight_where_they_predict_the_text():
    half = len(TEXT) // 2
    first, second = (
        MemorizingCausalExpert(TEXT[:half].encode(), "first"),
        MemorizingCausalExpert(TEXT[half:].encode(), "second"),
    )
    result = run(language_models=[first, second], effort="best", memory=False)
    assert result.experts[2:] == ("first", "second")
    assert result.summary.weights[2] > 0
    assert result.summary.weights[3] > 0


def test_without_damage_no_language_model_is_used():
    assert restore("whole", language_models=["not used"], effort="best").text == "whole"


OVERWRITTEN = TEXT.replace("Viktor", "Vi#tor", 1).replace("Sylter", "Syl\x01er", 1).replace("jagen", "ja\ufffden", 1)


def run_overwritten(**options):
    worm = MemorizingCausalExpert(TEXT.encode())
    experts = [FakeExpert(1, sharpness=0.3), FakeExpert(2, sharpness=0.3)]
    restorer = Restorer(experts, language_models=[worm])
    return restorer.restore(OVERWRITTEN, channel="replacement:0.05", lost="bytes", **options)


@pytest.mark.parametrize("options", [{}, {"alternatives": 3}, {"memory": False}, {"words": ("Viktor",)}], ids=str)
def test_a_language_model_of_the_text_repairs_overwritten_bytes(options):
    result = run_overwritten(effort="best", **options)
    assert result.text == TEXT
    assert "bookworm" in result.experts
    assert len(result.edits) == 3
    for edit in result.edits:
        assert bool(edit.alternatives) == ("alternatives" in options)
        assert len(edit.alternatives) <= 3
        assert not edit.alternatives or edit.alternatives[0].data == edit.data
    assert ((result.confidence > 0) & (result.confidence <= 1)).all()


def test_a_language_model_does_not_change_fixed_text():
    start = OVERWRITTEN.encode().index(b"#")
    result = run_overwritten(effort="best", fixed=[(start, start + 1, "c")])
    assert result.text == TEXT.replace("Viktor", "Victor", 1)


def test_the_likelihood_of_overwritten_bytes_has_full_weight():
    """With a uniform language model, the score is that of networks and memory to the power of the balance."""
    restorer, captured = Rescorer([MemorizingCausalExpert(TEXT.encode())], balance=0.25), {}
    observation = ReplacementChannel(256, 0.1).observe(torch.tensor([list(b"abc")]))
    observation = observation.with_hidden(torch.tensor([[False, True, False]]))
    cavity = torch.log_softmax(torch.randn(1, 256, generator=torch.Generator().manual_seed(0)).double(), dim=-1)
    log_likelihood = observation[0].likelihood[[1]].table()
    log_probs = torch.log_softmax(cavity + log_likelihood, dim=-1).half()
    decoded = DecodedText(np.array([97, 98, 99]), np.array([1, 0.5, 1]), log_probs, np.zeros((3, 0)), Cost())

    def capture(experts, weights, text, slots, meter):
        captured.update({slot.start: slot.potential for slot in slots})
        return Rescored(Draft.of(text, slots), {})

    with mock.patch("conservator.pipelines.rescoring.rescore", capture):
        restorer(read_damaged(b"abc"), np.arange(3), decoded, Meter(), observation)
    assert list(captured) == [1]
    expected = 0.25 * cavity[0].clamp_min(-12) + log_likelihood[0]
    np.testing.assert_allclose(captured[1], expected, atol=0.01)


@pytest.mark.parametrize("option", [{"effort": "most"}, {"language_models": ""}, {"language_models": "smollm2,,x"}])
def test_bad_options_are_refused(option):
    with pytest.raises(OptionError, match=next(iter(option))):
        RestoreOptions(**option)


def test_progress_goes_from_none_to_all():
    calls = []
    run(effort="best", progress=lambda stage, share: calls.append((stage, share)))
    shares = [share for stage, share in calls if stage == "rescoring"]
    assert shares[0] == 0
    assert shares[-1] == 1
    assert shares == sorted(shares)


def test_the_time_is_estimated():
    document = open_document(damaged()[0])
    options = RestoreOptions(effort="best", lost="bytes")
    restorer = Restorer([FakeExpert(1)], options, language_models=[MemorizingCausalExpert(TEXT.encode())])
    assert restorer.estimate_rescoring_seconds(document) > 0
    assert Restorer([FakeExpert(1)]).estimate_rescoring_seconds(document) == 0


@pytest.mark.parametrize(("positions", "length"), [([3], 1), ([3, 5, 9], 1), ([1, 2, 4, 5, 6, 9], 3)])
def test_the_longest_run_of_neighbours(positions, length):
    assert longest_run(positions) == length


def test_calibration_keeps_the_text_and_the_order_of_candidates():
    sharp = {b"ab": 0.9, b"cd": 0.08, b"ce": 0.02}
    posterior = SpanPosterior((0, 1), sharp)
    draft = Draft.of(b"xabx", open_bytes(np.array([1, 2]), np.zeros((2, 256))))
    soft = calibrate_posterior(Rescored(draft, {0: posterior, 1: posterior}))
    probabilities = soft.posteriors[1].candidates
    assert soft.draft.text == b"xabx"
    assert list(probabilities) == list(sharp)
    assert sum(probabilities.values()) == pytest.approx(1 - 0.05)
    assert soft.confidence[1] == probabilities[b"ab"] < 0.9
    assert soft.posteriors[0] is soft.posteriors[1]


class Printable(MemorizingCausalExpert):
    """Has no token for control characters."""

    def __init__(self, text, name):
        super().__init__(text, name)
        self.spec = CausalSpec(name, Tokens(self.spec.tokens.token_bytes, self.cut))

    def cut(self, text):
        if "\x04" in text:
            raise ConservatorError("no token for '\\x04'")
        return list(text.encode())


def test_a_character_without_a_token_disables_rescoring():
    worms = [Printable(TEXT.encode(), "first"), Printable(TEXT.encode(), "second")]
    document = damaged()[0] + b"\x04"
    options = RestoreOptions(lost="bytes", memory=False)
    restorer = Restorer([FakeExpert(1)], options, language_models=worms)
    assert restorer.restore(document, effort="best").text == restorer.restore(document).text
    best = Restorer([FakeExpert(1)], RestoreOptions(lost="bytes", effort="best"), language_models=worms)
    assert best.estimate_rescoring_seconds(open_document(document)) > 0
