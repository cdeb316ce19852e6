"""Real damage: letters of old plays that transcribers could not read, restored with and without a language model.

    python benchmarks/lacunae.py --corpora PATH [--count 200] [--reference 0] [--json FILE]

``earlyprint.dev.jsonl.gz`` in the folder ``--corpora`` has plays with a black dot for each such letter (``damaged``),
and the same plays with the letters that editors supplied later (``clean``), character by character. Lacunae, words with
dots, are drawn from as many plays as there are, each with BEFORE characters of the play before it and AFTER after it;
other dots there are marks, too. Words that editors left open are not drawn. A word is right if it is the editors'. Both
efforts are on one thread, the language model in float32. ``--references`` gives the memory so many other plays, as the
editors have them. Intervals are 95 %, by a bootstrap over lacunae. CPU seconds leave out loading and the reading of
other plays.
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
BEFORE, AFTER = 1000, 300
WORD = re.compile(rf"\S*{DOT}\S*")
RESAMPLES = 10_000


class Lacuna(NamedTuple):
    """A damaged word: where it stands, the text around it, and the editors' word."""

    play: str
    text: str
    start: int
    word: str
    truth: str


def draw_lacunae(plays: list[dict[str, str]], count: int, draw: random.Random) -> list[Lacuna]:
    """Lacunae of different plays; of each play a second one only when all have one."""
    found = []
    for play in plays:
        words = [match.span() for match in WORD.finditer(play["damaged"])]
        words = [(start, stop) for start, stop in words if DOT not in play["clean"][start:stop]]
        for turn, (start, stop) in enumerate(draw.sample(words, len(words))):
            begin = max(0, start - BEFORE)
            text = play["damaged"][begin : stop + AFTER]
            word, truth = play["damaged"][start:stop], play["clean"][start:stop]
            found.append((turn, draw.random(), Lacuna(play["id"], text, start - begin, word, truth)))
    return [lacuna for _, _, lacuna in sorted(found)[:count]]


def restore(restorer: Restorer, lacuna: Lacuna, effort: str) -> dict[str, Any]:
    """Restore a lacuna: a dot is a lost byte."""
    begin = time.process_time()
    found = restorer.restore(lacuna.text, mark=DOT, lost="bytes", effort=effort)
    seconds = time.process_time() - begin
    start, size = (len(part.replace(DOT, "?").encode()) for part in (lacuna.text[: lacuna.start], lacuna.word))
    word = bytes(found.tokens[start : start + size].tolist())
    truth = [letter for letter, seen in zip(lacuna.truth, lacuna.word, strict=True) if seen == DOT]
    places = [match.start() for match in re.finditer(DOT.encode(), lacuna.word.encode())]
    places = [place - number * (len(DOT.encode()) - 1) for number, place in enumerate(places)]
    letters = [word[place : place + 1] == letter.encode() for place, letter in zip(places, truth, strict=True)]
    confidence = float(found.confidence[start : start + size].min())
    row = {"play": lacuna.play, "word": lacuna.word, "truth": lacuna.truth, "found": word.decode(errors="replace")}
    row |= {"letters": len(letters), "letters_right": sum(letters), "right": word == lacuna.truth.encode()}
    return row | {"confidence": confidence, "cpu_seconds": seconds}


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of one effort, with intervals."""
    drawn = np.random.default_rng(0).integers(len(rows), size=(RESAMPLES, len(rows)))
    right, letters, good = (np.array([row[key] for row in rows]) for key in ("right", "letters", "letters_right"))
    return {
        "lacunae": len(rows),
        "plays": len({row["play"] for row in rows}),
        "words_right": float(right.mean()),
        "words_interval": np.quantile(right[drawn].mean(1), [0.025, 0.975]).tolist(),
        "letters": int(letters.sum()),
        "letters_right": float(good.sum() / letters.sum()),
        "letters_interval": np.quantile(good[drawn].sum(1) / letters[drawn].sum(1), [0.025, 0.975]).tolist(),
        "cpu_seconds_a_lacuna": float(np.mean([row["cpu_seconds"] for row in rows])),
    }


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="the folder with earlyprint.dev.jsonl.gz")
    parser.add_argument("--count", type=int, default=200, help="lacunae")
    parser.add_argument("--reference", type=int, default=0, help="other plays for the memory")
    parser.add_argument("--efforts", nargs="+", default=["fast", "best"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    draw = random.Random(options.seed)
    with gzip.open(options.corpora / "earlyprint.dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        plays = [json.loads(line) for line in lines]
    draw.shuffle(plays)
    others = [(play["id"], play["clean"]) for play in plays[: options.references]]
    lacunae = draw_lacunae(plays[options.references :], options.count, draw)
    model = load_language_model("smollm2", "float32")
    restorer = Restorer(language_models=[model], references=others or None)
    rows: dict[str, list[dict[str, Any]]] = {effort: [] for effort in options.efforts}
    for effort in options.efforts:
        restore(restorer, lacunae[0], effort)  # loads what is loaded on first use
    for number, lacuna in enumerate(lacunae, start=1):
        for effort in options.efforts:
            rows[effort].append(restore(restorer, lacuna, effort))
        if number % 20 == 0:
            print(number, {effort: sum(row["right"] for row in found) for effort, found in rows.items()}, flush=True)
    figures = {effort: summarise(found) for effort, found in rows.items()}
    for effort, found in figures.items():
        print(effort, json.dumps(found))
    if options.json:
        record = {
            "commit": commit(),
            "versions": versions(),
            "references": options.references,
            "figures": figures,
            "lacunae": rows,
        }
        write_atomically(options.json, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
