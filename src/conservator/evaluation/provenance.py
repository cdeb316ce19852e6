"""Which code made a result: the commit, and the versions of the packages that its numbers depend on."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

CODE = ("conservator", "conservator_studies")  # the packages of this distribution, side by side


def versions() -> dict[str, str | None]:
    """The versions that the numbers of a result depend on; None for a package that is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in ("conservator", "matplotlib", "numba", "numpy", "scikit-learn", "scipy", "torch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def commit() -> str | None:
    """The commit of the checkout that this code runs from, or None if it does not run from one.

    It ends in ``-dirty`` if the code of either package has uncommitted changes; other files do not count.
    """
    here = Path(__file__)
    packages = [str(here.parents[1].with_name(name)) for name in CODE]

    def git(*words: str) -> str:
        command = ["git", "-C", str(here.parent), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", here.name)  # fails for an installed copy inside another project's checkout
        changed = git("status", "--porcelain", "--", *packages)
        return git("rev-parse", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None
