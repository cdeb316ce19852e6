"""When local weights pay: their gain over one weight, foretold from the damaged text, against the gain measured.

The paper observes that the gain follows how distinct the experts are, and gives no rule. Here visible tokens that are
hidden in turn are predicted by local weights and by one weight, neither of which has seen them: the difference
foretells what the lost tokens will show. A setting is a kind of text, a team, a rate of loss and a length of windows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from conservator.channels import MaskChannel, Observation
from conservator.errors import ConservatorError
from conservator.evaluation.figures import BLUE, GREY, ORANGE, new_figure
from conservator.experts import Predictions, Team
from conservator.field import Inferred, global_prior, simplex_grid
from conservator.reference import GridFields, finest_resolution, held_out_gain, infer_grid, read_folds
from conservator.training import hold_out
from conservator.vocabularies import BYTES
from conservator_studies.baselines import Composed, Setting
from conservator_studies.byte import Trial
from conservator_studies.corpora import find_file, read_domain
from conservator_studies.metrics import per_group
from conservator_studies.mixtures import Mixtures, mix
from conservator_studies.resources import Resources
from conservator_studies.restoration import Restored, describe, difference
from conservator_studies.result import Column, Findings, Metrics, Row, TableSpec
from conservator_studies.scales import fit_scales, scaled
from conservator_studies.study import TextStudy, Track

Array = NDArray[np.float64]
HOMES = {"prose": "prose", "code": "code", "config": "config", "markdown": "readme", "math": "arxiv"}  # of experts
AS_THEY_STAND = ("readme", "arxiv", "commented")  # texts with their comments; commented is code with them
LEAST = 64  # bytes of a segment of a mixture
NOTHING = 0.0005  # gains below this are none: half a byte of a thousand
PAYS = 0.01  # gains from this on are worth having: a byte of a hundred
RULES = {
    "evidence": "Evidence of regions against one weight",
    "nats": "Held-out log-likelihood",
    "right": "Held-out accuracy",
    "regression": "Regression on all three and the rate of switches",
}
FEATURES = ("evidence", "nats", "right", "switches")


@dataclass(frozen=True)
class Case:
    """A setting.

    Attributes:
        texts: one kind of documents, as they are; or several, of which windows are mixed.
        team: the roles of the experts.
        rate: the share of bytes that is lost.
        length: bytes of a window.
        scaled: whether the scales of the experts are calibrated, too.
    """

    texts: tuple[str, ...]
    team: tuple[str, ...]
    rate: float = 0.2
    length: int = 256
    scaled: bool = False

    @property
    def name(self) -> str:
        """Everything about it in a few words."""
        return f"{' + '.join(self.texts)}; {', '.join(self.team)}; {self.rate:g}; {self.length}"


def at_home(*team: str) -> tuple[str, ...]:
    """The kinds of text that these experts were trained on."""
    return tuple(HOMES[role] for role in team)


PAIRS, TRIPLES = list(combinations(HOMES, 2)), list(combinations(HOMES, 3))
RATES, LENGTHS = (0.1, 0.2, 0.3, 0.5), (256, 512, 1024)
EVERYONE = tuple(HOMES)
COPIES = ("generalist", "generalist_3x")
CASES = (
    *(
        Case(at_home(*team), team, RATES[number % 4], LENGTHS[number % 3], scaled=number % 4 == 0)
        for number, team in enumerate(PAIRS)
    ),
    *(
        Case(at_home(*team), team, RATES[(number + 1) % 4], LENGTHS[number % 2], scaled=number % 5 == 0)
        for number, team in enumerate(TRIPLES)
    ),
    *(Case(("prose", "code"), ("prose", "code"), rate, 256, scaled=rate == 0.5) for rate in (0.2, 0.3, 0.5)),
    Case(("prose", "code"), ("markdown", "code"), 0.2, 512),
    Case(("prose", "code"), ("markdown", "math"), 0.3, 256, scaled=True),
    Case(("config", "code"), ("prose", "markdown"), 0.2, 256, scaled=True),
    Case(("readme",), ("prose", "code"), 0.2, 512, scaled=True),
    Case(("readme",), ("markdown", "code"), 0.1, 1024),
    Case(("readme",), ("markdown", "config"), 0.3, 512),
    Case(("readme",), ("markdown", "prose", "code"), 0.5, 512),
    Case(("readme",), EVERYONE, 0.2, 512),
    Case(("arxiv",), ("prose", "math"), 0.2, 512, scaled=True),
    Case(("arxiv",), ("prose", "math"), 0.5, 512),
    Case(("arxiv",), ("markdown", "math"), 0.3, 256),
    Case(("arxiv",), ("prose", "code", "math"), 0.2, 512),
    Case(("commented",), ("prose", "code"), 0.2, 512, scaled=True),
    Case(("commented",), ("prose", "code", "config"), 0.1, 512),
    Case(("commented",), ("markdown", "code"), 0.3, 256),
    Case(("config",), ("config", "code"), 0.2, 512),
    Case(("config",), ("config", "markdown"), 0.3, 256),
    Case(("prose",), ("prose", "code"), 0.2, 512),
    Case(("prose",), ("prose", "markdown"), 0.3, 256, scaled=True),
    Case(("prose",), ("prose", "math"), 0.5, 256),
    Case(("prose", "code"), COPIES, 0.2, 256),
    Case(("code", "config"), COPIES, 0.3, 256),
    Case(("prose",), COPIES, 0.1, 512),
    Case(("readme",), COPIES, 0.2, 512),
    Case(("prose", "code"), ("prose", "prose"), 0.2, 256),
)
# To fit coefficients on: their documents are of the split ``train``, and were held out when experts were trained.
FITTED = (
    Case(("prose", "code"), ("prose", "code"), 0.3, 512),
    Case(("prose", "config"), ("prose", "config"), 0.1, 256),
    Case(("prose", "readme"), ("prose", "markdown"), 0.2, 512),
    Case(("prose", "arxiv"), ("prose", "math"), 0.2, 256),
    Case(("code", "config", "readme"), ("code", "config", "markdown"), 0.2, 256),
    Case(("readme",), ("prose", "code"), 0.3, 512),
    Case(("readme",), ("markdown", "code"), 0.2, 512),
    Case(("arxiv",), ("prose", "math"), 0.3, 512),
    Case(("commented",), ("prose", "code"), 0.1, 512),
    Case(("prose",), ("prose", "markdown"), 0.2, 512),
)


@dataclass(frozen=True)
class Config:
    """The sizes of the study.

    Attributes:
        windows: of 256 bytes; of longer ones, fewer.
        cases: the settings that are reported.
        fitted: the settings that coefficients are fitted on.
    """

    windows: int = 40
    cases: tuple[Case, ...] = CASES
    fitted: tuple[Case, ...] = FITTED


PRESETS = {"laptop": Config(), "paper": Config(windows=256)}
TABLES = [
    TableSpec(
        "How well each rule foretells the gain of local weights, on settings that it was not fitted to",
        [
            Column("spearman", "rank correlation", 3),
            Column("sign", "sign right, all settings", 3),
            Column("sign_significant", "sign right, significant gains", 3),
            Column("pays", "told whether a byte of 100 is gained", 3),
            Column("error", "mean error", 4),
            Column("covered", "within both intervals", 3),
            Column("settings", "settings", 0),
            Column("significant", "significant", 0),
        ],
    ),
    TableSpec(
        "The gain of local weights over one weight: on lost bytes, and foretold on visible ones",
        [
            Column("difference", "measured [95 %]", 3),
            Column("right", "foretold [95 %]", 3),
            Column("nats", "foretold, nats [95 %]", 3),
            Column("evidence", "evidence, nats a byte", 3),
            Column("documents", "documents", 0),
            Column("accuracy", "accuracy", 3),
        ],
    ),
    TableSpec(
        "Scales of the experts by evidence: what they change in the restoration by local weights",
        [
            Column("scaled_difference", "accuracy [95 %]", 4),
            Column("scaled_p", "p", 3),
            Column("scaled_nats", "log-likelihood, nats", 4),
            Column("calibration_error", "calibration error", 3),
            Column("scaled_calibration_error", "with scales", 3),
            Column("scale_least", "least scale", 2),
            Column("scale_most", "largest", 2),
        ],
    ),
]


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Foretell and measure the gain in every setting."""
    library = {split: read_texts(resources.corpora, split) for split in ("train", "eval")}

    def measured(cases: Sequence[Case], split: str, title: str) -> list[Row]:
        texts, kept = library[split], [case for case in cases if set(case.texts) <= set(library[split])]
        trials = ((case, prepare(case, config, seed, texts, resources)) for case in track(kept, title))
        return [measure(case.name, trial, scales=case.scaled) for case, trial in trials]

    fitted = measured(config.fitted, "train", "rule, settings to fit on")
    rows = measured(config.cases, "eval", "rule")
    if len(fitted) < len(FEATURES) + 1 or len(rows) < 2:
        raise ConservatorError(
            "these corpora have too few kinds of text; there should be prose, code, config, readme and arxiv"
        )
    to_fit = [row | {"method": f"{row['method']} (to fit on)"} for row in fitted]
    return Findings([*compare_rules(rows, fitted), *rows, *to_fit], {"rule": draw(rows)})


