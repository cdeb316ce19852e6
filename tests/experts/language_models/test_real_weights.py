"""SmolLM2 with its real weights, if it is installed; the test needs no network connection."""

import pytest
import torch

from conservator import restore
from conservator.experts.language_models import added_models, load_language_model

TEXT = "The Eiffel Tower is in the city of Paris, the capital of France.\n\n1. It is 330 metres tall.\n"
pytestmark = pytest.mark.skipif(
    "smollm2" not in [model.name for model in added_models()],
    reason="smollm2 is not installed; run: conservator experts add smollm2",
)


def test_english_text_has_a_low_cross_entropy():
    model = load_language_model("smollm2", "float32")
    tokens = model.spec.tokens
    token_ids = tokens.tokenize(TEXT)
    assert b"".join(tokens.token_bytes[token] for token in token_ids) == TEXT.encode()
    log_probs = model.read().extend(range(len(token_ids)), token_ids, range(len(token_ids)))
    nats = -log_probs[torch.arange(len(token_ids)), torch.tensor(token_ids)].sum().item() / len(TEXT.encode())
    assert nats < 0.75  # 0.69 was measured; the uniform distribution has about 3
    node = len(tokens.tokenize("The Eiffel Tower is in the city of"))
    assert tokens.token_bytes[int(log_probs[node].argmax())] == b" Paris"


def test_branches_agree_with_chains():
    model = load_language_model("smollm2", "float32")
    token_ids = model.spec.tokens.tokenize("The Eiffel Tower is in the city of Paris")
    tree = model.read()
    tree.extend(range(len(token_ids)), token_ids, [])
    count = len(token_ids)
    branch = tree.extend([3, count + 1], [token_ids[3], token_ids[4]], [count + 2])
    torch.testing.assert_close(branch, tree.extend([], [], [5]), atol=1e-3, rtol=1e-3)


def test_a_damaged_text_is_restored():
    model = load_language_model("smollm2", "float32")
    damaged = (
        TEXT.replace("Eiffel", "Eif\ufffdel").replace("capital", "c\ufffdp\ufffdtal").replace("metres", "metr\ufffds")
    )
    result = restore(damaged, "prose", lost="bytes", effort="best", language_models=[model])
    assert result.text == TEXT
    assert result.experts == ("prose", "words", "smollm2", "memory")
