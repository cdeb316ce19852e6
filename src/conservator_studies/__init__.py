"""Studies that reproduce the tables and figures of the paper: ``conservator reproduce NAME``.

``conservator_studies.study`` defines the class ``Study``. This module does not import the studies, so listing them is
fast.
"""

# name -> content of the study, and the part of the paper that it reproduces
STUDIES = {
    "simulator": 'Recovery of a known field, with exact and with trained experts: table "toy", figure "field"',
    "recoverability": (
        'Field error as a function of observations, expert separation and corruption rate: figure "phase"'
    ),
    "contextual": 'Gradients and field recovery in the enumerable contextual model: tables "ctx2x2", "ctxrecover"',
    "byte3": 'Three byte-level experts and all baselines: table "byte3"',
    "byte2": 'Two byte-level experts, prose and code: section "Byte-level experts"',
    "rate": 'Three corruption rates with three corruption seeds each: table "rate"',
    "seeds": 'Two retrained pairs of experts, one without specialisation: table "seeds"',
    "decoder": 'One-step and iterative decoding: table "decoder"',
    "smoothing": 'Smoothing strength: a sweep, and selection by evidence: table and figure "tv"',
    "field": 'Quality of the recovered field: table "fieldmetrics"',
    "comments": 'Python code and its comments: appendix "A second real domain"',
    "replacement": 'Replaced bytes: appendix "A setting where the composition does not matter"',
    "routers": 'Local routers without the evidence correction: table "routers"',
    "prior-term": "Evidence gradient without the prior term: the paper's third limitation",
    "flagship": 'Recovered fields of three windows selected by rules: figure "flagship"',
    "readme": "Real README files restored by the product, and the calibration of its confidence",
    "documents": "Documents of several kinds and kinds of damage, restored by the product with and without memory",
    "language-models": (
        "Language models composed with networks and memory, and two language models composed with each other"
    ),
    "scale": 'Adapters of one base model with a uniform source, with rates, decoders and smoothing: table "scale"',
    "arxiv": 'Prose and mathematics of LaTeX documents, with adapters of one base model: table "arxiv"',
    "arxiv-bytes": "Prose and mathematics of LaTeX documents at byte level, with one byte expert for each",
    "readme-tokens": (
        'Prose and code of README files, with adapters of one base model: section "Naturally mixed documents"'
    ),
    "sevenb": 'Two masked models that fail the specialisation check: table "sevenb"',
    "rule": "Prediction of the gain of local weights from the damaged text: a rule that is not in the paper",
    "uniform": 'Evidence of experts with a uniform source: appendix "The uniform-source mismatch"',
    "blackdots": "Illegible letters in early English plays, restored with several methods",
    "lacunae": "Lacunae of 1 to 10 characters in inscriptions and papyri, with and without references",
}
MODULES = {"field": "field_quality"}  # modules that are not named after their study
PRESETS = ("laptop", "paper")
