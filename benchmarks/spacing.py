"""Restoration of spaces, letter case and words broken at line ends, and harm on clean text.

    python benchmarks/spacing.py --corpora PATH --json FILE [--parts case,spaces,hyphenation,harm] [--documents N]
        [--languages en,de] [--effort best] [--peers]

The texts are the first 6,000 characters of documents of ``languages/LANG.eval.jsonl.gz``: the domain ``news`` for
letter case and spaces, all domains for broken words and harm. The seed of the damage is the number of the document.

- case: share of the words that are equal to those of the clean text, with all letters small, all capital, or half of
  the capital letters small. Peers: the most frequent form of each word in the training texts, with a capital letter at
  the start of sentences, and only the latter.
- spaces: F1 of the spaces with all spaces removed; of the restored spaces with 10 % removed; share of removed spaces
  and of lost ones with 5 % inserted. Peers (English): wordninja, wordsegment and SymSpell (``--peers``).
- hyphenation: share of the broken words that are equal to those of the clean text; edits of unbroken lines.
- harm: changed characters per 10,000 of clean text.

Intervals are 95 % bootstrap intervals over documents.
"""

import argparse
import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from conservator import Restorer
from conservator.channels.corrupt_layout import corrupt_hyphenation
from conservator.evaluation.provenance import commit, versions
from conservator.experts.letter_case import case_words, lower, upper
from conservator.experts.letter_case.features import is_start
from conservator.system.files import write_atomically

CASE = ("en", "de", "fr", "es", "it", "nl", "pl", "ru", "tr", "el")
SPACES = ("en", "de", "fr", "es", "pl", "ru")
BROKEN = ("en", "de", "fr", "es", "it", "pl", "ru", "fi")
KINDS = ("readme", "prose", "code", "config")
WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
LENGTH = 6000  # characters: of each document
console = Console()


