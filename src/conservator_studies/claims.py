"""The paper's claims about byte experts, judged automatically by our results."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from conservator_studies.byte import NAMES, OURS, OWN
from conservator_studies.result import Row

Results = Mapping[str, list[Row]]  # the rows of each study
PRIVILEGED = ("hard_label", "hard_label_own")  # these use the true regions
ENGINES = (OURS, OWN, "local_map", "local_eg", "local_particles")  # variants of our method and the paper's: not rivals
MEMORY = ("local_bayes_memory", "memory_alone")  # these have an expert that the paper does not have


@dataclass(frozen=True)
class Claim:
    """A statement, whether our results support it, and the figures."""

    text: str
    holds: bool
    figures: str


def judge(results: Results) -> Iterator[Claim]:
    """Judge every claim for which ``results`` has the study."""
    if "byte3" in results:
        yield from of_restoration({row["method"]: row for row in results["byte3"]})
    if "field" in results:
        yield from of_attribution({row["method"]: row for row in results["field"]})


def of_restoration(rows: Mapping[str, Row]) -> Iterator[Claim]:
    """Table "byte3": the ordering, and by how much."""
    accuracy = {name: float(row["accuracy_documents"]) for name, row in rows.items()}

    def listed(*names: str) -> str:
        return ", ".join(f"{NAMES[name]} {accuracy[name]:.3f}" for name in names)

    local, shared, equal = (accuracy[name] for name in (OURS, "global", "equal"))
    yield Claim("local above global above equal weights", local > shared > equal, listed(OURS, "global", "equal"))
    shuffled = ("shuffled_within", "shuffled_across")
    below = all(accuracy[name] < equal for name in shuffled)
    yield Claim("shuffled fields below equal weights", below, listed(*shuffled, "equal"))
    for plain in ("demix", "raw_loss", "hmm"):
        better = accuracy[f"{plain}_heldout"] >= accuracy[plain]
        names = (f"{plain}_heldout", plain)
        yield Claim(f"{NAMES[plain]}: held-out scores are the stronger version", better, listed(*names))
    yield from of_rivals(rows, "", "")
    yield from of_rivals(rows, "own_", "own context: ")


def of_rivals(rows: Mapping[str, Row], prefix: str, version: str) -> Iterator[Claim]:
    """Whether a version of our method is better than all others; the keys of its differences begin with ``prefix``."""
    whole = [name for name, row in rows.items() if row["windows"] == rows[OURS]["windows"]]
    rivals = [name for name in whole if name not in (*PRIVILEGED, *ENGINES, *MEMORY)]

    def figures(name: str) -> str:
        return f"{rows[name][prefix + 'difference']:+.3f}, p = {rows[name][prefix + 'p']:.4f}"

    def above(name: str, p: float) -> bool:
        return bool(rows[name][prefix + "difference"] > 0 and rows[name][prefix + "p"] < p)

    exceptions = [f"{NAMES[name]}: {figures(name)}" for name in rivals if not above(name, 0.001)]
    text = f"{version}above each of {len(rivals)} rivals that see no labels, p < 0.001"
    yield Claim(text, not exceptions, "; ".join(exceptions) or "no exception")
    paper = "" if prefix else " (paper: +0.001, p = 0.50)"
    yield Claim(
        f"{version}above the privileged label router, p < 0.01",
        above("hard_label", 0.01),
        figures("hard_label") + paper,
    )
    if "generalist_3x" in rows:
        above_it = rows["generalist_3x"][prefix + "difference_low"] > 0
        yield Claim(f"{version}above the compute-matched generalist", above_it, figures("generalist_3x"))


def of_attribution(rows: Mapping[str, Row]) -> Iterator[Claim]:
    """Table "fieldmetrics": how well the field recovers the regions."""
    for metric, text, least in (
        ("field_accuracy", "field accuracy", 0.95),
        ("macro_auroc", "macro AUROC", 0.985),
        ("boundary_f1", "boundary F1", 0.75),
    ):
        value, paper = rows[OURS][metric], rows[OURS]["paper"][metric]
        yield Claim(f"{text} of at least {least}", value >= least, f"{value:.3f} (paper: {paper:.3f})")
