"""Language models composed with networks and memory, and two language models composed with each other.

Networks and memory decode documents of all kinds once. A language model then rescores the lost bytes, alone or composed
with the predictions of networks and memory. Finally, two language models with several kinds of weights rescore mixed
documents, each with a span of prose and a span of code.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from conservator import RestoreOptions, Restorer
from conservator.documents import MARK, damage
from conservator.experts.causal import CausalExpert
from conservator.experts.language_models import added_models, load_language_model
from conservator.options import EXPERTS
from conservator.pipelines.rescoring import Rescorer
from conservator_studies.byte import interval
from conservator_studies.corpora import find_file, read_domain
from conservator_studies.drafts import Draft, make_draft, score_rescorer
from conservator_studies.readme import read_documents
from conservator_studies.resources import Resources
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.scored_documents import ScoredDocuments, ScoredRestoration, by_restorer, score
from conservator_studies.shared_weights import FixedWeightRescorer, compute_evidence
from conservator_studies.statistics import compare
from conservator_studies.study import Study, Track

MODEL, OTHER = "smollm2", "gemma3-270m"
COMPOSED, LOCAL, GLOBAL = "composed", "local", "global"
CALIBRATION_BINS = 10  # bins: of equal width, for the calibration error [untuned]
KILOBYTE = 1000  # bytes: unit of the reported times [definition]


@dataclass(frozen=True)
class Config:
    """Configuration of the study.

    Attributes:
        documents: number of documents of each kind; twice as many README files.
        size: bytes per document, from its start.
        rate: fraction of bytes that are lost.
        kinds: kinds of documents.
        mixed: number of mixed documents, at most ``2 * documents``.
        mixed_size: bytes per mixed document, half prose and half code.
        apart: mixed documents use only documents after the first ``apart`` documents of a kind.
        model: language model that is composed with networks and memory.
        other: second language model for mixed documents; they are skipped if it was not added.
    """

    documents: int = 16
    size: int = 2000
    rate: float = 0.1
    kinds: tuple[str, ...] = ("readme", "prose", "code", "config", "arxiv")
    mixed: int = 8
    mixed_size: int = 1500
    apart: int = 32
    model: str = MODEL
    other: str = OTHER


PRESETS = {"laptop": Config(), "paper": Config()}
KINDS = {"readme": "README", "prose": "prose", "code": "code", "config": "config", "arxiv": "arXiv"}
TABLES = [
    TableSpec(
        "Accuracy on lost bytes, mean over documents",
        [
            Column("accuracy", "accuracy [95 %]", 3),
            Column("difference", "all composed minus method [95 %]", 3),
            Column("p", "p", 4),
            Column("calibration_error", "calibration error", 3),
            Column("seconds", "CPU seconds per KB", 2),
        ],
    ),
    TableSpec("Accuracy by kind of document", [Column(f"accuracy_{kind}", name, 3) for kind, name in KINDS.items()]),
    TableSpec(
        "Two language models on mixed documents, composed with networks and memory",
        [
            Column("mixed_accuracy", "accuracy [95 %]", 3),
            Column("mixed_difference", "local minus method [95 %]", 3),
            Column("mixed_p", "p", 4),
            Column("mixed_calibration_error", "calibration error", 3),
            Column("mixed_seconds", "CPU seconds per KB", 2),
            Column("weight_prose", f"weight of {MODEL} in prose", 2),
            Column("weight_code", "in code", 2),
        ],
    ),
]
LABELS = {
    "networks": "Networks",
    "memory": "Networks and memory",
    "language": "Language model, initialised with the text of networks and memory",
    "equal_say": "All composed, equal weights",
    COMPOSED: "All composed, fitted balance",
    "draft": "Networks and memory, no language model",
    LOCAL: "Local weights of two language models",
    GLOBAL: "Global weight by evidence",
    "equal": "Equal weights",
    "packllm_sim": "PackLLM-sim",
    "packllm_opt": "PackLLM-opt",
    "single:first": f"{MODEL} only",
    "single:second": f"{OTHER} only",
}


def lacks(config: object, resources: Resources | None) -> str:
    """State which optional dependency or model is missing; "" if none is."""
    if find_spec("transformers") is None:
        return 'language models need an optional dependency: pip install "conservator[lm]"'
    if MODEL not in {model.name for model in added_models()}:
        return f"the language model {MODEL} is not installed; run: conservator experts add {MODEL}"
    return ""


def find_models(config: Config) -> list[CausalExpert]:
    """Load the language model, and the second language model if it was added."""
    names = [config.model]
    if config.other in {model.name for model in added_models()}:
        names.append(config.other)
    return [load_language_model(name, "float32") for name in names]


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Restore documents with every method, and mixed documents with two language models."""
    models = find_models(config)
    experts = resources.choose(EXPERTS)
    plain = Restorer(experts, RestoreOptions(memory=False, lost="bytes"), select=True)
    scored: list[tuple[str, dict[str, ScoredRestoration]]] = []
    for kind in config.kinds:
        if find_file(resources.corpora, kind, "eval") is None:  # the demo corpora do not have all kinds
            continue
        count = config.documents * (2 if kind == "readme" else 1)
        documents = read_documents(resources.corpora, kind, count, config.size)
        for number, document in enumerate(track(documents, kind)):
            damaged = damage(document, config.rate, seed=seed + number)
            if damaged != document:
                draft = make_draft(experts, damaged, seed + number)
                scored.append((kind, restore_document(document, damaged, seed + number, plain, draft, models[0])))
    rows = kind_rows(scored)
    texts = mixed_documents(resources, config) if len(models) > 1 else []
    if texts:  # the demo corpora have none
        mixed = []
        for number, (document, is_code) in enumerate(track(texts, "mixed")):
            damaged = damage(document, config.rate, seed=seed + number)
            mixed.append(restore_mixed(document, is_code, make_draft(experts, damaged, seed + number), models))
        rows += mixed_rows(mixed)
    rows[0]["models"] = [f"{model.spec.name} {model.spec.fingerprint[:12]}" for model in models]
    return Findings(rows, {})


