"""Provenance of a result: the commit of the code, and the versions of the packages."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("conservator", "conservator_studies")  # the packages of this distribution, in one folder


def versions() -> dict[str, str | None]:
    """Return the versions of Python and of packages that affect results; None for a missing package."""
    result: dict[str, str | None] = {"python": platform.python_version()}
    for package in ("conservator", "matplotlib", "numba", "numpy", "scikit-learn", "scipy", "torch"):
        try:
            result[package] = version(package)
        except PackageNotFoundError:
            result[package] = None
    return result


def commit() -> str | None:
    """Return the commit of the checkout that contains this code, or None outside of a checkout.

    It ends in ``-dirty`` if either package has uncommitted changes; other files are ignored.
    """
    this_file = Path(__file__)
    packages = [str(this_file.parents[1].with_name(name)) for name in PACKAGES]

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(this_file.parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git(
            "ls-files", "--error-unmatch", this_file.name
        )  # fails for an installed copy inside another project's checkout
        changed = git("status", "--porcelain", "--", *packages)
        return git("rev-parse", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None
