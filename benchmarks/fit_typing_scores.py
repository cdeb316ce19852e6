"""Fit the weights of the scores of typing errors (``TypingConfig``) to texts of ``train`` with errors.

    python benchmarks/fit_typing_scores.py --corpora PATH [--languages en de ...] [--documents 12]

Texts are damaged by the error model, with joined words, at three rates, and read as the channel reads them. Words of at
most two texts of ``train`` are taken from the word lists, which would not have them without the text itself.
The weights maximise the conditional log-likelihood of the clean word among the observed word and the candidates; an
error whose clean word is no candidate has the observed word as its target. Errors of the texts themselves, which would
count as false corrections, are excluded: words with ``--exclude``, after a look at the most probable corrections. The
constant of joined words is fitted last, with the other weights fixed.
"""

import argparse
import gzip
import json
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from conservator.channels.typing_errors import WORD, load_typing_errors
from conservator.experts.word_ngram import WordFrequencies
from conservator.experts.word_ngram.neighbours import rare_share
from conservator.pipelines.visible_text.typing import TypingModel
from conservator.pipelines.visible_text.typing_scores import CONFIG, Suspect, infer_shares

LANGUAGES = ("en", "de", "fr", "pl", "fi", "es", "ru", "nl", "tr", "sv", "el", "uk", "prose", "readme", "code")
ENGLISH = ("en", "prose", "readme", "code")  # their word list has further sources, so no word is taken from it
RATES = {3000: (0.0, 0.01, 0.05), 300: (0.0, 0.1)}  # characters of a text -> rates of errors
JOINED = 0.06  # share of the errors that join two words
MAX_NEAR = 45  # candidates of a word
NAMES = ("error_weight", "prob_weight", "near_letter_weight", "errors_weight", "two_constant", "space_constant")
NAMES += ("compound_constant", "letter_weight", "unknown_weight", "derived_weight", "constant", "name_constant")
LOGS = ("other_prob", "english_share", "compound_share")  # parameters that are fitted as logarithms
SPACE = NAMES.index("space_constant")


class Held(WordFrequencies):
    """Word frequencies without words that only the text itself has."""

    excluded: frozenset[str] = frozenset()

    def list_frequency(self, word: bytes) -> float:
        """Return f(v) of a word."""
        return 0.0 if word.decode().lower() in Held.excluded else super().list_frequency(word)


@dataclass(frozen=True)
class Example:
    """An unknown word, its correct form, and the shares epsilon and omega of its document."""

    suspect: Suspect
    clean: str
    errors: float
    unknown: float


def damage(text: str, rate: float, generator: np.random.Generator) -> tuple[str, dict[int, str]]:
    """Return a text with errors, and the start of each error -> the clean text."""
    errors, parts, truth, done, size = load_typing_errors(), list[str](), dict[int, str](), 0, 0
    for match in WORD.finditer(text):
        if len(match[0]) < 2 or match.start() < done or generator.random() >= rate:
            continue
        following = WORD.match(text, match.end() + 1) if text[match.end() : match.end() + 1] == " " else None
        clean, observed, stop = match[0], errors.corrupt(match[0], generator), match.end()
        if following is not None and generator.random() < JOINED:
            clean, observed, stop = text[match.start() : following.end()], match[0] + following[0], following.end()
        if clean != observed:
            size += match.start() - done
            truth[size] = clean
            parts += [text[done : match.start()], observed]
            size, done = size + len(observed), stop
    return "".join([*parts, text[done:]]), truth


