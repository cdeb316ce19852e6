"""Correction of typing errors, next to spelling correctors, and harm to clean text.

    apt-get install hunspell hunspell-en-us hunspell-de-de hunspell-fr hunspell-pl
    pip install --no-deps --target PEERS pyspellchecker symspellpy editdistpy autocorrect typo
    pip download --no-deps nlpaug && unzip nlpaug-*.whl 'nlpaug/res/*' -d NLPAUG
    PYTHONPATH=src:PEERS python benchmarks/typing_errors.py --corpora PATH --nlpaug NLPAUG [--task correct|clean]

correct: texts of ``languages/LANG.eval.jsonl.gz``, in which the generator ``keyboard`` or ``list`` damages a part RATE
of the words of at least three letters. ``keyboard``: swapped, missing, repeated, additional and neighbouring keys, by
the package ``typo`` with the keyboards of ``nlpaug``. ``list``: misspellings that ``nlpaug`` lists for a word, without
words of the dictionary of pyspellchecker. None of them was used to fit the error model. Character error rate before and
after, and harm: the share of undamaged words that are changed. Intervals are bootstrapped over documents. For words
with more than ten letters (six if not English), pyspellchecker searches one edit, because two take seconds.

clean: characters changed in undamaged texts.
"""

import argparse
import gzip
import json
import random
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rapidfuzz.distance import Levenshtein

from conservator import Restorer
from conservator.evaluation.provenance import commit, versions
from conservator.system.files import write_atomically

WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
MAX_CHARACTERS = 3000  # characters per document
RATE = 0.05  # share of the words that are damaged
MIN_LETTERS = 3
MAX_TWO_EDITS = {"en": 10}  # letters of a word in which pyspellchecker searches two edits
OTHER_MAX_TWO_EDITS = 6  # the same in other languages
KINDS = ("swap", "missing", "repeated", "additional", "neighbour")
HUNSPELL = {"en": "en_US", "de": "de_DE", "fr": "fr", "pl": "pl_PL"}
RESAMPLES = 1000
Correct = Callable[[str], str]  # of a word


