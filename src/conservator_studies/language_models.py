"""Language models beside networks and memory, and two language models composed with each other.

Documents of every kind are decoded once by networks and memory. From there, a language model writes the lost bytes
again: alone, or together with what networks and memory say. Then mixed documents, each a stretch of prose and a stretch
of code, are written again by two language models, with weights that differ in where they come from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import torch
from numpy.typing import NDArray

from conservator import RestoreOptions, Restorer
from conservator.documents import MARK, damage
from conservator.experts.causal import CausalExpert
from conservator.experts.language_models import added_models, load_language_model
from conservator.options import EXPERTS
from conservator.pipelines.rescoring import Rescorer
from conservator_studies.byte import interval
from conservator_studies.corpora import find_file, read_domain
from conservator_studies.drafts import Drafter, Outcome, restored, written
from conservator_studies.metrics import calibration_error
from conservator_studies.readme import Config as ReadmeConfig
from conservator_studies.readme import read_documents
from conservator_studies.resources import Resources
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.shared_weights import Weighted, evidence_of
from conservator_studies.statistics import compare, summarise
from conservator_studies.study import TextStudy, Track

MODEL, OTHER = "smollm2", "gemma3-270m"
COMPOSED, LOCAL, GLOBAL = "composed", "local", "global"
BINS = 10  # of the calibration error
KILOBYTE = 1000


@dataclass(frozen=True)
class Config:
    """What is restored, and by which language models.

    Attributes:
        documents: how many of each kind; of README files twice as many.
        size: bytes of each, from its beginning.
        rate: the share that is lost.
        kinds: of documents.
        mixed: how many mixed ones, at most twice as many as ``documents``.
        mixed_size: bytes of each of these, half of them prose and half code.
        apart: mixed ones are made from documents after the first so many.
        model: the language model that is composed with networks and memory.
        other: the one that is composed with it, on mixed documents; they are left out if it was not added.
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
        "Lost bytes that came back, each document counted alike",
        [
            Column("accuracy", "accuracy [95 %]", 3),
            Column("difference", "all composed minus it [95 %]", 3),
            Column("p", "p", 4),
            Column("calibration_error", "calibration error", 3),
            Column("seconds", "CPU seconds a KB", 2),
        ],
    ),
    TableSpec("The same by kind", [Column(f"accuracy_{kind}", name, 3) for kind, name in KINDS.items()]),
    TableSpec(
        "Two language models on mixed documents, networks and memory beside them",
        [
            Column("mixed_accuracy", "accuracy [95 %]", 3),
            Column("mixed_difference", "local minus it [95 %]", 3),
            Column("mixed_p", "p", 4),
            Column("mixed_calibration_error", "calibration error", 3),
            Column("mixed_seconds", "CPU seconds a KB", 2),
            Column("weight_prose", f"weight of {MODEL} in prose", 2),
            Column("weight_code", "in code", 2),
        ],
    ),
]
LABELS = {
    "networks": "Networks",
    "memory": "Networks and memory",
    "language": "Language model, from the text of networks and memory",
    "equal_say": "All composed, equal weights",
    COMPOSED: "All composed, fitted balance",
    "draft": "Networks and memory, no language model",
    LOCAL: "Local weights of two language models",
    GLOBAL: "One weight by evidence",
    "equal": "Equal weights",
    "packllm_sim": "PackLLM-sim",
    "packllm_opt": "PackLLM-opt",
    "single:first": f"{MODEL} alone",
    "single:second": f"{OTHER} alone",
}


def lacks(config: object, resources: Resources | None) -> str:
    """What is missing on this machine; "" if nothing is."""
    if find_spec("transformers") is None:
        return 'language models need an extra: pip install "conservator[lm]"'
    if MODEL not in {model.name for model in added_models()}:
        return f"{MODEL} was not added yet; conservator experts add {MODEL} fetches it"
    return ""


