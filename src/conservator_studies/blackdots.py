"""Real damage: illegible letters of early English plays, which editors supplied later.

Plays are split by name: an expert and a word model are trained on the training plays, the scales of the experts are
fitted to the tuning plays, and the test plays are restored. Words are restored within their play, so that the memory
can use the rest of the play. A dot is a lost byte. Words that the editors left unfilled are excluded.
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
from conservator.pipelines.references import ReferenceTexts
from conservator.pipelines.rescoring import Rescorer
from conservator.training import PRESETS as TRAINING
from conservator.training import TrainingConfig
from conservator.vocabularies import BYTES
from conservator_studies.corpora import read_domain
from conservator_studies.language_models import lacks
from conservator_studies.play_words import (
    GROUPS,
    FilledWords,
    MarkedPlay,
    Method,
    by_frequency,
    by_letter,
    by_restorer,
    draw_words,
    fill_or_load,
    lone_difference,
    summarise_words,
)
from conservator_studies.plays import DOMAIN, DOT, SPLIT, Play, clean_text, load_or_train_expert, read_plays
from conservator_studies.resources import Resources
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.study import Study, Track

OURS, BEST = "composed", "everything"
# exponent: candidate scales of an expert [LOG: illegible-letters-in-early-plays]
SCALES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2)
SWEEPS = 3  # sweeps: of the coordinate search for the scales [untuned]
PRIOR_COUNT = 20.0  # occurrences: pseudo-count of the overall loss rate [untuned]
BALANCE = 1.0  # exponent: weight of the team relative to the language model; tuned on the tuning plays
RESCORE_BELOW = 0.9  # probability: the language model rescores dots below this confidence; tuned on the tuning plays
MIN_GROUP_DOTS = 10  # dots: tables omit the accuracy of smaller groups [untuned]
MAX_WRONG_WORDS = 50  # words: wrong words in the record [untuned]
# A channel that states the loss rates, so that they are not inferred.
EVEN_LOSS = TokenDependentMaskChannel(torch.full((BYTES.size,), 0.5))
RELIABILITY_EDGES = np.linspace(0, 1, 11)  # probability: bins of the reliability curve [untuned]


@dataclass(frozen=True)
class Config:
    """Configuration of the study.

    Attributes:
        lacunae: number of damaged words of the test plays, drawn evenly from the plays.
        some: number of words for the method that infers weights from each play.
        written: number of words for the slow methods.
        few: number of words for the language model without an expert for plays.
        tuned: number of words of the tuning plays for fitting the scales.
        training: training configuration of the expert for plays, which starts from the built-in expert for prose.
        steps_per_lacuna: training steps per word, so that a quick trial with few words also trains quickly.
        model: language model.
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
        """Training steps of the expert for plays."""
        return max(1, round(self.steps_per_lacuna * self.lacunae))


PRESETS = {"laptop": Config(), "paper": Config(some=4000, written=4000, few=4000, tuned=2000, steps_per_lacuna=1.5)}
TABLES = [
    TableSpec(
        "Accuracy on black dots, by number of dots per word",
        [
            Column("lacunae", "words", 0),
            Column("lone", "one dot [95 %]", 3),
            Column("two", "two dots", 3),
            Column("more", "three or more dots", 3),
            Column("all", "all dots [95 %]", 3),
            Column("others", "one dot, without the play with most dots", 3),
            Column("alike", "one dot, mean over plays", 3),
            Column("words", "word accuracy", 3),
            Column("difference", "all composed minus method, one dot [95 %]", 3),
        ],
    ),
    TableSpec(
        "Calibration and cost",
        [
            Column("calibration_error_lone", "calibration error, one dot", 3),
            Column("calibration_error", "calibration error, all dots", 3),
            Column("plays", "plays", 0),
            Column("seconds", "CPU seconds per word", 2),
        ],
    ),
    TableSpec("Scales of the experts, fitted to the tuning plays", [Column("scale", "scale", 1)]),
]
LABELS = {
    "letter": "Most frequent letter",
    "modern": "Most frequent matching modern word",
    "period": "Most frequent matching word of other plays",
    "networks": "Built-in experts",
    "memory": "Built-in experts and memory of the play",
    "like": "Built-in experts and memory of the play and other plays",
    "expert": "Built-in experts, memory of all plays, expert for plays",
    "language": "Built-in experts, memory of the play, language model",
    "words_expert": "Word expert only",
    "evidence": "Word expert and memory, weights by evidence",
    "even": "All composed, uniform loss rates",
    OURS: "All composed: expert for plays, word expert, memory, loss rates by letter",
    BEST: "All composed, and language model",
    "scale:plays": "Expert for plays",
    "scale:words": "Word expert",
    "scale:memory": "Memory of the play and other plays",
}
SLOW_METHODS = ("networks", "memory", "like", "expert", BEST)