def read_texts(path: Path, count: int, size: int, seed: int) -> list[str]:
    """Return spans of whole lines of documents of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    generator = random.Random(f"{path.name} {seed}")
    generator.shuffle(texts)
    spans = []
    for text in texts[:count]:
        start = text.rfind("\n", 0, generator.randrange(max(1, len(text) - size))) + 1
        spans.append(text[start : start + size])
    return spans


class Keyboard:
    """Errors of typing, by the package ``typo`` and the keyboards of ``nlpaug``."""

    def __init__(self, folder: Path, language: str) -> None:
        """Read the neighbouring keys."""
        path = folder / "nlpaug" / "res" / "char" / "keyboard" / f"{language}.json"
        keys = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self.near = {key: [other for other in others if other.isalpha()] for key, others in keys.items()}

    def __call__(self, word: str, generator: random.Random) -> str:
        """Return a damaged word; the word itself if this kind of error does not change it."""
        from typo import StrErrer

        kind = generator.choice(KINDS)
        errer = StrErrer(word, seed=generator.randrange(2**31))
        if kind == "swap":
            return str(errer.char_swap().result)
        if kind == "missing":
            return str(errer.missing_char().result)
        if kind == "repeated":
            return str(errer.repeated_char().result)
        position = generator.randrange(len(word))
        near = self.near.get(word[position].lower(), [])
        if not near:
            return word
        key = generator.choice(near)
        key = key.upper() if word[position].isupper() else key.lower()
        return word[:position] + key + word[position + (kind == "neighbour") :]


class Listed:
    """Misspellings that a list has for a word."""

    def __init__(self, folder: Path, known: Callable[[str], bool]) -> None:
        """Read the list; misspellings that are words are not used."""
        path = folder / "nlpaug" / "res" / "word" / "spelling" / "spelling_en.txt"
        self.errors: dict[str, list[str]] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            clean, *observed = line.split()
            errors = [word for word in observed if word.isalpha() and word.islower() and not known(word)]
            if clean.islower() and errors:
                self.errors[clean] = errors

    def __call__(self, word: str, generator: random.Random) -> str:
        """Return a misspelling of a word; the word itself if none is listed."""
        errors = self.errors.get(word.lower())
        if not errors:
            return word
        error = generator.choice(errors)
        return error[0].upper() + error[1:] if word[0].isupper() else error


def damage(text: str, rate: float, error: Any, generator: random.Random) -> tuple[str, list[tuple[str, str]]]:
    """Return a damaged text, and (observed, clean) of its words."""
    parts, words, done = list[str](), list[tuple[str, str]](), 0
    for match in WORD.finditer(text):
        observed = match[0]
        if len(observed) >= MIN_LETTERS and generator.random() < rate:
            observed = error(observed, generator)
        parts += [text[done : match.start()], observed]
        words.append((observed, match[0]))
        done = match.end()
    return "".join([*parts, text[done:]]), words


def peers(language: str) -> dict[str, Correct]:
    """Return the other correctors that support a language."""
    from spellchecker import SpellChecker

    tools: dict[str, Correct] = {}
    if language in ("en", "es", "fr", "pt", "de", "it", "ru", "nl"):
        checker = SpellChecker(language=language)

        def check(word: str) -> str:
            checker.distance = 2 if len(word) <= MAX_TWO_EDITS.get(language, OTHER_MAX_TWO_EDITS) else 1
            return checker.correction(word.lower()) or word

        tools["pyspellchecker"] = check
        from symspellpy import SymSpell, Verbosity

        symspell = SymSpell(max_dictionary_edit_distance=2)
        if language == "en":
            from importlib.resources import files

            symspell.load_dictionary(str(files("symspellpy") / "frequency_dictionary_en_82_765.txt"), 0, 1)
        else:  # the package has an English dictionary only; this one is that of pyspellchecker
            for word, count in checker.word_frequency.dictionary.items():
                symspell.create_dictionary_entry(word, count)

        def lookup(word: str) -> str:
            entries = symspell.lookup(word.lower(), Verbosity.TOP, max_edit_distance=2, include_unknown=True)
            return str(entries[0].term)

        tools["symspellpy"] = lookup
    if language == "en":
        from autocorrect import Speller

        speller = Speller("en")
        tools["autocorrect"] = lambda word: str(speller(word))
    if language in HUNSPELL:
        process = subprocess.Popen(
            ["hunspell", "-a", "-i", "utf-8", "-d", HUNSPELL[language]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        assert process.stdin is not None
        assert process.stdout is not None
        source, output = process.stdin, process.stdout
        output.readline()

        def suggest(word: str) -> str:
            source.write(f"^{word}\n")
            source.flush()
            answers = list(iter(lambda: output.readline().strip(), ""))
            if len(answers) == 1 and answers[0].startswith("&"):
                return answers[0].partition(": ")[2].split(", ")[0]
            return word

        tools["hunspell"] = suggest
    return tools


def same_case(word: str, observed: str) -> str:
    """Return a word with the capitalisation of the observed one, which the other tools lose."""
    if observed.isupper() and len(observed) > 1:
        return word.upper()
    return word[:1].upper() + word[1:] if observed[:1].isupper() else word


def by_word(text: str, correct: Correct) -> tuple[str, list[str]]:
    """Correct each word of a text; return the text and the words."""
    parts, words, done = list[str](), list[str](), 0
    for match in WORD.finditer(text):
        word = match[0]
        corrected = correct(word)
        corrected = word if corrected.lower() == word.lower() else same_case(corrected, word)
        parts += [text[done : match.start()], corrected]
        words.append(corrected)
        done = match.end()
    return "".join([*parts, text[done:]]), words


def conservator(restorer: Restorer, text: str, **options: Any) -> tuple[str, list[str]]:
    """Correct a text; return the text and its words, in the order of the words of the observed text."""
    result = restorer.restore(text.encode(), channel="typing", **options)
    data = text.encode()
    starts = [len(data[: edit.span[0]].decode()) for edit in result.edits]
    stops = [len(data[: edit.span[1]].decode()) for edit in result.edits]
    words, index = list[str](), 0
    for match in WORD.finditer(text):
        while index < len(starts) and stops[index] <= match.start():
            index += 1
        is_edited = index < len(starts) and starts[index] < match.end()
        words.append(f"{result.edits[index].text}" if is_edited else match[0])
        if is_edited and (starts[index], stops[index]) != match.span():
            words[-1] = match[0][: starts[index] - match.start()] + words[-1] + match[0][stops[index] - match.start() :]
    return result.text, words


def interval(numerators: list[float], denominators: list[float]) -> tuple[float, float, float]:
    """Return a ratio of sums, and its bootstrapped 95 % interval over documents."""
    generator = np.random.default_rng(0)
    top, bottom = np.array(numerators), np.array(denominators)
    rows = generator.integers(0, len(top), (RESAMPLES, len(top)))
    ratios = top[rows].sum(1) / np.maximum(1, bottom[rows].sum(1))
    low, high = np.percentile(ratios, [2.5, 97.5])
    return float(top.sum() / max(1, bottom.sum())), float(low), float(high)


def compare(args: argparse.Namespace, language: str, generator_name: str) -> Iterator[dict[str, Any]]:
    """Damage texts, and yield the figures of each tool."""
    texts = read_texts(
        args.corpora / "languages" / f"{language}.{args.split}.jsonl.gz", args.documents, MAX_CHARACTERS, args.seed
    )
    generator = random.Random(args.seed)
    if generator_name == "list":
        from spellchecker import SpellChecker

        error: Any = Listed(args.nlpaug, SpellChecker().word_frequency.dictionary.__contains__)
    else:
        error = Keyboard(args.nlpaug, language)
    documents = [damage(text, args.rate, error, generator) for text in texts]
    restorer = Restorer()
    tools: dict[str, Callable[[str], tuple[str, list[str]]]] = {"conservator": lambda text: conservator(restorer, text)}
    tools |= {name: lambda text, tool=tool: by_word(text, tool) for name, tool in peers(language).items()}
    none = [(damaged, [observed for observed, _ in words]) for damaged, words in documents]
    for name, tool in {"none": None, **tools}.items():
        started = time.process_time()
        results = none if tool is None else [tool(damaged) for damaged, _ in documents]
        seconds = time.process_time() - started
        errors, harms, rights, fixes, totals = ([0.0] * len(texts) for _ in range(5))
        for index, ((text, words), (clean, (_, pairs))) in enumerate(
            zip(results, zip(texts, documents, strict=True), strict=True)
        ):
            errors[index] = Levenshtein.distance(text, clean)
            for word, (observed, truth) in zip(words, pairs, strict=True):
                is_right = observed == truth
                rights[index] += is_right
                totals[index] += not is_right
                harms[index] += is_right and word != truth
                fixes[index] += not is_right and word == truth
        size = sum(len(damaged.encode()) for damaged, _ in documents)
        yield {
            "language": language,
            "generator": generator_name,
            "tool": name,
            "documents": len(texts),
            "words": int(sum(rights) + sum(totals)),
            "errors": int(sum(totals)),
            "cer": interval(errors, [float(len(text)) for text in texts]),
            "fixed": interval(fixes, totals),
            "harm": interval(harms, rights),
            "kb_per_cpu_second": size / 1024 / max(seconds, 1e-9) if tool is not None and name != "hunspell" else None,
        }


def measure_clean(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Correct clean texts, and yield the changed characters."""
    folder = args.corpora / "languages"
    languages = sorted(path.name.split(".")[0] for path in folder.glob("*.eval.jsonl.gz"))
    restorer = Restorer()
    for name in args.languages or ["readme", "prose", "code", *languages]:
        path = (args.corpora if name in ("readme", "prose", "code") else folder) / f"{name}.{args.split}.jsonl.gz"
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            texts = [json.loads(line)["text"] for line in lines]
        random.Random(args.seed).shuffle(texts)
        changed, size, done, edits, started = 0, 0, 0, list[str](), time.process_time()
        for text in texts:
            if size >= args.characters:
                break
            result = restorer.restore(text.encode(), channel="typing")
            changed += Levenshtein.distance(text, result.text)
            size, done = size + len(text), done + len(text.encode())
            edits += [f"{text.encode()[slice(*edit.span)].decode()} -> {edit.text}" for edit in result.edits]
        seconds = time.process_time() - started
        yield {
            "text": name,
            "characters": size,
            "changed": changed,
            "per_10000": 1e4 * changed / size,
            "kb_per_cpu_second": done / 1024 / seconds,
            "edits": edits,
        }