def read_texts(path: Path, count: int, domain: str | None = None, length: int | None = LENGTH) -> list[str]:
    """Return the beginnings of documents of a corpus, evenly spaced."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        records = [record for record in map(json.loads, lines) if domain in (None, record.get("domain"))]
    chosen = np.unique(np.linspace(0, len(records) - 1, count).astype(int)) if records else []
    return [records[index]["text"][:length] for index in chosen]


def interval(rows: Sequence[Sequence[float]], statistic: Callable[[Any], float]) -> list[float]:
    """Return a statistic of the sum of the rows, and its 95 % bootstrap interval over rows."""
    table, generator = np.array(rows, dtype=float), np.random.default_rng(0)
    samples = [statistic(table[generator.integers(len(table), size=len(table))].sum(axis=0)) for _ in range(1000)]
    return [round(float(value), 4) for value in (statistic(table.sum(axis=0)), *np.quantile(samples, (0.025, 0.975)))]


def share(sums: Any) -> float:
    """Return the first sum divided by the second."""
    return float(sums[0] / max(1.0, sums[1]))


def f1(sums: Any) -> float:
    """Return F1 from the numbers of true positives, false positives and false negatives."""
    return float(2 * sums[0] / max(1.0, 2 * sums[0] + sums[1] + sums[2]))


def same_length(text: str, change: Callable[[str], str], generator: np.random.Generator, rate: float = 1.0) -> str:
    """Return a text with changed characters; those whose length would change stay."""
    draws = generator.random(len(text))
    return "".join(
        change(char) if draw < rate and len(change(char)) == 1 else char for char, draw in zip(text, draws, strict=True)
    )


def measure_case(restorer: Restorer, corpora: Path, languages: Sequence[str], options: Any) -> dict[str, Any]:
    """Measure the restoration of letter case."""
    results: dict[str, Any] = {}
    for language in languages:
        small_letters, capitals = partial(lower, language=language), partial(upper, language=language)
        damages = {"lower": (small_letters, 1.0), "upper": (capitals, 1.0), "half lower": (small_letters, 0.5)}
        texts = read_texts(corpora / "languages" / f"{language}.eval.jsonl.gz", options.documents, "news")
        forms = frequent_forms(corpora, language)
        rows: dict[str, list[list[int]]] = {}
        for number, text in enumerate(texts):
            for name, (change, rate) in damages.items():
                damaged = same_length(text, change, np.random.default_rng(number), rate)
                restored = restorer.restore(damaged.encode(), channel="case", effort=options.effort).text
                rows.setdefault(name, []).append(equal_words(text, restored))
            small = same_length(text, small_letters, np.random.default_rng(0))
            rows.setdefault("lower, most frequent form", []).append(equal_words(text, peer_case(small, forms)))
            rows.setdefault("lower, sentence starts", []).append(equal_words(text, peer_case(small, {})))
        results[language] = {name: interval(values, share) for name, values in rows.items()}
        results[language]["words"] = sum(row[1] for row in rows["lower"])
        console.print(language, results[language])
    return results


def equal_words(clean: str, text: str) -> list[int]:
    """Return the number of words that are equal, and the number of words."""
    spans = [match.span() for match in WORD.finditer(clean)]
    return [sum(clean[start:stop] == text[start:stop] for start, stop in spans), len(spans)]


def frequent_forms(corpora: Path, language: str) -> dict[str, str]:
    """Return word in small letters -> its most frequent form in the texts of our model, outside of sentence starts."""
    counts: dict[str, Counter[str]] = {}
    texts = read_texts(corpora / "languages" / f"{language}.train.jsonl.gz", 10**6, length=None)
    for text in [
        *texts,
        *(read_texts(corpora / "prose.train.jsonl.gz", 10**6, length=None) if language == "en" else ()),
    ]:
        for word in case_words(text):
            if not is_start(word.gap):
                form = text[word.start : word.stop]
                counts.setdefault(form.lower(), Counter())[form] += 1
    return {small: forms.most_common(1)[0][0] for small, forms in counts.items()}


def peer_case(text: str, forms: dict[str, str]) -> str:
    """Return a text with the most frequent forms of its words and capital letters at the start of sentences."""
    pieces = list(text)
    for word in case_words(text):
        form = forms.get(text[word.start : word.stop], text[word.start : word.stop])
        if len(form) == word.stop - word.start:
            pieces[word.start : word.stop] = form
        if is_start(word.gap) and len(pieces[word.start].upper()) == 1:
            pieces[word.start] = pieces[word.start].upper()
    return "".join(pieces)


def measure_spaces(restorer: Restorer, corpora: Path, languages: Sequence[str], options: Any) -> dict[str, Any]:
    """Measure the restoration of spaces."""
    results: dict[str, Any] = {}
    for language in languages:
        texts = read_texts(corpora / "languages" / f"{language}.eval.jsonl.gz", options.documents, "news")
        rows: dict[str, list[Any]] = {}
        for number, text in enumerate(texts):
            generator = np.random.default_rng(number)
            few = "".join("" if char == " " and generator.random() < 0.1 else char for char in text)
            for name, damaged in (("all", text.replace(" ", "")), ("few", few), ("inserted", insert(text, generator))):
                restored = restorer.restore(damaged.encode(), channel="spaces", effort=options.effort).text
                clean, damaged_spaces, restored_spaces = (has_space(value) for value in (text, damaged, restored))
                if name == "inserted":
                    extra = damaged_spaces & ~clean
                    rows.setdefault("removed", []).append([(extra & ~restored_spaces).sum(), extra.sum()])
                    rows.setdefault("lost", []).append([(clean & ~restored_spaces).sum(), clean.sum()])
                else:
                    rows.setdefault(name, []).append(
                        confusion(clean & ~damaged_spaces, restored_spaces & ~damaged_spaces)
                    )
            for name, divide in (peers() if options.peers and language == "en" else {}).items():
                lines = [divide(line) for line in text.replace(" ", "").split("\n")]
                rows.setdefault(name, []).append(confusion(has_space(text), has_space("\n".join(lines))))
        results[language] = {
            name: interval(values, share if name in ("removed", "lost") else f1) for name, values in rows.items()
        }
        results[language]["spaces"] = sum(text.count(" ") for text in texts)
        console.print(language, results[language])
    return results


def insert(text: str, generator: np.random.Generator) -> str:
    """Return a text with 5 % additional spaces inside of words."""
    inner = [index for index in range(1, len(text)) if text[index - 1 : index + 1].isalpha()]
    chosen = set(generator.choice(inner, int(0.05 * text.count(" ")), replace=False).tolist())
    return "".join(f" {char}" if index in chosen else char for index, char in enumerate(text))


def has_space(text: str) -> Any:
    """Return whether there is a space before each character other than spaces."""
    return np.array([text[index - 1 : index] == " " for index, char in enumerate(text) if char != " "], dtype=bool)


def confusion(truth: Any, predicted: Any) -> list[int]:
    """Return the numbers of true positives, false positives and false negatives."""
    return [int((truth & predicted).sum()), int((~truth & predicted).sum()), int((truth & ~predicted).sum())]


def peers() -> dict[str, Callable[[str], str]]:
    """Return other programs that divide English text: runs of letters are divided, and spaces set by punctuation."""
    import wordninja
    import wordsegment
    from symspellpy import SymSpell

    if not wordsegment.UNIGRAMS:
        wordsegment.load()
    symspell = SymSpell(0, 7)
    folder = Path(__import__("symspellpy").__file__).parent
    symspell.load_dictionary(str(folder / "frequency_dictionary_en_82_765.txt"), 0, 1)
    return {
        "wordninja": by_runs(wordninja.split),
        "wordsegment": by_runs(wordsegment.segment),
        "symspell": by_runs(lambda run: symspell.word_segmentation(run, 0).segmented_string.split()),
    }


def by_runs(divide: Callable[[str], Sequence[str]]) -> Callable[[str], str]:
    """Return a function that divides the runs of letters of a line, and sets spaces beside punctuation and numbers."""

    def divide_line(line: str) -> str:
        pieces = re.findall(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*|\d[\d.,]*\d|\d|.", line)
        text = ""
        for piece in pieces:
            words = piece
            if piece[0].isalpha():
                lengths = np.cumsum([len(word) for word in divide(re.sub(r"['\u2019]", "", piece))])
                letters = -1 + np.cumsum([char.isalpha() for char in piece])
                words = "".join(
                    f" {char}" if index and char.isalpha() and letters[index] in lengths else char
                    for index, char in enumerate(piece)
                )
            needs = bool(text) and (
                text[-1] in ",.;:!?)" or (text[-1].isalnum() and piece[0] not in ",.;:!?)'\u2019\"-")
            )
            text += f" {words}" if needs and text[-1] not in "(-" else words
        return text

    return divide_line


def measure_hyphenation(restorer: Restorer, corpora: Path, languages: Sequence[str], options: Any) -> dict[str, Any]:
    """Measure the restoration of broken words."""
    results: dict[str, Any] = {}
    for language in languages:
        rows, unbroken = [], 0
        for number, text in enumerate(
            read_texts(corpora / "languages" / f"{language}.eval.jsonl.gz", options.documents)
        ):
            damaged = corrupt_hyphenation(text, 1.0, np.random.default_rng(number))
            restored = restorer.restore(damaged.encode(), channel="hyphenation", effort=options.effort).text
            broken, wrong = (different_words(text, value) for value in (damaged, restored))
            rows.append([broken - wrong, broken])
            whole = corrupt_hyphenation(text, 0.0, np.random.default_rng(number))
            unbroken += len(restorer.restore(whole.encode(), channel="hyphenation").edits)
        results[language] = {
            "joined": interval(rows, share),
            "broken words": sum(row[1] for row in rows),
            "edits of unbroken lines": unbroken,
        }
        console.print(language, results[language])
    return results


def different_words(clean: str, text: str) -> int:
    """Return the number of words of a clean text that another text does not have."""
    matcher = SequenceMatcher(None, clean.split(), text.split(), autojunk=False)
    return sum(stop - start for kind, start, stop, _, _ in matcher.get_opcodes() if kind != "equal")


def measure_harm(restorer: Restorer, corpora: Path, languages: Sequence[str], options: Any) -> dict[str, Any]:
    """Count changed characters per 10,000 of clean text."""
    results: dict[str, Any] = {}
    paths = [corpora / f"{kind}.eval.jsonl.gz" for kind in KINDS]
    paths += [corpora / "languages" / f"{language}.eval.jsonl.gz" for language in languages]
    for path in paths:
        texts = read_texts(path, options.documents)
        row: dict[str, Any] = {"characters": sum(map(len, texts))}
        for channel in ("spaces", "case", "hyphenation"):
            results_of = [restorer.restore(text.encode(), channel=channel) for text in texts]
            changed = sum(changed_characters(result) for result in results_of)
            row[channel] = round(1e4 * changed / row["characters"], 2)
            row[f"{channel}, documents"] = sum(bool(result.edits) for result in results_of)
        results[path.name.split(".")[0]] = row
        console.print(path.name, row)
    total = sum(row["characters"] for row in results.values())
    results["all"] = {
        channel: round(sum(row[channel] * row["characters"] for row in results.values()) / total, 3)
        for channel in ("spaces", "case", "hyphenation")
    }
    console.print(results["all"], total)
    return results


def changed_characters(result: Any) -> int:
    """Return the number of characters that the edits of a result replace, insert or delete."""
    changed = 0
    for edit in result.edits:
        old = result.observed[slice(*edit.span)].decode()
        pieces = SequenceMatcher(None, old, edit.text, autojunk=False).get_opcodes()
        changed += sum(max(b - a, d - c) for kind, a, b, c, d in pieces if kind != "equal")
    return changed


def main() -> None:
    """Measure the parts, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--parts", default="case,spaces,hyphenation,harm")
    parser.add_argument("--languages", help="codes of languages; those of the published figures by default")
    parser.add_argument("--documents", type=int, default=15, help="documents of each language")
    parser.add_argument("--effort", default="fast", choices=("fast", "best"))
    parser.add_argument("--peers", action="store_true", help="measure peers, which must be installed")
    options = parser.parse_args()
    restorer = Restorer()
    every = sorted(path.name.split(".")[0] for path in (options.corpora / "languages").glob("*.eval.jsonl.gz"))
    parts = {
        "case": (measure_case, CASE),
        "spaces": (measure_spaces, SPACES),
        "hyphenation": (measure_hyphenation, BROKEN),
        "harm": (measure_harm, every),
    }
    results: dict[str, Any] = {"commit": commit(), "versions": versions(), "documents": options.documents}
    for part in options.parts.split(","):
        measure, languages = parts[part]
        chosen = options.languages.split(",") if options.languages else languages
        results[part] = measure(restorer, options.corpora, chosen, options)
        write_atomically(options.json, json.dumps(results, indent=1).encode())


if __name__ == "__main__":
    main()
