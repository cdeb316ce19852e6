"""The trap of each family: networks that know a text by heart, read as their family says, and read otherwise."""

from dataclasses import replace

import pytest
import torch

from conservator import ConservatorError
from conservator.experts import PAD, Context, UniformSource
from conservator.experts.denoisers import FAMILIES, Denoiser
from conservator.experts.denoisers.families import longest_of
from pretrained import KINDS, POSITIONS, around, by_heart, load, mask_of, network, numbers, random_denoiser, size_of
from tables import table_of

every = pytest.mark.parametrize("kind", KINDS)
masked = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "duo"])


def read(kind, made, **changes):
    """An expert of a network as its family says, with some of that changed."""
    own, known = KINDS[kind], numbers(kind)
    given = {
        "mask": mask_of(kind),
        "start": known[own.before[0]] if own.before else None,
        "end": known[own.after[0]] if own.after else None,
    }
    given |= {name: changes.pop(name) for name in list(changes) if name in given}
    tokens = changes.pop("tokens", random_denoiser(kind).spec.vocabulary)
    return Denoiser(made, replace(FAMILIES[kind], **changes), tokens, longest=POSITIONS, name=kind, **given)


def surprise(expert, text):
    """-log p of each token of a text that an expert knows by heart, on average, every other token hidden or noise."""
    total = 0.0
    for first in (0, 1):
        changed = torch.zeros(len(text), dtype=torch.bool)
        changed[first::2] = True
        noise = torch.where(changed, (text + 1) % expert.spec.vocabulary.size, text)[None]
        hidden = changed[None] & expert.spec.source.shows_noise
        law = table_of(expert, noise, hidden, 0.5)[0]
        total -= float(law[changed, text[changed]].sum())
    return total / len(text)


@every
def test_a_text_that_is_known_by_heart_comes_back(kind, tmp_path):
    made, text = by_heart(kind)
    expert = load(kind, made, tmp_path)
    assert surprise(expert, text) < 0.1
    assert expert.spec.vocabulary.decode(text.numpy()) == b"the quick brown fox jumps over the lazy dog"


TRAPS = {
    "bert, no start": ("bert", {"start": None}),
    "bert, another mask": ("bert", {"mask": 0}),
    "bert, shifted": ("bert", {"shift": 1}),
    "distilbert, no start": ("distilbert", {"start": None}),
    "roberta, no start": ("roberta", {"start": None}),
    "modernbert, shifted": ("modernbert", {"shift": 1}),
    "Dream, not shifted": ("Dream", {"shift": 0}),
    "Dream, another mask": ("Dream", {"mask": 0}),
    "llada, a start": ("llada", {"start": 0}),
    "llada, shifted": ("llada", {"start": 0, "shift": 1}),
    "mdlm, no start": ("mdlm", {"start": None}),
    "mdlm, the last token as its mask": ("mdlm", {"mask": 0}),
    "duo, no start": ("duo", {"start": None}),
    "duo, a mask source": ("duo", {"source": FAMILIES["bert"].source, "mask": 0, "time": "zeros"}),
}


@pytest.mark.parametrize(("kind", "changes"), TRAPS.values(), ids=TRAPS)
def test_read_otherwise_the_text_does_not_come_back(kind, changes):
    made, text = by_heart(kind)
    right, wrong = surprise(read(kind, made), text), surprise(read(kind, made, **changes), text)
    assert right < 0.1
    assert wrong > max(0.5, 10 * right) or kind == "llada" and changes.get("shift") and wrong < 0.1
