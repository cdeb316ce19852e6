"""Trees that a language model reads: their laws are those of plain passes over each path."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator import ConservatorError
from conservator.experts.causal import ROOT
from conservator.experts.language_models import LanguageModel, load_language_model
from support.tiny import STARTS, WINDOW, save_tiny

FAMILIES = sorted(STARTS)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Each family: a language model, and its network as transformers computes it."""
    found = {}
    for family in FAMILIES:
        folder = tmp_path_factory.mktemp(family)
        plain = save_tiny(folder, family)
        found[family] = load_language_model(folder, "float32"), plain
    return found


def plain_law(model, plain, path):
    with torch.inference_mode():
        logits = plain(torch.tensor([[model.start, *path]]), use_cache=False).logits
    return torch.log_softmax(logits[0, -1].float(), dim=-1)


@st.composite
def trees(draw):
    """Steps of parents and tokens: chains and branches, of some depth."""
    size, steps = 1, []
    for _ in range(draw(st.integers(1, 4))):
        chain = draw(st.booleans())
        count = draw(st.integers(0, 7))
        parents = []
        for place in range(count):
            parents.append(size + place - 1 if chain else draw(st.integers(0, size + place - 1)))
        steps.append((parents, [draw(st.integers(0, 299)) for _ in range(count)]))
        size += count
    return steps


@pytest.mark.parametrize("family", FAMILIES)
@given(steps=trees(), data=st.data())
def test_a_tree_has_the_laws_of_plain_passes(made, family, steps, data):
    model, plain = made[family]
    reading, paths = model.read(), [[]]
    for parents, tokens in steps:
        for parent, token in zip(parents, tokens, strict=True):
            paths.append([*paths[parent], token])
        asked = data.draw(st.lists(st.integers(0, len(paths) - 1), max_size=3))
        laws = reading.grow(parents, tokens, asked)
        assert laws.shape == (len(asked), model.spec.tokens.size)
        assert laws.dtype == torch.float32
        for law, node in zip(laws, asked, strict=True):
            torch.testing.assert_close(law, plain_law(model, plain, paths[node]), atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_root_is_the_start_token(made, family):
    model, plain = made[family]
    law = model.read().grow([], [], [ROOT])
    torch.testing.assert_close(law[0], plain_law(model, plain, []), atol=1e-3, rtol=1e-3)
    assert model.spec.tokens.token_bytes[model.start] == b""
    torch.testing.assert_close(law.exp().sum(-1), torch.ones(1))


def test_layers_with_a_window_do_not_see_what_is_before_it(made):
    model, plain = made["gemma3_text"]
    path = list(range(260, 260 + 3 * WINDOW))
    reading = model.read()
    laws = reading.grow(range(len(path)), path, [len(path)])
    torch.testing.assert_close(laws[0], plain_law(model, plain, path), atol=2e-3, rtol=1e-3)
    wide = LanguageModel(plain, model.spec.tokens, model.start, "wide")
    window, wide.config.sliding_window = wide.config.sliding_window, 100
    try:
        other = wide.read().grow(range(len(path)), path, [len(path)])
    finally:
        wide.config.sliding_window = window
        wide.config._attn_implementation = "sdpa"
    assert (other - laws).abs().max() > 1e-2


@pytest.mark.parametrize("family", FAMILIES)
def test_a_path_that_is_too_long_is_refused_and_harms_nothing(made, family):
    model, _ = made[family]
    longest = model.spec.max_length
    assert longest == 63
    reading = model.read()
    before = reading.grow(range(longest), [1] * longest, [longest])
    with pytest.raises(ConservatorError, match="more than 63 tokens"):
        reading.grow([longest], [1], [])
    torch.testing.assert_close(reading.grow([], [], [longest]), before)
    torch.testing.assert_close(reading.grow([0], [1], [1, longest + 1])[0], reading.grow([], [], [longest + 1])[0])


@pytest.mark.parametrize(
    ("parents", "tokens", "asked", "message"),
    [([5], [1], [], "cannot follow node 5"), ([], [1], [], "each token needs"), ([0], [1], [2], "no node 2")],
)
def test_what_is_no_tree_is_refused(made, parents, tokens, asked, message):
    with pytest.raises(ConservatorError, match=message):
        made["llama"][0].read().grow(parents, tokens, asked)


@pytest.mark.parametrize("family", FAMILIES)
def test_halves_are_near(tmp_path, family):
    save_tiny(tmp_path, family)
    path = list(range(260, 272))
    exact, other = (
        load_language_model(tmp_path, wanted).read().grow(range(12), path, range(13)).exp()
        for wanted in ("float32", "bfloat16")
    )
    assert other.dtype == torch.float32
    assert 0 < (exact - other).abs().sum(-1).mean() < 0.3