def restore_document(
    document: bytes, damaged: bytes, seed: int, plain: Restorer, draft: Draft, model: CausalExpert
) -> dict[str, ScoredRestoration]:
    """Restore a document with each method; all language models start from one draft."""
    rescorers = {
        # Every lost byte is rescored, and networks and memory have weight 0.
        "language": Rescorer([model], balance=0.0, confidence_threshold=2.0),
        "equal_say": Rescorer([model], balance=1.0),
        COMPOSED: Rescorer([model]),
    }
    return {
        "networks": score(by_restorer(plain), document, damaged, seed),
        "memory": draft.score(document),
        **{name: score_rescorer(draft, document, rescorer) for name, rescorer in rescorers.items()},
    }


# method -> restoration, and method -> mean weights of the first model by kind of text
MixedResult = tuple[dict[str, ScoredRestoration], dict[str, dict[str, float]]]


def restore_mixed(
    document: bytes, is_code: NDArray[np.bool_], draft: Draft, models: Sequence[CausalExpert]
) -> MixedResult:
    """Restore a mixed document with each weighting of two language models; ``is_code`` (L,) marks its code."""
    evidence = compute_evidence(models, draft)
    scored, weights = {"draft": draft.score(document)}, {}
    all_weights = evidence.weights()
    for name, weight in all_weights.items():
        if name == GLOBAL and np.array_equal(weight, all_weights[LOCAL]):  # the evidence selected a global weight
            scored[name] = scored[LOCAL]
        else:
            restoration = score_rescorer(draft, document, FixedWeightRescorer(models, given=weight))
            evidence_seconds = 0.0 if name == "equal" else evidence.seconds
            scored[name] = replace(restoration, seconds=restoration.seconds + evidence_seconds)
        weights[name] = {
            "weight_prose": float(weight[~is_code, 0].mean()),
            "weight_code": float(weight[is_code, 0].mean()),
        }
    for name, model in zip(("single:first", "single:second"), models, strict=True):
        scored[name] = score_rescorer(draft, document, Rescorer([model]))
    return scored, weights