def read_texts(corpora: Path, split: str) -> dict[str, list[bytes]]:
    """The documents of each kind that there is; of the split ``train``, those that trainings hold out."""
    found = {}
    for kind in ("prose", "code", "config", *AS_THEY_STAND):
        name = "code" if kind == "commented" else kind
        if find_file(corpora, name, split) is not None:
            corpus = read_domain(corpora, name, split, comments=kind in AS_THEY_STAND)
            found[kind] = list(hold_out(corpus, 0)[1] if split == "train" else corpus.documents)
    return found


def prepare(case: Case, config: Config, seed: int, texts: dict[str, list[bytes]], resources: Resources) -> Trial:
    """The damaged windows of a setting."""
    count = max(4, config.windows * min(LENGTHS) // case.length)
    if len(case.texts) == 1:
        mixed = excerpts(texts[case.texts[0]], count, case.length, seed)
    else:
        mixed = mix({kind: texts[kind] for kind in case.texts}, count, length=case.length, min_segment=LEAST, seed=seed)
    observation = MaskChannel(BYTES.size, case.rate).corrupt(mixed.tokens, torch.Generator().manual_seed(seed))
    return Trial(mixed, Setting(Team(resources.choose(case.team)), observation, mixed.labels, seed + 1))


def excerpts(documents: Sequence[bytes], count: int, length: int, seed: int) -> Mixtures:
    """Windows of documents as they are, drawn at random."""
    fitting = [document for document in documents if len(document) >= length]
    if not fitting:
        raise ConservatorError(f"no document has {length} bytes")
    generator = torch.Generator().manual_seed(seed)
    tokens, numbers = torch.zeros(2, count, length, dtype=torch.long)
    for row in range(count):
        number = int(torch.randint(len(fitting), (1,), generator=generator))
        start = int(torch.randint(len(fitting[number]) - length + 1, (1,), generator=generator))
        tokens[row] = torch.tensor(list(fitting[number][start : start + length]))
        numbers[row] = number
    return Mixtures(tokens, torch.zeros_like(tokens), numbers, ("text",))


def measure(name: str, trial: Trial, *, scales: bool = False) -> Row:
    """The row of a setting: what was foretold, and what the restoration showed.

    Both local weights and one weight are inferred from the same predictions of visible tokens, each hidden once.

    Args:
        name: of the setting.
        trial: the damaged windows and the team.
        scales: whether to measure, too, what scales of the experts change.
    """
    setting = trial.setting
    experts, observation = len(setting.team), setting.observation
    read = read_folds(setting.team, observation, setting.generator())
    every = [part for together in read for part in together]
    fields = infer_grid(every, observation, simplex_grid(experts))
    shared = infer_grid(every, observation, simplex_grid(experts, finest_resolution(experts)), global_prior)
    local, other = (restore(trial, setting.team, one) for one in (fields, shared))
    paired = difference(local, other)
    row: Row = {
        "method": name,
        "windows": len(trial.mixed.tokens),
        "documents": paired.count,
        "accuracy": float(per_group(local.right, local.documents).mean()),
        **paired.as_row(),
        **foretell(read, trial),
        **of_fields(fields, shared, observation),
        "paper": {},
    }
    if scales:
        row |= of_scales(every, trial, local)
    return row


def restore(trial: Trial, team: Team, fields: GridFields) -> Restored:
    """Decode by inferred fields, in one step."""
    return trial.restore(Composed(Inferred.given(fields.composition()), team))


def foretell(read: Sequence[Sequence[Predictions]], trial: Trial) -> Metrics:
    """The gain on visible bytes that were hidden, in nats and in right bytes: means over documents, with intervals."""
    held = held_out_gain(read, trial.setting.observation)
    documents = trial.mixed.documents[held.sequence, held.position]
    row: Metrics = {}
    for name, values in (("nats", held.nats), ("right", held.right)):
        each = per_group(values, documents)
        half = 1.96 * float(each.std()) / len(each) ** 0.5 if len(each) > 1 else 0.0
        mean = float(each.mean())
        row |= {name: mean, f"{name}_low": mean - half, f"{name}_high": mean + half}
    return row


def of_fields(local: GridFields, shared: GridFields, observation: Observation) -> Metrics:
    """The evidence of local weights against one weight, a visible byte, and how often regions change, a byte."""
    evidence = [sum(one.log_evidence for one in fields.posteriors) for fields in (local, shared)]
    regions = np.stack([one.regions for one in local.posteriors]).argmax(axis=-1)
    return {
        "evidence": (evidence[0] - evidence[1]) / int((~observation.lost).sum()),
        "switches": float((regions[:, 1:] != regions[:, :-1]).mean()),
    }


def of_scales(read: Sequence[Predictions], trial: Trial, plain: Restored) -> Metrics:
    """What scales of the experts, chosen by the evidence of all windows, change."""
    team, observation = trial.setting.team, trial.setting.observation
    scales = fit_scales(read, observation)
    fields = infer_grid(scaled(read, scales.values), observation, simplex_grid(len(team)))
    found = restore(trial, scales.apply(team), fields)
    rows = [describe("", one, trial.mixed.labels) for one in (found, plain)]
    return {
        **difference(found, plain).as_row("scaled_"),
        "scaled_nats": rows[0]["log_likelihood"] - rows[1]["log_likelihood"],
        "calibration_error": rows[1]["calibration_error"],
        "scaled_calibration_error": rows[0]["calibration_error"],
        "scale_least": float(scales.values.min()),
        "scale_most": float(scales.values.max()),
    }


def compare_rules(rows: list[Row], fitted: list[Row]) -> list[Row]:
    """A row for each rule; the rules are fitted to some settings, and judged by others."""
    gains, known = column(rows, "difference"), column(fitted, "difference")
    significant = np.array([row["difference_low"] > 0 or row["difference_high"] < 0 for row in rows])
    found: list[Row] = []
    for rule in RULES:
        features = FEATURES if rule == "regression" else (rule,)
        table, seen = (np.stack([column(some, name) for name in features], axis=1) for some in (rows, fitted))
        # The held-out accuracy estimates the gain itself, so there is nothing to fit.
        foretold = table[:, 0] if rule == "right" else table @ least_squares(seen, known)
        agree = sign(foretold) == sign(gains)
        row: Row = {
            "method": RULES[rule],
            "settings": len(rows),
            "significant": int(significant.sum()),
            "spearman": rank_correlation(foretold, gains),
            "sign": float(agree.mean()),
            "pays": float(((foretold >= PAYS) == (gains >= PAYS)).mean()),
            "error": float(np.abs(foretold - gains).mean()),
            "paper": {},
        }
        if rule == "right":
            spread = [column(rows, f"{name}_high") - column(rows, f"{name}_low") for name in ("right", "difference")]
            row["covered"] = float((np.abs(foretold - gains) <= np.hypot(*spread) / 2).mean())
        if significant.any():
            row["sign_significant"] = float(agree[significant].mean())
        found.append(row)
    return found


def column(rows: Sequence[Row], name: str) -> Array:
    """A metric of all rows."""
    return np.array([row[name] for row in rows], dtype=np.float64)


def least_squares(features: Array, values: Array) -> Array:
    """The coefficients by which features (n, k) foretell values (n,); where all features are 0, so is the value.

    A little shrinkage keeps features that say the same from cancelling each other.
    """
    size = np.sqrt((features**2).mean(axis=0)).clip(1e-12)
    scaled = features / size
    gram = scaled.T @ scaled + 0.01 * len(values) * np.eye(len(size))
    coefficients: Array = np.linalg.solve(gram, scaled.T @ values) / size
    return coefficients


def sign(gains: Array) -> Array:
    """-1, 0 or 1; gains of less than half a byte of a thousand are 0."""
    return np.sign(gains) * (np.abs(gains) >= NOTHING)


def rank_correlation(one: Array, other: Array) -> float:
    """Spearman's: the correlation of the ranks, of which equal values share the mean; 0 where all values are equal."""
    ranks = [np.array([(values < x).sum() + (values <= x).sum() for x in values]) for values in (one, other)]
    if any(np.ptp(rank) == 0 for rank in ranks):
        return 0.0
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def draw(rows: list[Row]) -> Figure:
    """The gain on lost bytes against what visible bytes foretold, with 95 % intervals."""
    figure = new_figure(6.0, 5.2)
    axes = figure.subplots()
    for colour, label, mixed in ((BLUE, "mixtures", True), (ORANGE, "documents as they are", False)):
        some = [row for row in rows if (" + " in row["method"]) == mixed]
        ends = [
            np.abs([[row[name] - row[f"{name}_{end}"] for row in some] for end in ("low", "high")])
            for name in ("right", "difference")
        ]
        points = (column(some, "right"), column(some, "difference"))
        axes.errorbar(*points, xerr=ends[0], yerr=ends[1], fmt="o", color=colour, ms=4, lw=0.7, alpha=0.8, label=label)
    ends_of_line = np.array(axes.get_xlim())
    axes.plot(ends_of_line, ends_of_line, color=GREY, linewidth=1, linestyle="--", zorder=0)
    axes.axhline(0, color="0.85", linewidth=1, zorder=0)
    axes.axvline(0, color="0.85", linewidth=1, zorder=0)
    axes.set(xlabel="foretold on visible bytes that were hidden", ylabel="measured on lost bytes", xlim=ends_of_line)
    axes.set_title("accuracy of local weights minus that of one weight", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    return figure


def conclude(rows: list[Row]) -> str:
    """Whether there is a rule, and what scales bring."""
    found = {row["method"]: row for row in rows}
    best = found[RULES["right"]]
    text = (
        "**Can the gain be foretold?** The paper observes that local weights gain more where experts are more "
        "distinct. Visible bytes that were hidden, predicted by weights that have not seen them, foretell the gain "
        f"without any fit: rank correlation {best['spearman']:.2f} over {best['settings']} settings, the sign right in "
        f"{best['sign']:.0%} of all"
    )
    if "sign_significant" in best:
        text += f" and {best['sign_significant']:.0%} of the {best['significant']} whose gain is significant"
    text += (
        f"; whether a byte of a hundred is gained, in {best['pays']:.0%}. The mean error is {best['error']:.4f}. No "
        "sign is to be had of gains that are none: a wrong one always belonged to an interval that contains 0."
        if best.get("sign_significant", 1.0) == 1
        else f"; the mean error is {best['error']:.4f}."
    )
    scaled = [row for row in rows if "scaled_difference" in row]
    if scaled:
        better = [row for row in scaled if row["scaled_difference_low"] > 0]
        worse = [row for row in scaled if row["scaled_difference_high"] < 0]
        nats, errors = (
            np.mean([row["scaled_nats"] for row in scaled]),
            np.mean([row["scaled_calibration_error"] - row["calibration_error"] for row in scaled]),
        )
        text += (
            "\n\n**Do scales of the experts help?** One number an expert, by the evidence of all windows of a setting, "
            f"restores significantly more in {len(better)} of {len(scaled)} settings and less in {len(worse)}; on "
            f"average the log-likelihood of a lost byte changes by {nats:+.4f} nats, the calibration error by "
            f"{errors:+.4f}."
        )
    return text


STUDY = TextStudy(
    presets=PRESETS, unit="windows", tables=TABLES, labels={}, run=run, conclude=conclude, domain="readme"
)
