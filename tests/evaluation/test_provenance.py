"""Provenance of a result."""

import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from conservator.evaluation import provenance

COPY = "conservator/evaluation/provenance.py"


def test_a_missing_package_has_no_version(monkeypatch):
    def absent(package):
        raise PackageNotFoundError(package)

    monkeypatch.setattr(provenance, "version", absent)
    assert provenance.versions()["numba"] is None


def git(folder, *arguments):
    author = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    done = subprocess.run(["git", *author, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    """Create a checkout with both packages and another file."""
    for package in ("conservator", "conservator_studies"):
        (tmp_path / "src" / package).mkdir(parents=True)
        (tmp_path / "src" / package / "code.py").write_text("x = 1\n")
    (tmp_path / "src" / "conservator" / "evaluation").mkdir()
    shutil.copy(Path(provenance.__file__), tmp_path / "src" / COPY)
    (tmp_path / "README.md").write_text("read me\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "all")
    return tmp_path


def commit_of(folder):
    """Return the result of ``commit`` in the copy of the code in a folder."""
    program = f"import runpy; print(runpy.run_path({str(folder / 'src' / COPY)!r})['commit']())"
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_is_that_of_the_checkout(checkout):
    head = git(checkout, "rev-parse", "HEAD")
    (checkout / "README.md").write_text("changed\n")
    assert commit_of(checkout) == head


@pytest.mark.parametrize("package", ["conservator", "conservator_studies"])
def test_a_change_in_either_package_is_reported(checkout, package):
    head = git(checkout, "rev-parse", "HEAD")
    (checkout / "src" / package / "code.py").write_text("x = 2\n")
    assert commit_of(checkout) == f"{head}-dirty"


def test_code_outside_of_a_checkout_has_no_commit(checkout):
    git(checkout, "rm", "-q", "--cached", f"src/{COPY}")
    assert commit_of(checkout) == "None"
