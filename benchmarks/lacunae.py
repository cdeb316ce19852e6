"""Real damage: illegible letters of early modern plays, restored with and without a language model.

    python benchmarks/lacunae.py --corpora PATH [--count 200] [--references 0] [--json FILE]

``earlyprint.dev.jsonl.gz`` in the folder ``--corpora`` has plays with a black dot for each illegible letter
(``damaged``), and the same plays with the letters that editors supplied (``clean``), aligned by character. A lacuna is
a word with dots. Lacunae are drawn from as many plays as possible, each with the CHARACTERS_BEFORE and CHARACTERS_AFTER
characters around it; other dots in this text are also marks. Words that the editors left unfilled are excluded. A word
is correct if it equals the editors' word. The benchmark uses one thread, and the language model computes in float32.
``--references`` is the number of other plays, in the editors' version, that the memory gets as references. Intervals
are 95 %, from a bootstrap over lacunae. CPU seconds exclude loading and the indexing of references.
"""

import argparse
import gzip
import json
import os
import random
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch

from conservator import Restorer
from conservator.evaluation.provenance import commit, versions
from conservator.experts.language_models import load_language_model
from conservator.system.files import write_atomically

DOT = "\u25cf"
CHARACTERS_BEFORE, CHARACTERS_AFTER = 1000, 300
WORD = re.compile(rf"\S*{DOT}\S*")
RESAMPLES = 10_000  # bootstrap samples


class Lacuna(NamedTuple):
    """A damaged word.

    Attributes:
        play: identifier of the play.
        text: the damaged text around the word.
        start: start of the word in the text.
        word: the damaged word.
        truth: the editors' word.
    """

    play: str
    text: str
    start: int
    word: str
    truth: str


def draw_lacunae(plays: list[dict[str, str]], count: int, generator: random.Random) -> list[Lacuna]:
    """Draw lacunae; a play contributes its second lacuna only after every play has contributed one."""
    candidates = []
    for play in plays:
        words = [match.span() for match in WORD.finditer(play["damaged"])]
        words = [(start, stop) for start, stop in words if DOT not in play["clean"][start:stop]]
        for turn, (start, stop) in enumerate(generator.sample(words, len(words))):
            begin = max(0, start - CHARACTERS_BEFORE)
            text = play["damaged"][begin : stop + CHARACTERS_AFTER]
            word, truth = play["damaged"][start:stop], play["clean"][start:stop]
            candidates.append((turn, generator.random(), Lacuna(play["id"], text, start - begin, word, truth)))
    return [lacuna for _, _, lacuna in sorted(candidates)[:count]]


def restore(restorer: Restorer, lacuna: Lacuna, effort: str) -> dict[str, Any]:
    """Restore a lacuna; a dot stands for one lost byte."""
    began = time.process_time()
    restoration = restorer.restore(lacuna.text, mark=DOT, lost="bytes", effort=effort)
    seconds = time.process_time() - began
    start, size = (len(part.replace(DOT, "?").encode()) for part in (lacuna.text[: lacuna.start], lacuna.word))
    word = bytes(restoration.tokens[start : start + size].tolist())
    truth = [letter for letter, observed in zip(lacuna.truth, lacuna.word, strict=True) if observed == DOT]
    offsets = [match.start() for match in re.finditer(DOT.encode(), lacuna.word.encode())]
    positions = [offset - number * (len(DOT.encode()) - 1) for number, offset in enumerate(offsets)]
    letters = [
        word[position : position + 1] == letter.encode() for position, letter in zip(positions, truth, strict=True)
    ]
    confidence = float(restoration.confidence[start : start + size].min())
    row: dict[str, Any] = {"play": lacuna.play, "word": lacuna.word, "truth": lacuna.truth}
    row |= {"restored": word.decode(errors="replace")}
    row |= {"letters": len(letters), "letters_right": sum(letters), "right": word == lacuna.truth.encode()}
    return row | {"confidence": confidence, "cpu_seconds": seconds}


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Compute the metrics of an effort, with intervals."""
    samples = np.random.default_rng(0).integers(len(rows), size=(RESAMPLES, len(rows)))
    correct, letters, letters_correct = (
        np.array([row[key] for row in rows]) for key in ("right", "letters", "letters_right")
    )
    return {
        "lacunae": len(rows),
        "plays": len({row["play"] for row in rows}),
        "words_right": float(correct.mean()),
        "words_interval": np.quantile(correct[samples].mean(1), [0.025, 0.975]).tolist(),
        "letters": int(letters.sum()),
        "letters_right": float(letters_correct.sum() / letters.sum()),
        "letters_interval": np.quantile(
            letters_correct[samples].sum(1) / letters[samples].sum(1), [0.025, 0.975]
        ).tolist(),
        "cpu_seconds_a_lacuna": float(np.mean([row["cpu_seconds"] for row in rows])),
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="folder with earlyprint.dev.jsonl.gz")
    parser.add_argument("--count", type=int, default=200, help="number of lacunae")
    parser.add_argument("--references", type=int, default=0, help="number of plays that the memory gets as references")
    parser.add_argument("--efforts", nargs="+", default=["fast", "best"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    generator = random.Random(options.seed)
    with gzip.open(options.corpora / "earlyprint.dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        plays = [json.loads(line) for line in lines]
    generator.shuffle(plays)
    references = [(play["id"], play["clean"]) for play in plays[: options.references]]
    lacunae = draw_lacunae(plays[options.references :], options.count, generator)
    model = load_language_model("smollm2", "float32")
    restorer = Restorer(language_models=[model], references=references or None)
    rows: dict[str, list[dict[str, Any]]] = {effort: [] for effort in options.efforts}
    for effort in options.efforts:
        restore(restorer, lacunae[0], effort)  # warm-up: loads models and kernels
    for number, lacuna in enumerate(lacunae, start=1):
        for effort in options.efforts:
            rows[effort].append(restore(restorer, lacuna, effort))
        if number % 20 == 0:
            print(
                number, {effort: sum(row["right"] for row in restored) for effort, restored in rows.items()}, flush=True
            )
    metrics = {effort: summarise(restored) for effort, restored in rows.items()}
    for effort, values in metrics.items():
        print(effort, json.dumps(values))
    if options.json:
        record = {
            "commit": commit(),
            "versions": versions(),
            "references": options.references,
            "figures": metrics,
            "lacunae": rows,
        }
        write_atomically(options.json, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
