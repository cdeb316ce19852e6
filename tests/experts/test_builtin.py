"""The built-in experts."""

import json
from pathlib import Path

import pytest
import torch

from conservator.experts import Context, builtin_names, load_experts
from conservator.experts.library import BUILTIN_FOLDER
from conservator.experts.memory.phrases import PHRASES
from conservator.training.specialisation import check_specialisation

NAMES = ["code", "config", "generalist", "generalist_3x", "markdown", "math", "prose"]
ROOT = Path(__file__).parent.parent.parent
TEXTS = {
    "prose": b"The old bridge was built in the nineteenth century by engineers from the city, who used local stone. ",
    "code": b"def total(values):\n    result = 0\n    for value in values:\n        result += value\n\n",
    "config": b"apiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  ports:\n  - port: 80\n",
    "markdown": b"## Installation\n\n```sh\n$ pip install package\n```\n\n- [Documentation](https://example.org/)\n\n",
    "math": b"\\begin{theorem}\nLet $G$ be a group and $H \\subset G$ a subgroup of index $n$.\n\\end{theorem}\n\n",
}


def test_all_are_complete_and_small_enough():
    assert builtin_names() == NAMES
    for name in NAMES:
        files = sorted(path.name for path in (BUILTIN_FOLDER / name).iterdir())
        assert files == ["README.md", "config.json", "loss.csv", "loss.png", "model.safetensors"]
    assert sum(path.stat().st_size for path in (*BUILTIN_FOLDER.rglob("*"), PHRASES) if path.is_file()) < 100e6


def test_the_generalists_have_the_steps_of_one_and_of_three_specialists():
    steps = {expert.spec.name: expert.about["steps"] for expert in load_experts(NAMES)}
    assert len({steps[name] for name in ("prose", "code", "config", "markdown", "math", "generalist")}) == 1
    assert steps["generalist_3x"] == 3 * steps["prose"]


def test_specialists_are_best_in_their_domains():
    experts = load_experts("prose,code,config,markdown,math")
    check = check_specialisation(experts, {name: [text * 3] for name, text in TEXTS.items()}, windows=32, length=100)
    assert check.passed


def test_a_lost_byte_is_restored():
    (expert,) = load_experts("code")
    tokens = torch.tensor([list(b"import os\nimport sys\n\n\ndef main():\n    retXrn sys.argv\n")])
    position = bytes(tokens[0].tolist()).index(b"X")
    hidden = torch.arange(tokens.shape[1])[None] == position
    row = expert.predict(Context(tokens, hidden), hidden.nonzero(as_tuple=True))
    assert chr(int(row[0].argmax())) == "u"


@pytest.mark.parametrize("name", NAMES)
def test_the_recorded_check_refers_to_these_weights(name):
    record = json.loads((ROOT / "results" / "specialisation.json").read_text())
    (expert,) = load_experts([name])
    assert record["experts"][name] == expert.spec.fingerprint
