"""Token trees of language models: conditionals agree with forward passes over each path."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator import ConservatorError
from conservator.experts.causal import ROOT
from conservator.experts.language_models import load_language_model
from conservator.experts.language_models.model import LanguageModel
from support.tiny import STARTS, WINDOW, save_tiny

FAMILIES = sorted(STARTS)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return family -> (language model, the same network evaluated by transformers)."""
    models = {}
    for family in FAMILIES:
        folder = tmp_path_factory.mktemp(family)
        plain = save_tiny(folder, family)
        models[family] = load_language_model(folder, "float32"), plain
    return models


def plain_log_probs(model, plain, path):
    with torch.inference_mode():
        logits = plain(torch.tensor([[model.start, *path]]), use_cache=False).logits
    return torch.log_softmax(logits[0, -1].float(), dim=-1)


@st.composite
def trees(draw):
    """Draw steps of parents and tokens: chains and branches."""
    size, steps = 1, []
    for _ in range(draw(st.integers(1, 4))):
        chain = draw(st.booleans())
        count = draw(st.integers(0, 7))
        parents = []
        for index in range(count):
            parents.append(size + index - 1 if chain else draw(st.integers(0, size + index - 1)))
        steps.append((parents, [draw(st.integers(0, 299)) for _ in range(count)]))
        size += count
    return steps


@pytest.mark.parametrize("family", FAMILIES)
@given(steps=trees(), data=st.data())
def test_a_tree_agrees_with_forward_passes(models, family, steps, data):
    model, plain = models[family]
    tree, paths = model.read(), [[]]
    for parents, tokens in steps:
        for parent, token in zip(parents, tokens, strict=True):
            paths.append([*paths[parent], token])
        nodes = data.draw(st.lists(st.integers(0, len(paths) - 1), max_size=3))
        log_probs = tree.extend(parents, tokens, nodes)
        assert log_probs.shape == (len(nodes), model.spec.tokens.size)
        assert log_probs.dtype == torch.float32
        for row, node in zip(log_probs, nodes, strict=True):
            torch.testing.assert_close(row, plain_log_probs(model, plain, paths[node]), atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_root_is_the_start_token(models, family):
    model, plain = models[family]
    log_probs = model.read().extend([], [], [ROOT])
    torch.testing.assert_close(log_probs[0], plain_log_probs(model, plain, []), atol=1e-3, rtol=1e-3)
    assert model.spec.tokens.token_bytes[model.start] == b""
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(1))


def test_sliding_window_layers_ignore_tokens_before_the_window(models):
    model, plain = models["gemma3_text"]
    path = list(range(260, 260 + 3 * WINDOW))
    tree = model.read()
    log_probs = tree.extend(range(len(path)), path, [len(path)])
    torch.testing.assert_close(log_probs[0], plain_log_probs(model, plain, path), atol=2e-3, rtol=1e-3)
    wide = LanguageModel(plain, model.spec.tokens, model.start, "wide")
    window, wide.config.sliding_window = wide.config.sliding_window, 100
    try:
        other = wide.read().extend(range(len(path)), path, [len(path)])
    finally:
        wide.config.sliding_window = window
        wide.config._attn_implementation = "sdpa"
    assert (other - log_probs).abs().max() > 1e-2


@pytest.mark.parametrize("family", FAMILIES)
def test_a_path_that_is_too_long_is_rejected_and_the_tree_remains_valid(models, family):
    model, _ = models[family]
    max_length = model.spec.max_length
    assert max_length == 63
    tree = model.read()
    before = tree.extend(range(max_length), [1] * max_length, [max_length])
    with pytest.raises(ConservatorError, match="more than 63 tokens"):
        tree.extend([max_length], [1], [])
    torch.testing.assert_close(tree.extend([], [], [max_length]), before)
    torch.testing.assert_close(tree.extend([0], [1], [1, max_length + 1])[0], tree.extend([], [], [max_length + 1])[0])


@pytest.mark.parametrize(
    ("parents", "tokens", "nodes", "message"),
    [
        ([5], [1], [], "node 5 cannot be the parent"),
        ([], [1], [], "expected one parent per token"),
        ([0], [1], [2], "node 2 does not exist"),
    ],
)
def test_an_invalid_tree_is_rejected(models, parents, tokens, nodes, message):
    with pytest.raises(ConservatorError, match=message):
        models["llama"][0].read().extend(parents, tokens, nodes)


@pytest.mark.parametrize("family", FAMILIES)
def test_bfloat16_is_close_to_float32(tmp_path, family):
    save_tiny(tmp_path, family)
    path = list(range(260, 272))
    exact, other = (
        load_language_model(tmp_path, precision).read().extend(range(12), path, range(13)).exp()
        for precision in ("float32", "bfloat16")
    )
    assert other.dtype == torch.float32
    assert 0 < (exact - other).abs().sum(-1).mean() < 0.3
