"""Early English plays with letters that transcribers could not read: black dots, which editors filled in later.

``earlyprint.dev.jsonl.gz`` in the folder of the corpora has a play a line: ``damaged`` with a dot for each such letter,
and ``clean``, the same text with the editors' letters, character by character. Which part a play is in follows from its
name alone: nothing is trained on or tuned with plays of the part ``test``.
"""

import gzip
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from conservator.errors import ConservatorError
from conservator.experts import ByteExpert, load_expert
from conservator.training import ByteLearner, Corpus, Plan, TrainingConfig, is_finished, run_training
from conservator_studies.corpora import find_file

DOT = "\u25cf"
DOMAIN, SPLIT = "earlyprint", "dev"
PARTS = {"train": 70, "tune": 10, "test": 20}  # per cent of all plays, about
LIGHT = 0.3  # the largest share of bytes that is hidden in training: a page has few dots


@dataclass(frozen=True)
class Play:
    """A play: its name, its text with dots, and its text with what editors made of them."""

    name: str
    damaged: str
    clean: str

    @property
    def part(self) -> str:
        """The part that it is in."""
        place = int(hashlib.sha256(self.name.encode()).hexdigest(), 16) % 100
        return "train" if place < PARTS["train"] else "tune" if place < PARTS["train"] + PARTS["tune"] else "test"

    @property
    def words(self) -> list[tuple[int, int]]:
        """The damaged words that editors filled in: where each begins and ends."""
        found = []
        for start, stop in blanks(self.damaged):
            if DOT in self.damaged[start:stop] and DOT not in self.clean[start:stop]:
                found.append((start, stop))
        return found


def blanks(text: str) -> list[tuple[int, int]]:
    """Where each stretch without a blank begins and ends."""
    found, start = [], None
    for place, one in enumerate(text + " "):
        if one.isspace():
            if start is not None:
                found.append((start, place))
            start = None
        elif start is None:
            start = place
    return found


def read_plays(corpora: Path) -> dict[str, list[Play]]:
    """The plays of each part."""
    path = find_file(corpora, DOMAIN, SPLIT)
    if path is None:
        name = f"{DOMAIN}.{SPLIT}.jsonl.gz"
        raise ConservatorError(f"there is no {name} in {corpora}: plays, in each line one with id, clean and damaged")
    found: dict[str, list[Play]] = {name: [] for name in PARTS}
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                one = json.loads(line)
                play = Play(one["id"], one["damaged"], one["clean"])
                if len(play.damaged) != len(play.clean):
                    raise ValueError(f"damaged and clean of line {number} differ in length")
                found[play.part].append(play)
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise ConservatorError(f"{path} has not a play in each line, with id, clean and damaged: {error}") from error
    if not all(found.values()):
        empty = ", ".join(name for name, plays in found.items() if not plays)
        raise ConservatorError(f"{path} has too few plays: none for {empty}")
    return found


def clean_text(play: Play) -> str:
    """The text of the editors, without the letters that they left open."""
    return play.clean.replace(DOT, "")


def train_once(plays: Sequence[Play], start: ByteExpert, config: TrainingConfig, seed: int, home: Path) -> ByteExpert:
    """Train a byte expert on the text of plays, from the weights of another, or load it if that was done before."""
    documents = tuple(clean_text(play).encode() for play in plays)
    fingerprint = hashlib.sha256(b"\0".join(documents)).hexdigest()
    facts = [asdict(config), LIGHT, start.spec.fingerprint, fingerprint, seed]
    folder = home / hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16] / "plays"
    if not is_finished(folder):
        plan = Plan(config, seed, config.steps, None, fingerprint)
        learner = ByteLearner(start.network.config, LIGHT, start.network)
        resume = (folder / "training.safetensors").exists()
        run_training(plan, Corpus(documents, 0, fingerprint), folder, learner=learner, resume=resume)
    return load_expert(folder)
