"""The paper's tables and figures, one study each: ``conservator reproduce NAME``.

A study is a module with ``PRESETS`` (name -> frozen Config with a ``repeats`` field), ``TABLES``, ``LABELS`` and
``run(config, seed, track) -> Findings``. This file imports none of them, so that listing them is instant.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """Where a study is and what it shows of the paper."""

    module: str
    summary: str


STUDIES = {
    "simulator": Entry(
        "conservator.studies.simulator",
        'Recover a known field, exactly and with trained experts: table "toy", figure "field"',
    ),
    "recoverability": Entry(
        "conservator.studies.recoverability",
        'Field error against observations, separation and corruption: figure "phase"',
    ),
    "contextual": Entry(
        "conservator.studies.contextual",
        'Gradient and recovery in the enumerable contextual model: tables "ctx2x2", "ctxrecover"',
    ),
}
PRESETS = ("laptop", "paper")
