"""Conservator: restore damaged documents by composing frozen experts position by position.

The public names are listed once, in ``__init__.pyi``. Each is imported on first use, so that ``import conservator`` is
fast and imports neither torch nor numba nor matplotlib.
"""

import ast
from importlib import import_module
from importlib.metadata import version as _version
from importlib.resources import files as _files
from typing import Any

__version__ = _version("conservator")

_MODULE_OF = {
    name.name: statement.module
    for statement in ast.parse((_files("conservator") / "__init__.pyi").read_text(encoding="utf-8")).body
    if isinstance(statement, ast.ImportFrom) and statement.module is not None
    for name in statement.names
}
__all__ = sorted([*_MODULE_OF, "__version__"])


def __getattr__(name: str) -> Any:
    """Import a public name from the package that defines it, on first use (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'conservator' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the lazy names, for completion in a shell."""
    return list(__all__)