def mixed_documents(resources: Resources, config: Config) -> list[tuple[bytes, NDArray[np.bool_]]]:
    """Make documents with a span of prose and a span of code, in alternating order, and masks of their code."""
    half, count = config.mixed_size // 2, min(config.mixed, 2 * config.documents)
    spans = {}
    for kind in ("prose", "code"):
        texts = read_domain(resources.corpora, kind, "eval", comments=True).documents[config.apart :]
        spans[kind] = [take_span(text, half) for text in texts if len(text) > 3 * half and MARK.encode() not in text]
    documents = []
    for number, (prose, code) in enumerate(zip(spans["prose"][:count], spans["code"][:count], strict=False)):
        parts = [(prose, False), (b"\n\n", False), (code, True)]
        ordered = parts if number % 2 == 0 else parts[::-1]
        is_code = np.repeat([code for _, code in ordered], [len(text) for text, _ in ordered])
        documents.append((b"".join(text for text, _ in ordered), is_code))
    return documents


def take_span(text: bytes, size: int) -> bytes:
    """Take ``size`` bytes from the first line that starts after ``size`` bytes.

    The start of a file is skipped because its text is often of another kind.
    """
    start = text.find(b"\n", size) + 1
    return text[start : start + size].decode(errors="ignore").encode()


def kind_rows(scored: Sequence[tuple[str, dict[str, ScoredRestoration]]]) -> list[Row]:
    """Make one row per method, over all documents and by kind."""
    rows = []
    for name in scored[0][1]:
        row = row_of(name, [by_method for _, by_method in scored], COMPOSED)
        for kind in dict.fromkeys(kind for kind, _ in scored):
            accuracies = [by_method[name].accuracy for other, by_method in scored if other == kind]
            row[f"accuracy_{kind}"] = float(np.mean(accuracies))
        rows.append(row)
    return rows


def mixed_rows(results: Sequence[MixedResult]) -> list[Row]:
    """Make one row per weighting of two language models."""
    rows = []
    for name in results[0][0]:
        row = row_of(name, [scored for scored, _ in results], LOCAL, "mixed_")
        if name in results[0][1]:
            keys = results[0][1][name]
            row |= {key: float(np.mean([weights[name][key] for _, weights in results])) for key in keys}
        rows.append(row)
    return rows


def row_of(name: str, scored: Sequence[Mapping[str, ScoredRestoration]], reference: str, prefix: str = "") -> Row:
    """Make the row of a method: accuracy, calibration error, CPU seconds per kilobyte, difference from a reference."""
    ours, restored = (ScoredDocuments([by_method[method] for by_method in scored]) for method in (reference, name))
    row: Row = {"method": name, "count": len(scored), "paper": {}, **restored.summarise(f"{prefix}accuracy")}
    row[f"{prefix}calibration_error"] = restored.calibration_error(CALIBRATION_BINS)
    # The median excludes compilation, which the first document includes.
    seconds = [KILOBYTE * restoration.seconds / restoration.size for restoration in restored.restorations]
    row[f"{prefix}seconds"] = float(np.median(seconds))
    if name != reference:
        row |= compare(ours.accuracies, restored.accuracies, prefix)
    return row


def conclude(rows: list[Row]) -> str:
    """State the gain from a language model, and compare local weights of two models with a global weight."""
    by_method = {row["method"]: row for row in rows}
    composed, draft, language = by_method[COMPOSED], by_method["memory"], by_method["language"]
    text = (
        f"On {composed['count']} documents, networks, memory and a language model composed restore "
        f"{composed['accuracy']:.3f} of the lost bytes; without the language model {draft['accuracy']:.3f} "
        f"({interval(draft)}, p = {draft['p']:.4f}), with the language model only {language['accuracy']:.3f} "
        f"({interval(language)}, p = {language['p']:.4f}). The language model on its own also starts from the text "
        "of networks and memory."
    )
    if GLOBAL in by_method:
        global_row = by_method[GLOBAL]
        low, high, p = (global_row[f"mixed_{key}"] for key in ("difference_low", "difference_high", "p"))
        verdict = "no significant difference" if low <= 0 <= high else "better" if low > 0 else "worse"
        text += (
            f" On {global_row['count']} mixed documents, local weights of two language models compared with a global "
            f"weight by evidence: {verdict} ({global_row['mixed_difference']:+.3f} [{low:+.3f}, {high:+.3f}], "
            f"p = {p:.4f})."
        )
    return text


STUDY = Study(
    presets=PRESETS,
    unit="documents",
    tables=TABLES,
    labels=LABELS,
    run=run,
    conclude=conclude,
    domain="readme",
    lacks=lacks,
)