def collect(path: Path, language: str, documents: int) -> list[Example]:
    """Read the unknown words of damaged texts."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    counts = Counter(word for text in texts for word in {word.lower() for word in WORD.findall(text)})
    random.Random(language).shuffle(texts)
    generator, examples = np.random.default_rng(0), list[Example]()
    for number, text in enumerate(texts[:documents]):
        start = text.rfind("\n", 0, int(generator.integers(max(1, len(text) - 3000)))) + 1
        size = 300 if number % 3 == 2 else 3000
        clean = text[start : start + size]
        words = {word.lower() for word in WORD.findall(text)}
        Held.excluded = frozenset(word for word in words if counts[word] <= 2 and language not in ENGLISH)
        for rate in RATES[size]:
            damaged, truth = damage(clean, rate, generator)
            model = TypingModel(damaged, Held.of(damaged.encode()))
            if not model.knows_language():
                continue
            suspects = model.suspects()
            rare = sum(share * rare_share(name) for name, share in model.frequencies.languages.items())
            errors, unknown = infer_shares(suspects, sum(model.forms.values()), rare)
            examples += [
                Example(suspect, truth.get(suspect.start, suspect.text), errors, unknown[suspect.is_name])
                for suspect in suspects
                if suspect.near
            ]
    return examples


class Fit:
    """The conditional log-likelihood of examples."""

    def __init__(self, examples: list[Example]) -> None:
        """Compute the features; examples of joined words come last."""
        examples = sorted(examples, key=lambda example: " " in example.clean)
        self.main = sum(" " not in example.clean for example in examples)
        shape = (len(examples), MAX_NEAR + 1)
        self.near, self.mask = np.zeros((*shape, 7)), np.full(shape, -1e9)
        self.observed, self.targets = np.zeros((len(examples), 5)), np.zeros(len(examples), dtype=np.int64)
        self.mask[:, 0] = 0
        for row, (suspect, example) in enumerate((example.suspect, example) for example in examples):
            for column, near in enumerate(suspect.near[:MAX_NEAR], 1):
                numbers = (near.log_error, near.log_prob, near.letters, np.log(example.errors))
                self.near[row, column] = (*numbers, near.edits == 2, near.edits == 0, near.is_compound)
                self.mask[row, column] = 0
                if near.text == example.clean and example.clean != suspect.text:
                    self.targets[row] = column
            self.observed[row] = (suspect.letters, np.log(example.unknown), 0, 1, suspect.is_name)
        self.derived, self.english, self.compound = (
            np.array([getattr(example.suspect, name) for example in examples])
            for name in ("derived", "english", "compound")
        )

    def loss(self, weights: np.ndarray, count: int) -> float:
        """Return the mean negative log-likelihood of the first ``count`` examples."""
        scores = self.near[:count] @ weights[:7] + self.mask[:count]
        other, english, compound = np.exp(weights[12:])
        others = other + self.derived + english * self.english + compound * self.compound
        observed = self.observed[:count].copy()
        observed[:, 2] = np.log(others[:count])
        scores[:, 0] = observed @ weights[7:12]
        rows = np.arange(count)
        regularisation = 1e-4 * float((weights[4:7] ** 2).sum())
        return float(np.mean(np.logaddexp.reduce(scores, 1) - scores[rows, self.targets[:count]])) + regularisation


def main() -> None:
    """Fit the weights and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--languages", nargs="*", default=LANGUAGES)
    parser.add_argument("--documents", type=int, default=12)
    parser.add_argument("--exclude", nargs="*", default=[], help="words that are errors of the texts themselves")
    args = parser.parse_args()
    examples = list[Example]()
    for language in args.languages:
        folder = args.corpora if language in ENGLISH[1:] else args.corpora / "languages"
        examples += collect(folder / f"{language}.train.jsonl.gz", language, args.documents)
    fit = Fit([example for example in examples if example.suspect.text not in args.exclude])
    start = np.array([getattr(CONFIG, name) for name in NAMES] + [np.log(getattr(CONFIG, name)) for name in LOGS])

    def main_loss(weights: np.ndarray) -> float:
        fixed = weights.copy()
        fixed[SPACE] = start[SPACE]
        return fit.loss(fixed, fit.main)

    def space_loss(value: float) -> float:
        fixed = weights.copy()
        fixed[SPACE] = value
        return fit.loss(fixed, len(fit.targets))

    weights = minimize(main_loss, start, method="L-BFGS-B").x
    weights[SPACE] = minimize_scalar(space_loss, bounds=(-4, 8), method="bounded").x
    print(f"{len(fit.targets)} examples, {np.count_nonzero(fit.targets)} with the clean word among the candidates")
    print(f"mean nats: {main_loss(start):.4f} -> {main_loss(weights):.4f}")
    for name, value in zip((*NAMES, *LOGS), weights, strict=True):
        print(f"{name}: {np.exp(value):.2g}" if name in LOGS else f"{name}: {value:.3f}")


if __name__ == "__main__":
    main()
