"""Real damage: letters of early English plays that transcribers could not read, and editors supplied later.

Nobody here made this damage. Plays are parted by name: on some an expert is trained and words are counted, some tune
the scales of the experts, and the rest is restored. Damaged words are asked for in their plays, so that the memory has
the rest of the play. A dot is a lost byte. Words that editors left open are not asked for.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from conservator import RestoreOptions, Restorer
from conservator.channels import MaskChannel, Observation, TokenDependentMaskChannel
from conservator.documents import read_damaged
from conservator.errors import ConservatorError
from conservator.evaluation.figures import BLUE, GREY, new_figure
from conservator.evaluation.provenance import commit
from conservator.experts import ByteExpert, Context, DocumentExpert, Expert, ExpertSpec, Memory, References, Team
from conservator.experts.causal import CausalExpert
from conservator.experts.language_models import load_language_model
from conservator.experts.word_ngram import WordModel, count_word_ngrams
from conservator.field import Inferred
from conservator.options import EXPERTS
from conservator.pipelines.references import read_references
from conservator.pipelines.rescoring import Rescorer
from conservator.training import PRESETS as TRAINING
from conservator.training import TrainingConfig
from conservator.vocabularies import BYTES
from conservator_studies.corpora import read_domain
from conservator_studies.lacunae import (
    GROUPS,
    Answers,
    Method,
    Page,
    answer,
    by_frequency,
    by_letter,
    by_restorer,
    draw_pages,
    lone_difference,
    summarise,
)
from conservator_studies.language_models import lacks
from conservator_studies.plays import DOMAIN, DOT, SPLIT, Play, clean_text, read_plays, train_once
from conservator_studies.resources import Resources
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.study import TextStudy, Track

OURS, BEST = "composed", "everything"
SCALES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2)  # to choose from
SWEEPS = 3
FEW = 20.0  # a letter that was seen so often has a rate of its own, as much as the rate of all
BALANCE = 1.0  # the weight of the team beside the language model; chosen on tuning plays
SURE = 0.9  # the confidence from which the language model is not asked; above it, it changed nothing on tuning plays
LEAST = 10  # dots: the share of fewer is not shown
SHOWN = 50  # wrong words that the record keeps
EDGES = np.linspace(0, 1, 11)  # of the reliability curve


@dataclass(frozen=True)
class Config:
    """The sizes of the study.

    Attributes:
        lacunae: damaged words of test plays; of fewer than there are, as many of each play as it has, up to a number.
        some: how many of them a method restores that infers weights from each play.
        written: how many of them the methods restore that take long.
        few: how many of them the language model restores without an expert that knows plays.
        tuned: lone dots of tuning plays that the scales of experts are fitted to.
        training: of the expert for plays; it starts from the built-in expert for prose.
        steps_per_lacuna: of the training, so that a try with few words also trains quickly.
        model: the language model.
    """

    lacunae: int = 4000
    some: int = 500
    written: int = 100
    few: int = 30
    tuned: int = 300
    training: TrainingConfig = field(default_factory=lambda: replace(TRAINING["small"], batch=12))
    steps_per_lacuna: float = 0.175
    model: str = "smollm2"

    @property
    def steps(self) -> int:
        """The steps of the training."""
        return max(1, round(self.steps_per_lacuna * self.lacunae))


PRESETS = {"laptop": Config(), "paper": Config(some=4000, written=4000, few=4000, tuned=2000, steps_per_lacuna=1.5)}
TABLES = [
    TableSpec(
        "Letters under black dots that came back, by the number of dots in a word",
        [
            Column("lacunae", "words", 0),
            Column("lone", "one dot [95 %]", 3),
            Column("two", "two", 3),
            Column("more", "three and more", 3),
            Column("all", "all dots [95 %]", 3),
            Column("others", "one dot, without the play that has most", 3),
            Column("alike", "one dot, each play alike", 3),
            Column("words", "words right", 3),
            Column("difference", "all composed minus it, one dot [95 %]", 3),
        ],
    ),
    TableSpec(
        "Calibration and cost",
        [
            Column("calibration_error_lone", "calibration error, one dot", 3),
            Column("calibration_error", "all dots", 3),
            Column("plays", "plays", 0),
            Column("seconds", "CPU seconds a word", 2),
        ],
    ),
    TableSpec("Scales of the experts, fitted to tuning plays", [Column("scale", "scale", 1)]),
]
LABELS = {
    "letter": "The most frequent letter",
    "modern": "The most frequent modern word that fits",
    "period": "The most frequent word of other plays that fits",
    "networks": "Built-in experts",
    "memory": "... and memory of the play",
    "like": "... and of other plays",
    "expert": "... and an expert trained on other plays",
    "language": "Built-in experts, memory of the play, language model",
    "words_expert": "Word expert alone",
    "evidence": "Word expert and memory, weights by evidence",
    "even": "All composed, all letters lost alike",
    OURS: "All composed: expert, words, memory, which letters are lost",
    BEST: "... and language model",
    "scale:plays": "Expert for plays",
    "scale:words": "Word expert",
    "scale:memory": "Memory of the play and other plays",
}
COSTLY = ("networks", "memory", "like", "expert", BEST)  # methods that take long


@dataclass(frozen=True)
class Scaled:
    """An engine: the same scale for an expert everywhere."""

    scales: tuple[float, ...]

    def __call__(self, team: Team, observation: Observation, generator: torch.Generator) -> Inferred:
        """The composition with these scales; the generator is not used."""
        weights = torch.tensor(self.scales, dtype=torch.float64)
        return Inferred.given(weights.expand(*observation.tokens.shape, -1))


@dataclass(frozen=True)
class Plainly:
    """A memory as an expert like others, whose weight does not depend on how sure it is."""

    memory: Memory

    @property
    def spec(self) -> ExpertSpec:
        """That of the memory, but that it does not recall."""
        return replace(self.memory.spec, is_retrieval=False)

    def condition(self, document: Observation) -> Expert:
        """The memory of a document."""
        return replace(self.memory.condition(document), spec=self.spec)


class Balanced(Restorer):
    """A restorer whose language model is weighted beside a team that knows plays."""

    def rewriter(self, options: RestoreOptions) -> Rescorer | None:
        """The rewriter with this study's balance."""
        found = super().rewriter(options)
        return None if found is None else replace(found, balance=BALANCE, confidence_threshold=SURE)


