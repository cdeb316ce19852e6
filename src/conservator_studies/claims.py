"""The paper's claims about byte experts, checked automatically against our results."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from conservator_studies.byte import NAMES, OURS, OURS_IN_DOMAIN
from conservator_studies.result import Row

Results = Mapping[str, list[Row]]  # study -> its rows
PRIVILEGED = ("hard_label", "hard_label_own")  # methods that use the true regions
ENGINES = (OURS, OURS_IN_DOMAIN, "local_map", "local_eg", "local_particles")  # variants of the method: no baselines
MEMORY = ("local_bayes_memory", "memory_alone")  # methods with an expert that the paper does not have


@dataclass(frozen=True)
class Claim:
    """A statement, whether our results support it, and the numbers."""

    text: str
    holds: bool
    figures: str


def check_claims(results: Results) -> Iterator[Claim]:
    """Check all claims about the studies in ``results``."""
    if "byte3" in results:
        yield from restoration_claims({row["method"]: row for row in results["byte3"]})
    if "field" in results:
        yield from attribution_claims({row["method"]: row for row in results["field"]})


def restoration_claims(rows: Mapping[str, Row]) -> Iterator[Claim]:
    """Check the ordering of the methods in table "byte3"."""
    accuracy = {name: float(row["accuracy_documents"]) for name, row in rows.items()}

    def accuracies(*names: str) -> str:
        return ", ".join(f"{NAMES[name]} {accuracy[name]:.3f}" for name in names)

    local, global_weight, equal = (accuracy[name] for name in (OURS, "global", "equal"))
    yield Claim(
        "local above global above equal weights", local > global_weight > equal, accuracies(OURS, "global", "equal")
    )
    shuffled = ("shuffled_within", "shuffled_across")
    below = all(accuracy[name] < equal for name in shuffled)
    yield Claim("shuffled fields below equal weights", below, accuracies(*shuffled, "equal"))
    for plain in ("demix", "raw_loss", "hmm"):
        better = accuracy[f"{plain}_heldout"] >= accuracy[plain]
        names = (f"{plain}_heldout", plain)
        yield Claim(f"{NAMES[plain]}: held-out scores are the stronger version", better, accuracies(*names))
    yield from baseline_claims(rows, "", "")
    yield from baseline_claims(rows, "own_", "in-domain context: ")


def baseline_claims(rows: Mapping[str, Row], prefix: str, version: str) -> Iterator[Claim]:
    """Check that a version of our method beats all baselines; ``prefix`` starts the keys of its differences."""
    complete = [name for name, row in rows.items() if row["windows"] == rows[OURS]["windows"]]
    baselines = [name for name in complete if name not in (*PRIVILEGED, *ENGINES, *MEMORY)]

    def figures(name: str) -> str:
        return f"{rows[name][prefix + 'difference']:+.3f}, p = {rows[name][prefix + 'p']:.4f}"

    def above(name: str, p: float) -> bool:
        return bool(rows[name][prefix + "difference"] > 0 and rows[name][prefix + "p"] < p)

    exceptions = [f"{NAMES[name]}: {figures(name)}" for name in baselines if not above(name, 0.001)]
    text = f"{version}above each of {len(baselines)} baselines without labels, p < 0.001"
    yield Claim(text, not exceptions, "; ".join(exceptions) or "no exception")
    paper = "" if prefix else " (paper: +0.001, p = 0.50)"
    yield Claim(
        f"{version}above the privileged label router, p < 0.01",
        above("hard_label", 0.01),
        figures("hard_label") + paper,
    )
    if "generalist_3x" in rows:
        holds = rows["generalist_3x"][prefix + "difference_low"] > 0
        yield Claim(f"{version}above the compute-matched generalist", holds, figures("generalist_3x"))


def attribution_claims(rows: Mapping[str, Row]) -> Iterator[Claim]:
    """Check how well the field recovers the regions: table "fieldmetrics"."""
    for metric, text, threshold in (
        ("field_accuracy", "field accuracy", 0.95),
        ("macro_auroc", "macro AUROC", 0.985),
        ("boundary_f1", "boundary F1", 0.75),
    ):
        value, paper = rows[OURS][metric], rows[OURS]["paper"][metric]
        yield Claim(f"{text} of at least {threshold}", value >= threshold, f"{value:.3f} (paper: {paper:.3f})")