@dataclass(frozen=True)
class FixedScales:
    """An engine with fixed scales of the experts, the same at all positions."""

    scales: tuple[float, ...]

    def __call__(self, team: Team, observation: Observation, generator: torch.Generator) -> Inferred:
        """Return the composition with these scales; the generator is not used."""
        weights = torch.tensor(self.scales, dtype=torch.float64)
        return Inferred.given(weights.expand(*observation.tokens.shape, -1))


@dataclass(frozen=True)
class UngatedMemory:
    """A memory expert without the memory gate: its weight does not depend on its confidence."""

    memory: Memory

    @property
    def spec(self) -> ExpertSpec:
        """Specification of the memory, as a non-retrieval expert."""
        return replace(self.memory.spec, gate_prior=None)

    def condition(self, document: Observation) -> Expert:
        """Condition the memory on a document."""
        return replace(self.memory.condition(document), spec=self.spec)


@dataclass(frozen=True)
class TrainingStatistics:
    """Models and statistics of the training plays.

    Attributes:
        words: word model.
        references: index of the texts, for the memory.
        rates: (V,) loss rate of each byte.
        letter: most frequently lost letter, and its fraction of all lost letters.
    """

    words: WordModel
    references: References
    rates: Tensor
    letter: tuple[str, float]

    def team(self, expert: Expert) -> list[Expert | DocumentExpert]:
        """Make the team: the expert for plays, the word expert and the memory."""
        return [expert, self.words, UngatedMemory(Memory(self.references))]


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Train on the training plays, fit scales to the tuning plays, and restore the test plays with every method."""
    plays = read_plays(resources.corpora)
    model = load_language_model(config.model, "float32")
    statistics = count_training_plays(plays["train"], track)
    results: dict[str, FilledWords] = {}
    cache = resources.folder / "blackdots" / key_of(config, seed, resources)

    def restore_with(methods: Mapping[str, Method]) -> None:
        for name, method in methods.items():
            counts = dict.fromkeys(SLOW_METHODS, config.written) | {"evidence": config.some, "language": config.few}
            count = min(config.lacunae, counts.get(name, config.lacunae))
            words = draw_words(plays["test"], count, np.random.default_rng(seed))
            results[name] = fill_or_load(method, track(words, f"black dots, {name}"), cache / f"{name}.json")

    restore_with(untrained_methods(statistics, resources))
    expert = train_expert(plays["train"], config, seed, resources)
    team = statistics.team(expert)
    tuning = draw_words(plays["tune"], config.tuned, np.random.default_rng(seed))
    scales = fit_scales(*predict_lone_dots(team, tuning, track), statistics.rates)
    restore_with(trained_methods(statistics, expert, scales, resources, model))
    names = [member.spec.name for member in team]
    return Findings([*tabulate(results), *scale_rows(names, scales)], {"blackdots": draw(results)})


def key_of(config: Config, seed: int, resources: Resources) -> str:
    """Make a cache key from all inputs of the results, so that an interrupted run continues with its results."""
    inputs = [asdict(config), seed, resources.fingerprint, resources.fingerprints, commit()]
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]


def count_training_plays(plays: Sequence[Play], track: Track) -> TrainingStatistics:
    """Count words and lost letters, and index the texts."""
    references = ReferenceTexts(tuple((play.name, play.clean) for play in plays), DOT).index
    if references is None:
        raise ConservatorError("the training plays are empty")
    counts = count_word_ngrams(clean_text(play).encode() for play in track(plays, "black dots, counting words"))
    words = WordModel(counts, lists=False, spec=replace(WordModel.spec, gate_prior=None))
    lost: Counter[str] = Counter()
    for play in plays:
        lost.update(lost_letters(play))
    letter, count = lost.most_common(1)[0] if lost else ("e", 0)
    return TrainingStatistics(words, references, loss_rates(plays), (letter, count / max(1, lost.total())))


def train_expert(plays: Sequence[Play], config: Config, seed: int, resources: Resources) -> ByteExpert:
    """Train the expert for plays, starting from the expert for prose."""
    start = resources.choose(["prose"])[0]
    if not isinstance(start, ByteExpert):
        raise ConservatorError(f"the expert for plays needs a byte expert as its starting point, got {start.spec.name}")
    training = replace(config.training, network=start.network.config, steps=config.steps)
    return load_or_train_expert(plays, start, training, seed, resources.folder / "experts")


def loss_rates(plays: Sequence[Play]) -> Tensor:
    """Estimate the loss rate of each byte (V,); the prior mean is a tenth of the overall rate."""
    visible, lost = np.zeros(BYTES.size), np.zeros(BYTES.size)
    for play in plays:
        visible += np.bincount(np.frombuffer(clean_text(play).encode(), np.uint8), minlength=BYTES.size)
        for letter, count in lost_letters(play).items():
            if letter.isascii():
                lost[ord(letter)] += count
    overall = max(lost.sum(), 1) / max(visible.sum(), 1)
    return torch.from_numpy((lost + PRIOR_COUNT * overall / 10) / (visible + lost + PRIOR_COUNT))


def lost_letters(play: Play) -> Counter[str]:
    """Count the letters that the editors supplied."""
    return Counter(letter for dot, letter in zip(play.damaged, play.clean, strict=True) if dot == DOT and letter != DOT)


def predict_lone_dots(
    experts: Sequence[Expert | DocumentExpert], plays: Sequence[MarkedPlay], track: Track
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Predict lone dots with each expert: log-probabilities (m, n, V), and the true bytes (n,)."""
    rows, truth = [], []
    for marked in track(plays, "black dots, fitting scales"):
        tokens = torch.from_numpy(read_damaged(marked.text.encode(), mark=DOT).tokens.astype(np.int64))
        document = MaskChannel(BYTES.size, 0.5).observe(tokens[None])
        team = Team(
            [expert.condition(document) if isinstance(expert, DocumentExpert) else expert for expert in experts]
        )
        for (start, stop), dots in zip(marked.words, marked.dots, strict=True):
            letter = marked.play.clean[start:stop][marked.play.damaged[start:stop].index(DOT)]
            if len(dots) > 1 or not letter.isascii():
                continue
            begin = max(0, dots[0] - team.context // 2)
            window = tokens[begin : begin + team.context][None]
            hidden = window == BYTES.mask
            context = Context(window.masked_fill(hidden, 0), hidden, start=torch.tensor([begin]))
            at = torch.tensor([0]), torch.tensor([dots[0] - begin])
            rows.append(team.predict(context, at)[:, 0].double().numpy())
            truth.append(ord(letter))
    log_probs = np.stack(rows, axis=1) if rows else np.zeros((len(experts), 0, BYTES.size))
    return log_probs, np.array(truth, dtype=np.int64)


def fit_scales(log_probs: NDArray[np.float64], truth: NDArray[np.int64], rates: Tensor) -> tuple[float, ...]:
    """Fit the scales of m experts by coordinate-wise maximum likelihood of the lost bytes.

    Args:
        log_probs: (m, n, V) predictions of each expert.
        truth: (n,) lost bytes.
        rates: (V,) loss rate of each byte.
    """
    scales = np.full(len(log_probs), 1 / len(log_probs))
    for _ in range(SWEEPS):
        for number in range(len(log_probs)):
            likelihoods = []
            for scale in SCALES:
                scales[number] = scale
                likelihoods.append(log_likelihood(scales, log_probs, truth, rates))
            scales[number] = SCALES[int(np.argmax(likelihoods))]
    return tuple(map(float, scales))


def log_likelihood(
    scales: NDArray[np.float64], log_probs: NDArray[np.float64], truth: NDArray[np.int64], rates: Tensor
) -> float:
    """Log-likelihood of lost bytes (n,), given that they were lost, under experts with ``scales`` (m,)."""
    pool = np.tensordot(scales, log_probs, axes=1)
    pool = pool - np.logaddexp.reduce(pool, axis=1, keepdims=True) + rates.log().numpy()
    pool = pool - np.logaddexp.reduce(pool, axis=1, keepdims=True)
    return float(pool[np.arange(len(truth)), truth].sum())


def untrained_methods(statistics: TrainingStatistics, resources: Resources) -> dict[str, Method]:
    """Make the methods without an expert for plays and without a language model."""
    builtin = resources.choose(EXPERTS)
    modern = count_word_ngrams(read_domain(resources.corpora, "prose", "train").documents)
    with_memory = Restorer(builtin, select=True)
    word_expert = Restorer([statistics.words], references=statistics.references)
    return {
        "letter": by_letter(*statistics.letter),
        "modern": by_frequency(modern, *statistics.letter),
        "period": by_frequency(statistics.words.counts, *statistics.letter),
        "networks": by_restorer(with_memory, memory=False),
        "memory": by_restorer(with_memory),
        "like": by_restorer(Restorer(builtin, references=statistics.references, select=True)),
        "words_expert": by_restorer(
            Restorer([statistics.words], engine=FixedScales((1.0,))), memory=False, channel=EVEN_LOSS
        ),
        "evidence": by_restorer(word_expert, channel=TokenDependentMaskChannel(statistics.rates)),
    }


def trained_methods(
    statistics: TrainingStatistics,
    expert: ByteExpert,
    scales: tuple[float, ...],
    resources: Resources,
    model: CausalExpert,
) -> dict[str, Method]:
    """Make the methods with an expert for plays or a language model; slow methods come last."""
    builtin, channel = resources.choose(EXPERTS), TokenDependentMaskChannel(statistics.rates)
    rescorer = Rescorer([model], balance=BALANCE, confidence_threshold=RESCORE_BELOW)
    composed = Restorer(statistics.team(expert), RestoreOptions(memory=False), FixedScales(scales), rescorer=rescorer)
    product = Restorer(builtin, select=True, language_models=[model])
    return {
        OURS: by_restorer(composed, channel=channel),
        "even": by_restorer(composed, channel=EVEN_LOSS),
        BEST: by_restorer(composed, channel=channel, effort="best"),
        "expert": by_restorer(Restorer([*builtin, expert], references=statistics.references, select=True)),
        "language": by_restorer(product, effort="best"),
    }


def tabulate(results: Mapping[str, FilledWords]) -> list[Row]:
    """Make one row per method; the rows of the best methods include wrong words."""
    rows: list[Row] = []
    for name in (name for name in LABELS if name in results):
        result = results[name]
        row: Row = {"method": name, "paper": {}} | summarise_words(result)
        for group in ("two", "more"):
            if row[f"{group}_dots"] < MIN_GROUP_DOTS:
                row = {key: value for key, value in row.items() if key not in (group, f"{group}_low", f"{group}_high")}
        if name != OURS:
            row |= lone_difference(results[OURS], result)
        if name in (OURS, BEST):
            wrong = [word for word in result.filled if not all(word.correct)][:MAX_WRONG_WORDS]
            row["wrong"] = [
                {"word": word.word, "truth": word.truth, "found": word.restored, "confidence": min(word.confidence)}
                for word in wrong
            ]
        rows.append(row)
    return rows


def scale_rows(names: Sequence[str], scales: Sequence[float]) -> list[Row]:
    """Make one row per expert with its scale."""
    return [{"method": f"scale:{name}", "scale": scale, "paper": {}} for name, scale in zip(names, scales, strict=True)]


def draw(results: Mapping[str, FilledWords]) -> Figure:
    """Plot the accuracy by number of dots per word, and the reliability of the confidence."""
    figure = new_figure(9, 3.4)
    left, right = figure.subplots(1, 2)
    colours = {"modern": "lightgrey", "period": GREY, "words_expert": "tab:green", OURS: BLUE}
    names = {
        "modern": "most frequent matching modern word",
        "period": "most frequent matching word of other plays",
        "words_expert": "word expert",
        OURS: "all composed",
    }
    groups = list(GROUPS)[:3]
    for number, (name, colour) in enumerate(colours.items()):
        row = summarise_words(results[name])
        accuracies = [(index, row[group]) for index, group in enumerate(groups) if group in row]
        positions = [index + 0.19 * (number - 1.5) for index, _ in accuracies]
        left.bar(positions, [value for _, value in accuracies], width=0.18, color=colour, label=names[name])
    left.set_xticks(range(len(groups)), ["one dot", "two dots", "three or more dots"])
    left.set(ylabel="accuracy", ylim=(0, 1.3), yticks=np.linspace(0, 1, 6))
    left.legend(frameon=False, fontsize=7, loc="upper right")
    pairs = [pair for word in results[OURS].filled for pair in zip(word.confidence, word.correct, strict=True)]
    confidence, correct = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
    bins = np.digitize(confidence, RELIABILITY_EDGES[1:-1])
    points = [(confidence[bins == i].mean(), correct[bins == i].mean(), (bins == i).sum()) for i in set(bins)]
    right.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    sizes = [4 + size / 4 for *_, size in points]
    right.scatter([x for x, *_ in points], [y for _, y, _ in points], s=sizes, color=BLUE)
    right.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1.02), ylim=(0, 1.02), title="All composed")
    return figure


def conclude(rows: list[Row]) -> str:
    """State the main results."""
    by_method = {row["method"]: row for row in rows}
    ours, baseline, builtin, best = (by_method[name] for name in (OURS, "period", "memory", BEST))
    return (
        f"The accuracy on lone dots is {ours['lone']:.3f} [{ours['lone_low']:.3f}, {ours['lone_high']:.3f}], on "
        f"{ours['plays']} plays that were not used for training or tuning. The most frequent matching word of other "
        f"plays has {baseline['lone']:.3f}; built-in experts with a memory of the play have {builtin['lone']:.3f} on "
        f"{builtin['lacunae']} words. Without the play with most dots the accuracy is {ours['others']:.3f}; the mean "
        f"over plays is {ours['alike']:.3f}. The language model changes the accuracy by {-best['difference']:+.3f} on "
        f"{best['lacunae']} of the words. The calibration error on lone dots is {ours['calibration_error_lone']:.3f}."
    )


STUDY = Study(
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