@dataclass(frozen=True)
class FixedText:
    """What is known of other plays before one is restored.

    Attributes:
        words: of other plays.
        references: other plays.
        rates: (V,) how often each byte is lost.
        letter: the one that is lost most often, and its share in all that are.
    """

    words: WordModel
    references: References
    rates: Tensor
    letter: tuple[str, float]

    def team(self, expert: Expert) -> list[Expert | DocumentExpert]:
        """The experts that are composed: one for plays, words, and memory."""
        return [expert, self.words, Plainly(Memory(self.references))]

    def remember(self, restorer: Restorer) -> Restorer:
        """A restorer that remembers other plays."""
        restorer.reference_index = self.references
        return restorer


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Learn from some plays, fit scales to others, and restore the rest by every method."""
    plays = read_plays(resources.corpora)
    model = load_language_model(config.model, "float32")
    known = learn(plays["train"], track)
    answers: dict[str, Answers] = {}
    home = resources.folder / "blackdots" / key_of(config, seed, resources)

    def ask(methods: Mapping[str, Method]) -> None:
        for name, method in methods.items():
            asked = dict.fromkeys(COSTLY, config.written) | {"evidence": config.some, "language": config.few}
            count = min(config.lacunae, asked.get(name, config.lacunae))
            pages = draw_pages(plays["test"], count, np.random.default_rng(seed))
            answers[name] = answer(method, track(pages, f"black dots, {name}"), home / f"{name}.json")

    ask(untrained_methods(known, resources))
    expert = train_expert(plays["train"], config, seed, resources)
    team = known.team(expert)
    tuning = draw_pages(plays["tune"], config.tuned, np.random.default_rng(seed))
    scales = fit_scales(*laws_at_dots(team, tuning, track), known.rates)
    ask(trained_methods(known, expert, scales, resources, model))
    names = [one.spec.name for one in team]
    return Findings([*tabulate(answers), *scale_rows(names, scales)], {"blackdots": draw(answers)})


def key_of(config: Config, seed: int, resources: Resources) -> str:
    """A name for what answers depend on, so that a run that was interrupted goes on with those that it has."""
    facts = [asdict(config), seed, resources.fingerprint, resources.fingerprints, commit()]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def learn(plays: Sequence[Play], track: Track) -> FixedText:
    """Count words, index texts, and count which letters are lost."""
    references = read_references([(play.name, play.clean) for play in plays], DOT)
    if references is None:
        raise ConservatorError("the plays to learn from are empty")
    words = WordModel(count_word_ngrams(clean_text(play).encode() for play in track(plays, "black dots, counting words")))
    lost: Counter[str] = Counter()
    for play in plays:
        lost.update(lost_letters(play))
    letter, times = lost.most_common(1)[0] if lost else ("e", 0)
    return FixedText(words, references, loss_rates(plays), (letter, times / max(1, lost.total())))


def train_expert(plays: Sequence[Play], config: Config, seed: int, resources: Resources) -> ByteExpert:
    """The expert for plays, which starts from the one for prose."""
    start = resources.choose(["prose"])[0]
    if not isinstance(start, ByteExpert):
        raise ConservatorError(f"the expert for plays starts from a byte expert, and {start.spec.name} is none")
    training = replace(config.training, network=start.network.config, steps=config.steps)
    return train_once(plays, start, training, seed, resources.folder / "experts")


def loss_rates(plays: Sequence[Play]) -> Tensor:
    """(V,) how often each byte is lost in plays; one that is seldom seen as often as a tenth of all."""
    seen, lost = np.zeros(BYTES.size), np.zeros(BYTES.size)
    for play in plays:
        seen += np.bincount(np.frombuffer(clean_text(play).encode(), np.uint8), minlength=BYTES.size)
        for letter, count in lost_letters(play).items():
            if letter.isascii():
                lost[ord(letter)] += count
    overall = max(lost.sum(), 1) / max(seen.sum(), 1)
    return torch.from_numpy((lost + FEW * overall / 10) / (seen + lost + FEW))


def lost_letters(play: Play) -> Counter[str]:
    """The letters that editors supplied."""
    return Counter(letter for dot, letter in zip(play.damaged, play.clean, strict=True) if dot == DOT and letter != DOT)


def laws_at_dots(
    experts: Sequence[Expert | DocumentExpert], pages: Sequence[Page], track: Track
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """What each expert says of lone dots: log-probabilities (m, n, V), and the bytes that are right (n,)."""
    rows, truth = [], []
    for page in track(pages, "black dots, fitting scales"):
        tokens = torch.from_numpy(read_damaged(page.text.encode(), mark=DOT).tokens.astype(np.int64))
        document = MaskChannel(BYTES.size, 0.5).observe(tokens[None])
        team = Team([one.condition(document) if isinstance(one, DocumentExpert) else one for one in experts])
        for (start, stop), dots in zip(page.words, page.dots, strict=True):
            letter = page.play.clean[start:stop][page.play.damaged[start:stop].index(DOT)]
            if len(dots) > 1 or not letter.isascii():
                continue
            begin = max(0, dots[0] - team.context // 2)
            part = tokens[begin : begin + team.context][None]
            hidden = part == BYTES.mask
            context = Context(part.masked_fill(hidden, 0), hidden, start=torch.tensor([begin]))
            at = torch.tensor([0]), torch.tensor([dots[0] - begin])
            rows.append(team.predict(context, at)[:, 0].double().numpy())
            truth.append(ord(letter))
    laws = np.stack(rows, axis=1) if rows else np.zeros((len(experts), 0, BYTES.size))
    return laws, np.array(truth, dtype=np.int64)


def fit_scales(laws: NDArray[np.float64], truth: NDArray[np.int64], rates: Tensor) -> tuple[float, ...]:
    """The scale of each of m experts under which bytes are most likely that were lost: one expert after the other."""
    scales = np.full(len(laws), 1 / len(laws))
    for _ in range(SWEEPS):
        for number in range(len(laws)):
            tried = []
            for scale in SCALES:
                scales[number] = scale
                tried.append(likelihood(scales, laws, truth, rates))
            scales[number] = SCALES[int(np.argmax(tried))]
    return tuple(map(float, scales))


def likelihood(
    scales: NDArray[np.float64], laws: NDArray[np.float64], truth: NDArray[np.int64], rates: Tensor
) -> float:
    """The log-likelihood of lost bytes (n,), given that they were lost, with experts of some scales (m,)."""
    pool = np.tensordot(scales, laws, axes=1)
    pool = pool - np.logaddexp.reduce(pool, axis=1, keepdims=True) + rates.log().numpy()
    pool = pool - np.logaddexp.reduce(pool, axis=1, keepdims=True)
    return float(pool[np.arange(len(truth)), truth].sum())


def untrained_methods(known: FixedText, resources: Resources) -> dict[str, Method]:
    """The methods without an expert for plays and without a language model, by name."""
    builtin = resources.choose(EXPERTS)
    modern = count_word_ngrams(read_domain(resources.corpora, "prose", "train").documents)
    remembering = Restorer(builtin, select=True)
    words = known.remember(Restorer([known.words]))
    return {
        "letter": by_letter(*known.letter),
        "modern": by_frequency(modern, *known.letter),
        "period": by_frequency(known.words.counts, *known.letter),
        "networks": by_restorer(remembering, memory=False),
        "memory": by_restorer(remembering),
        "like": by_restorer(known.remember(Restorer(builtin, select=True))),
        "words_expert": by_restorer(Restorer([known.words], engine=Scaled((1.0,))), memory=False),
        "evidence": by_restorer(words, channel=TokenDependentMaskChannel(known.rates)),
    }


def trained_methods(
    known: FixedText, expert: ByteExpert, scales: tuple[float, ...], resources: Resources, model: CausalExpert
) -> dict[str, Method]:
    """The methods with an expert for plays or a language model, by name; those that take long come last."""
    builtin, channel = resources.choose(EXPERTS), TokenDependentMaskChannel(known.rates)
    composed = Balanced(known.team(expert), RestoreOptions(memory=False), Scaled(scales), language_models=[model])
    product = Restorer(builtin, select=True, language_models=[model])
    return {
        OURS: by_restorer(composed, channel=channel),
        "even": by_restorer(composed),
        BEST: by_restorer(composed, channel=channel, effort="best"),
        "expert": by_restorer(known.remember(Restorer([*builtin, expert], select=True))),
        "language": by_restorer(product, effort="best"),
    }


def tabulate(answers: Mapping[str, Answers]) -> list[Row]:
    """A row for each method, and the words that are still wrong."""
    rows: list[Row] = []
    for name in (name for name in LABELS if name in answers):
        found = answers[name]
        row: Row = {"method": name, "paper": {}} | summarise(found)
        for group in ("two", "more"):
            if row[f"{group}_dots"] < LEAST:
                row = {key: value for key, value in row.items() if key not in (group, f"{group}_low", f"{group}_high")}
        if name != OURS:
            row |= lone_difference(answers[OURS], found)
        if name in (OURS, BEST):
            wrong = [one for one in found.filled if not all(one.right)][:SHOWN]
            row["wrong"] = [
                {"word": one.word, "truth": one.truth, "found": one.found, "confidence": min(one.confidence)}
                for one in wrong
            ]
        rows.append(row)
    return rows


def scale_rows(names: Sequence[str], scales: Sequence[float]) -> list[Row]:
    """A row for the scale of each expert."""
    return [{"method": f"scale:{name}", "scale": scale, "paper": {}} for name, scale in zip(names, scales, strict=True)]


def draw(answers: Mapping[str, Answers]) -> Figure:
    """Accuracy by the number of dots in a word, and the reliability of the confidence."""
    figure = new_figure(9, 3.4)
    left, right = figure.subplots(1, 2)
    shown = {"modern": "lightgrey", "period": GREY, "words_expert": "tab:green", OURS: BLUE}
    names = {
        "modern": "most frequent modern word that fits",
        "period": "most frequent word of other plays that fits",
        "words_expert": "word expert",
        OURS: "all composed",
    }
    groups = list(GROUPS)[:3]
    for number, (name, colour) in enumerate(shown.items()):
        row = summarise(answers[name])
        kept = [(place, row[group]) for place, group in enumerate(groups) if group in row]
        places = [place + 0.19 * (number - 1.5) for place, _ in kept]
        left.bar(places, [value for _, value in kept], width=0.18, color=colour, label=names[name])
    left.set_xticks(range(len(groups)), ["one dot", "two", "three and more"])
    left.set(ylabel="letters that came back", ylim=(0, 1.3), yticks=np.linspace(0, 1, 6))
    left.legend(frameon=False, fontsize=7, loc="upper right")
    pairs = [pair for one in answers[OURS].filled for pair in zip(one.confidence, one.right, strict=True)]
    confidence, good = np.array([one for one, _ in pairs]), np.array([one for _, one in pairs])
    place = np.digitize(confidence, EDGES[1:-1])
    points = [(confidence[place == one].mean(), good[place == one].mean(), (place == one).sum()) for one in set(place)]
    right.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    sizes = [4 + size / 4 for *_, size in points]
    right.scatter([x for x, *_ in points], [y for _, y, _ in points], s=sizes, color=BLUE)
    right.set(xlabel="confidence", ylabel="right", xlim=(0, 1.02), ylim=(0, 1.02), title="All composed")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def conclude(rows: list[Row]) -> str:
    """The leading figures in words."""
    by = {row["method"]: row for row in rows}
    ours, baseline, builtin, best = by[OURS], by["period"], by["memory"], by[BEST]
    return (
        f"Of lone dots {ours['lone']:.3f} [{ours['lone_low']:.3f}, {ours['lone_high']:.3f}] came back, on "
        f"{ours['plays']} plays that nothing was trained or tuned on, where the most frequent word of other plays that "
        f"fits gets {baseline['lone']:.3f}, and built-in experts with a memory of the play {builtin['lone']:.3f} of "
        f"{builtin['lacunae']} words. Without the play that has most dots it is {ours['others']:.3f}, each play "
        f"counted alike {ours['alike']:.3f}. The language model adds "
        f"{-best['difference']:+.3f} on {best['lacunae']} of the words. Calibration error of lone dots "
        f"{ours['calibration_error_lone']:.3f}."
    )


STUDY = TextStudy(
    presets=PRESETS,
    unit="lacunae",
    tables=TABLES,
    labels=LABELS,
    run=run,
    conclude=conclude,
    domain=DOMAIN,
    split=SPLIT,
    lacks=lacks,
)