def find_models(config: Config) -> list[CausalExpert]:
    """The language model, and the other one if it was added."""
    names = [config.model]
    if config.other in {model.name for model in added_models()}:
        names.append(config.other)
    return [load_language_model(name, "float32") for name in names]


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Restore documents by every method, then mixed documents by two language models."""
    models = find_models(config)
    experts = resources.choose(EXPERTS)
    plain = Restorer(experts, RestoreOptions(memory=False, lost="bytes"), select=True)
    drafter = Drafter(experts, RestoreOptions(lost="bytes"), select=True)
    found: list[tuple[str, dict[str, Outcome]]] = []
    for kind in config.kinds:
        if find_file(resources.corpora, kind, "eval") is None:  # the demo has not all kinds
            continue
        count = config.documents * (2 if kind == "readme" else 1)
        documents = read_documents(resources.corpora, kind, ReadmeConfig(count, config.size))
        for number, document in enumerate(track(documents, kind)):
            damaged = damage(document, config.rate, seed=seed + number)
            if damaged != document:
                found.append((kind, restore_one(document, damaged, seed + number, plain, drafter, models[0])))
    rows = kind_rows(found)
    texts = mixed_documents(resources, config) if len(models) > 1 else []
    if texts:  # the demo has none
        mixed = []
        for number, (document, kinds) in enumerate(track(texts, "mixed")):
            damaged = damage(document, config.rate, seed=seed + number)
            mixed.append(restore_mixed(document, kinds, damaged, seed + number, drafter, models))
        rows += mixed_rows(mixed)
    rows[0]["models"] = [f"{one.spec.name} {one.spec.fingerprint[:12]}" for one in models]
    return Findings(rows, {})


def restore_one(
    document: bytes, damaged: bytes, seed: int, plain: Restorer, drafter: Drafter, model: CausalExpert
) -> dict[str, Outcome]:
    """The outcomes of a document, by method; all that have a language model go on from one draft."""
    draft = drafter.draft(damaged, seed)
    rescorers = {
        "language": Rescorer(
            [model], balance=0.0, confidence_threshold=2.0
        ),  # every lost byte is open, and only it has a say
        "equal_say": Rescorer([model], balance=1.0),
        COMPOSED: Rescorer([model]),
    }
    return {
        "networks": restored(plain, document, damaged, seed),
        "memory": draft.outcome(document),
        **{name: written(draft, document, rescorer) for name, rescorer in rescorers.items()},
    }


Mixed = tuple[dict[str, Outcome], dict[str, dict[str, float]]]  # outcomes; the weights of the first model, by kind


def restore_mixed(
    document: bytes,
    kinds: NDArray[np.bool_],
    damaged: bytes,
    seed: int,
    drafter: Drafter,
    models: Sequence[CausalExpert],
) -> Mixed:
    """The outcomes of a mixed document, whose code stands at ``kinds``, by how two language models are weighted."""
    draft = drafter.draft(damaged, seed)
    evidence = evidence_of(models, draft)
    outcomes, weights = {"draft": draft.outcome(document)}, {}
    all_weights = evidence.weights()
    for name, given in all_weights.items():
        if name == GLOBAL and np.array_equal(given, all_weights[LOCAL]):  # the evidence chose one weight
            outcomes[name] = outcomes[LOCAL]
        else:
            found = written(draft, document, Weighted(models, given=given))
            outcomes[name] = found.later(0.0 if name == "equal" else evidence.seconds)
        weights[name] = {
            "weight_prose": float(given[~kinds, 0].mean()),
            "weight_code": float(given[kinds, 0].mean()),
        }
    for name, model in zip(("single:first", "single:second"), models, strict=True):
        outcomes[name] = written(draft, document, Rescorer([model]))
    return outcomes, weights


def mixed_documents(resources: Resources, config: Config) -> list[tuple[bytes, NDArray[np.bool_]]]:
    """Texts with a stretch of prose and one of code, in turns the one or the other first; and where the code is."""
    half, count = config.mixed_size // 2, min(config.mixed, 2 * config.documents)
    stretches = {}
    for kind in ("prose", "code"):
        texts = read_domain(resources.corpora, kind, "eval", comments=True).documents[config.apart :]
        stretches[kind] = [stretch(text, half) for text in texts if len(text) > 3 * half and MARK.encode() not in text]
    made = []
    for number, (prose, code) in enumerate(zip(stretches["prose"][:count], stretches["code"][:count], strict=False)):
        parts = [(prose, False), (b"\n\n", False), (code, True)]
        ordered = parts if number % 2 == 0 else parts[::-1]
        made.append(
            (b"".join(text for text, _ in ordered), np.repeat([k for _, k in ordered], [len(t) for t, _ in ordered]))
        )
    return made


def stretch(text: bytes, size: int) -> bytes:
    """So many bytes from the first line that begins after as many; the start of a file is of another kind often."""
    start = text.find(b"\n", size) + 1
    return text[start : start + size].decode(errors="ignore").encode()


def kind_rows(found: Sequence[tuple[str, dict[str, Outcome]]]) -> list[Row]:
    """A row for each method, over all documents and by kind."""
    rows = []
    reference = [outcomes[COMPOSED].share for _, outcomes in found]
    for name in found[0][1]:
        mine = [outcomes[name] for _, outcomes in found]
        row: Row = {"method": name, "count": len(mine), "paper": {}, **describe(mine)}
        if name != COMPOSED:
            row |= compare(reference, [one.share for one in mine]).as_row()
        for kind in dict.fromkeys(kind for kind, _ in found):
            row[f"accuracy_{kind}"] = float(np.mean([one[name].share for each, one in found if each == kind]))
        rows.append(row)
    return rows


def mixed_rows(found: Sequence[Mixed]) -> list[Row]:
    """A row for each weighting of two language models."""
    rows = []
    reference = [outcomes[LOCAL].share for outcomes, _ in found]
    for name in found[0][0]:
        mine = [outcomes[name] for outcomes, _ in found]
        row: Row = {"method": name, "count": len(mine), "paper": {}, **describe(mine, "mixed_")}
        if name != LOCAL:
            row |= compare(reference, [one.share for one in mine]).as_row("mixed_")
        if name in found[0][1]:
            row |= {key: float(np.mean([weights[name][key] for _, weights in found])) for key in found[0][1][name]}
        rows.append(row)
    return rows


def describe(outcomes: Sequence[Outcome], prefix: str = "") -> dict[str, float]:
    """Accuracy, calibration error and seconds of a method."""
    row = summarise(f"{prefix}accuracy", [one.share for one in outcomes])
    row.pop(f"{prefix}accuracy_sd", None)  # the interval says more
    confidence = torch.from_numpy(np.concatenate([one.confidence for one in outcomes]))
    right = torch.from_numpy(np.concatenate([one.right for one in outcomes]))
    row[f"{prefix}calibration_error"] = calibration_error(confidence, right, BINS)
    # The median: the first document pays for what is compiled.
    return row | {f"{prefix}seconds": float(np.median([KILOBYTE * one.seconds / one.size for one in outcomes]))}


def conclude(rows: list[Row]) -> str:
    """What a language model brings, and whether local weights of two are better than one weight."""
    found = {row["method"]: row for row in rows}
    own, fast, alone = found[COMPOSED], found["memory"], found["language"]
    text = (
        f"On {own['count']} documents, networks, memory and a language model composed bring back "
        f"{own['accuracy']:.3f} of the lost bytes; without the language model {fast['accuracy']:.3f} "
        f"({interval(fast)}, p = {fast['p']:.4f}), with it alone {alone['accuracy']:.3f} ({interval(alone)}, "
        f"p = {alone['p']:.4f}). What the language model writes alone begins from the text of networks and memory as a "
        "first guess."
    )
    if GLOBAL in found:
        rival = found[GLOBAL]
        low, high, p = rival["mixed_difference_low"], rival["mixed_difference_high"], rival["mixed_p"]
        verdict = "a tie" if low <= 0 <= high else "above" if low > 0 else "below"
        text += (
            f" On {rival['count']} mixed documents, local weights of two language models against one weight by "
            f"evidence: {verdict} ({rival['mixed_difference']:+.3f} [{low:+.3f}, {high:+.3f}], p = {p:.4f})."
        )
    return text


STUDY = TextStudy(
    presets=PRESETS,
    unit="documents",
    tables=TABLES,
    labels=LABELS,
    run=run,
    conclude=conclude,
    domain="readme",
    lacks=lacks,
)
