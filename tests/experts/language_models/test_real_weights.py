"""SmolLM2 with its real weights, where it was added; the test needs no network."""

import pytest
import torch

from conservator import restore
from conservator.experts.language_models import added_models, load_language_model

TEXT = "The Eiffel Tower is in the city of Paris, the capital of France.\n\n1. It is 330 metres tall.\n"
pytestmark = pytest.mark.skipif(
    "smollm2" not in [model.name for model in added_models()],
    reason="smollm2 was not added; conservator experts add smollm2 fetches it",
)


def test_it_knows_english():
    model = load_language_model("smollm2", "float32")
    tokens = model.spec.tokens
    cut = tokens.tokenize(TEXT)
    assert b"".join(tokens.token_bytes[token] for token in cut) == TEXT.encode()
    laws = model.read().grow(range(len(cut)), cut, range(len(cut)))
    nats = -laws[torch.arange(len(cut)), torch.tensor(cut)].sum().item() / len(TEXT.encode())
    assert nats < 0.75  # 0.69 was measured; a uniform law has about 3
    asked = len(tokens.tokenize("The Eiffel Tower is in the city of"))
    assert tokens.token_bytes[int(laws[asked].argmax())] == b" Paris"


def test_branches_have_the_laws_of_chains():
    model = load_language_model("smollm2", "float32")
    cut = model.spec.tokens.tokenize("The Eiffel Tower is in the city of Paris")
    reading = model.read()
    reading.grow(range(len(cut)), cut, [])
    branch = reading.grow([3, len(cut) + 1], [cut[3], cut[4]], [len(cut) + 2])
    torch.testing.assert_close(branch, reading.grow([], [], [5]), atol=1e-3, rtol=1e-3)


def test_it_brings_back_what_it_knows():
    model = load_language_model("smollm2", "float32")
    damaged = (
        TEXT.replace("Eiffel", "Eif\ufffdel").replace("capital", "c\ufffdp\ufffdtal").replace("metres", "metr\ufffds")
    )
    found = restore(damaged, "prose", lost="bytes", effort="best", language_models=[model])
    assert found.text == TEXT
    assert found.experts == ("prose", "smollm2", "memory")
