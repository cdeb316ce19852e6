"""The paper's tables and figures, one study each: ``conservator reproduce NAME``.

A study is a module with ``PRESETS`` (name -> frozen Config), ``UNIT`` (the field of the Config that counts its repeats
or windows, which ``--limit`` bounds), ``TABLES``, ``LABELS`` and ``run(config, seed, track) -> Findings``; one that
needs texts and experts is given ``Materials`` as a fourth argument. ``conclude(rows)``, where there is one, says in
words what the figures answer. This file imports none of them, so that listing them is instant.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """Where a study is, what it shows of the paper, and what it needs.

    Attributes:
        module: where it is.
        summary: what it shows.
        materials: whether it needs texts and experts.
        domain: texts that it needs beside prose, code and config.
    """

    module: str
    summary: str
    materials: bool = False
    domain: str | None = None


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
    "byte3": Entry(
        "conservator.studies.byte3",
        'Three byte-level experts and every baseline: table "byte3"',
        materials=True,
    ),
    "byte2": Entry(
        "conservator.studies.byte2",
        'Two byte-level experts, prose and code: section "Byte-level experts"',
        materials=True,
    ),
    "rate": Entry(
        "conservator.studies.rate",
        'Corruption rates, three corruption seeds each: table "rate"',
        materials=True,
    ),
    "seeds": Entry(
        "conservator.studies.seeds",
        'Two retrained pairs, one of which does not specialise: table "seeds"',
        materials=True,
    ),
    "decoder": Entry(
        "conservator.studies.decoder",
        'One-step against iterative decoding: table "decoder"',
        materials=True,
    ),
    "smoothing": Entry(
        "conservator.studies.smoothing",
        'The smoothing strength, swept and chosen by evidence: table and figure "tv"',
        materials=True,
    ),
    "field": Entry(
        "conservator.studies.recovered",
        'The quality of the recovered field: table "fieldmetrics"',
        materials=True,
    ),
    "comments": Entry(
        "conservator.studies.comments",
        'Python code against its comments: appendix "A second real domain"',
        materials=True,
    ),
    "replacement": Entry(
        "conservator.studies.replacement",
        'Overwritten bytes: appendix "A setting where the composition does not matter"',
        materials=True,
    ),
    "routers": Entry(
        "conservator.studies.routers",
        'Local routers without the evidence correction: table "routers"',
        materials=True,
    ),
    "prior-term": Entry(
        "conservator.studies.prior_term",
        "The posterior term alone, without the prior term: the paper's third limitation",
        materials=True,
    ),
    "flagship": Entry(
        "conservator.studies.flagship",
        'Recovered fields of three windows chosen by rules: figure "flagship"',
        materials=True,
    ),
    "readme": Entry(
        "conservator.studies.readme",
        "Real README files restored by the product, and whether its confidence is honest",
        materials=True,
        domain="readme",
    ),
}
PRESETS = ("laptop", "paper")
