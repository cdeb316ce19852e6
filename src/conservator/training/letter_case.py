"""Fit the models of letter case, by logistic regression with AdaGrad.

    python -m conservator.training.letter_case --data FOLDER --english prose.train.jsonl.gz [--languages en,de]

FOLDER has files LANGUAGE.train.jsonl.gz with the fields ``text`` and ``licence``. Texts with a non-commercial licence
are not used. Features that occur fewer than MIN_COUNT times have no weight.
"""

import argparse
from pathlib import Path

import numpy as np

from conservator.arrays import Floats, Ints
from conservator.experts.letter_case.features import (
    COUNT,
    LEXICAL,
    SIZE,
    case_words,
    features,
    lower,
    state_features,
)
from conservator.experts.letter_case.model import FOLDER, write_weights
from conservator.numerics import compiled
from conservator.system.files import write_atomically
from conservator.training.corpus import hold_out, read_corpus
from conservator.training.word_lists import SUFFIX, read_commercial

MIN_COUNT = 4  # occurrences: of a feature with a weight [LOG: spaces-letter-case-and-broken-words]
RATES = (0.1, 0.1, 0.1, 0.04, 0.04)  # step size of each pass
DROPPED = (
    0.1  # probability: the features that name the word itself are left out [LOG: spaces-letter-case-and-broken-words]
)
MIN_WEIGHT = 0.1  # log-odds: smaller weights are not stored [LOG: spaces-letter-case-and-broken-words]
MIN_WORDS = 50_000  # words: of the texts of a language with a model
OLD_NOVELS = ("da", "no")  # languages whose novels write nouns with a capital letter, as before 1948
UNCASED = ("ar", "fa", "he", "hi", "ja", "ko", "zh")  # languages without capital letters


def main() -> None:
    """Fit and write the models of all languages of a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with LANGUAGE.train.jsonl.gz files")
    parser.add_argument("--english", type=Path, action="append", default=[], help="further corpus of English texts")
    parser.add_argument("--languages", help="codes of languages; all by default")
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for path in sorted(options.data.glob(f"*{SUFFIX}")):
        language = path.name.removesuffix(SUFFIX)
        if language in UNCASED or (options.languages and language not in options.languages.split(",")):
            continue
        texts = list(read_commercial(path, without="novel" if language in OLD_NOVELS else None))
        if language == "en":
            texts += [text for corpus in options.english for text in hold_out(read_corpus([corpus]), 0)[0]]
        base, is_capital = examples([text.decode() for text in texts], language)
        if len(base) >= MIN_WORDS:
            data = write_weights(fit(base, is_capital))
            write_atomically(options.out / f"{language}.gz", data)
            print(f"{language}: {len(base)} words, {len(data)} bytes", flush=True)


def examples(texts: list[str], language: str) -> tuple[Ints, Ints]:
    """Return the features (n, COUNT) of the words of texts, and whether each has a capital letter (n,)."""
    parts, labels = [np.zeros((0, COUNT), dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for text in texts:
        words, lowered = case_words(text), lower(text, language).replace("\u2019", "'")
        parts.append(
            features([lowered[word.start : word.stop] for word in words], [word.gap for word in words], language)
        )
        flags = [any(map(str.isupper, text[word.start : word.stop])) for word in words]
        labels.append(np.array(flags, dtype=np.int64))
    return np.concatenate(parts), np.concatenate(labels)


def fit(base: Ints, is_capital: Ints) -> Floats:
    """Return the weights (SIZE,) of the features. The word before the first of a text is that of another text."""
    before = np.concatenate([[0], is_capital[:-1]])
    used = np.concatenate([base, state_features(base)[np.arange(len(base)), before]], axis=1)
    counts = np.bincount(used.ravel(), minlength=SIZE)
    is_kept = counts >= MIN_COUNT
    weights, squares = np.zeros(SIZE + 1), np.full(SIZE + 1, 1e-3)
    used = np.where(is_kept[used], used, SIZE)
    lexical = np.arange(base.shape[1] - LEXICAL, base.shape[1])
    columns = np.array(
        [*(index for index in range(used.shape[1] - 1) if index not in lexical), *lexical, used.shape[1] - 1]
    )
    for number, rate in enumerate(RATES):
        run_pass(used[:, columns], is_capital, weights, squares, rate, number)
    weights = weights[:SIZE]
    weights[np.abs(weights) < MIN_WEIGHT] = 0.0
    return weights


@compiled
def run_pass(used: Ints, labels: Ints, weights: Floats, squares: Floats, rate: float, seed: int) -> None:
    """Make one pass over the examples in random order; the last features, which name the word, are dropped at times."""
    np.random.seed(seed)
    count = used.shape[1]
    for index in np.random.permutation(len(used)):
        number = count - LEXICAL - 1 if np.random.random() < DROPPED else count
        total = 0.0
        for column in range(number):
            total += weights[used[index, column]]
        gradient = 1 / (1 + np.exp(-total)) - labels[index]
        for column in range(number):
            feature = used[index, column]
            if feature < SIZE:
                squares[feature] += gradient * gradient
                weights[feature] -= rate * gradient / np.sqrt(squares[feature])


if __name__ == "__main__":
    main()