def main() -> None:
    """Run one of the tasks, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--nlpaug", type=Path, help="folder of the unpacked package")
    parser.add_argument("--task", choices=("correct", "clean"), default="correct")
    parser.add_argument("--languages", nargs="*", default=[])
    parser.add_argument("--split", default="eval")
    parser.add_argument("--generators", nargs="*", default=["keyboard", "list"], help="list: English only")
    parser.add_argument("--documents", type=int, default=20)
    parser.add_argument("--characters", type=int, default=300_000, help="of each clean text")
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--verbose", action="store_true", help="print the changes of clean texts")
    args = parser.parse_args()
    rows = list[dict[str, Any]]()
    if args.task == "clean":
        for row in measure_clean(args):
            rows.append(row)
            speed = f"{row['kb_per_cpu_second']:.0f} KB/s"
            print(
                f"{row['text']:8} {row['characters']:8} {row['changed']:5} {row['per_10000']:6.2f} per 10,000  {speed}"
            )
            if args.verbose:
                print("   ", "; ".join(row["edits"][:40]))
    else:
        for language in args.languages or ["en", "de", "fr", "es", "nl", "pl"]:
            for name in args.generators:
                for row in compare(args, language, name) if name != "list" or language == "en" else ():
                    rows.append(row)
                    cer, fixed, harm = (
                        "{:6.2f} [{:.2f}, {:.2f}]".format(*(100 * value for value in row[key]))
                        for key in ("cer", "fixed", "harm")
                    )
                    speed = f"{row['kb_per_cpu_second']:.1f} KB/s" if row["kb_per_cpu_second"] else ""
                    print(
                        f"{language} {name:8} {row['tool']:15} {row['errors']:4}/{row['words']:6} "
                        f"CER {cer}  fixed {fixed}  harm {harm}  {speed}",
                        flush=True,
                    )
    if args.json:
        record = {"commit": commit(), "versions": versions(), "rate": args.rate, "seed": args.seed, "rows": rows}
        write_atomically(args.json, json.dumps(record, indent=1).encode())


if __name__ == "__main__":
    main()
