"""The paper's tables and figures, one study each: ``conservator reproduce NAME``.

``conservator_studies.study`` defines what a study is. This file imports none of them, so that listing them is fast.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """The module of a study, and which part of the paper it reproduces.

    Attributes:
        module: the module that defines it as ``STUDY``.
        summary: what it shows.
    """

    module: str
    summary: str


STUDIES = {
    "simulator": Entry(
        "conservator_studies.simulator",
        'Recover a known field, exactly and with trained experts: table "toy", figure "field"',
    ),
    "recoverability": Entry(
        "conservator_studies.recoverability",
        'Field error against observations, separation and corruption: figure "phase"',
    ),
    "contextual": Entry(
        "conservator_studies.contextual",
        'Gradient and recovery in the enumerable contextual model: tables "ctx2x2", "ctxrecover"',
    ),
    "byte3": Entry(
        "conservator_studies.byte3",
        'Three byte-level experts and every baseline: table "byte3"',
    ),
    "byte2": Entry(
        "conservator_studies.byte2",
        'Two byte-level experts, prose and code: section "Byte-level experts"',
    ),
    "rate": Entry(
        "conservator_studies.rate",
        'Corruption rates, three corruption seeds each: table "rate"',
    ),
    "seeds": Entry(
        "conservator_studies.seeds",
        'Two retrained pairs, one of which does not specialise: table "seeds"',
    ),
    "decoder": Entry(
        "conservator_studies.decoder",
        'One-step against iterative decoding: table "decoder"',
    ),
    "smoothing": Entry(
        "conservator_studies.smoothing",
        'The smoothing strength, swept and chosen by evidence: table and figure "tv"',
    ),
    "field": Entry(
        "conservator_studies.recovered",
        'The quality of the recovered field: table "fieldmetrics"',
    ),
    "comments": Entry(
        "conservator_studies.comments",
        'Python code against its comments: appendix "A second real domain"',
    ),
    "replacement": Entry(
        "conservator_studies.replacement",
        'Overwritten bytes: appendix "A setting where the composition does not matter"',
    ),
    "routers": Entry(
        "conservator_studies.routers",
        'Local routers without the evidence correction: table "routers"',
    ),
    "prior-term": Entry(
        "conservator_studies.prior_term",
        "The posterior term alone, without the prior term: the paper's third limitation",
    ),
    "flagship": Entry(
        "conservator_studies.flagship",
        'Recovered fields of three windows chosen by rules: figure "flagship"',
    ),
    "readme": Entry(
        "conservator_studies.readme",
        "Real README files restored by the product, and whether its confidence is honest",
    ),
    "documents": Entry(
        "conservator_studies.documents",
        "Documents of every kind and damage restored by the product, with its memory and without",
    ),
    "language-models": Entry(
        "conservator_studies.language_models",
        "Language models beside networks and memory, and two of them composed with each other",
    ),
    "scale": Entry(
        "conservator_studies.scale",
        'Adapters of one base, with a uniform source: table "scale", and rates, decoders and smoothing for them',
    ),
    "arxiv": Entry(
        "conservator_studies.arxiv",
        'Prose and mathematics of LaTeX documents, adapters of one base: table "arxiv"',
    ),
    "arxiv-bytes": Entry(
        "conservator_studies.arxiv_bytes",
        "The same documents at byte level, with byte experts that are trained on either kind of text",
    ),
    "readme-tokens": Entry(
        "conservator_studies.readme_tokens",
        'Prose and code of README files, adapters of one base: section "Naturally mixed documents"',
    ),
    "sevenb": Entry(
        "conservator_studies.sevenb",
        'Two masked models that fail the specialisation check: table "sevenb"',
    ),
    "rule": Entry(
        "conservator_studies.rule",
        "When local weights pay, foretold from the damaged text: a rule that the paper does not give",
    ),
    "uniform": Entry(
        "conservator_studies.uniform",
        'Evidence of experts with a uniform source: appendix "The uniform-source mismatch"',
    ),
    "blackdots": Entry(
        "conservator_studies.blackdots",
        "Letters of early English plays that transcribers could not read, restored in every way there is",
    ),
}
PRESETS = ("laptop", "paper")
