"""Early English plays with letters that transcribers could not read. Later editors filled them in.

``earlyprint.dev.jsonl.gz`` in the corpus folder has one play per line: ``damaged`` with a black dot for each illegible
letter, and ``clean``, the same text with the letters of the editors, character by character. The part of a play (train,
tune or test) depends only on its name. Plays of the part ``test`` are used neither for training nor for tuning.
"""

import gzip
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from conservator.errors import ConservatorError
from conservator.experts import ByteExpert, load_expert
from conservator.training import ByteLearner, Corpus, Plan, TrainingConfig, is_finished, run_training
from conservator_studies.corpora import find_file

DOT = "\u25cf"
DOMAIN, SPLIT = "earlyprint", "dev"
PARTS = {"train": 70, "tune": 10, "test": 20}  # percent: approximate fraction of all plays [untuned]
MAX_HIDDEN = 0.3  # fraction: largest fraction of bytes hidden in training, because a page has few dots [untuned]


@dataclass(frozen=True)
class Play:
    """A play: its name, its text with dots, and its text with the letters of the editors."""

    name: str
    damaged: str
    clean: str

    @property
    def part(self) -> str:
        """Part of the play: train, tune or test."""
        percentile = int(hashlib.sha256(self.name.encode()).hexdigest(), 16) % 100
        if percentile < PARTS["train"]:
            return "train"
        return "tune" if percentile < PARTS["train"] + PARTS["tune"] else "test"

    @property
    def words(self) -> list[tuple[int, int]]:
        """Spans of the damaged words that the editors filled in completely."""
        return [
            word.span()
            for word in re.finditer(r"\S+", self.damaged)
            if DOT in word[0] and DOT not in self.clean[slice(*word.span())]
        ]


def read_plays(corpora: Path) -> dict[str, list[Play]]:
    """Read the plays of each part."""
    path = find_file(corpora, DOMAIN, SPLIT)
    if path is None:
        name = f"{DOMAIN}.{SPLIT}.jsonl.gz"
        raise ConservatorError(
            f"there is no {name} in {corpora}; expected one play per line, with the fields id, clean and damaged"
        )
    plays: dict[str, list[Play]] = {part: [] for part in PARTS}
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                record = json.loads(line)
                play = Play(record["id"], record["damaged"], record["clean"])
                if len(play.damaged) != len(play.clean):
                    raise ValueError(f"damaged and clean of line {number} differ in length")
                plays[play.part].append(play)
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise ConservatorError(
            f"cannot read {path}: expected one play per line, with the fields id, clean and damaged: {error}"
        ) from error
    if not all(plays.values()):
        empty = ", ".join(part for part, part_plays in plays.items() if not part_plays)
        raise ConservatorError(f"{path} has too few plays: none for {empty}")
    return plays


def clean_text(play: Play) -> str:
    """Return the text of the editors, without letters that they did not fill in."""
    return play.clean.replace(DOT, "")


def load_or_train_expert(
    plays: Sequence[Play], start: ByteExpert, config: TrainingConfig, seed: int, cache: Path
) -> ByteExpert:
    """Fine-tune the byte expert ``start`` on plays, or load the result from ``cache``."""
    documents = tuple(clean_text(play).encode() for play in plays)
    fingerprint = hashlib.sha256(b"\0".join(documents)).hexdigest()
    inputs = [asdict(config), MAX_HIDDEN, start.spec.fingerprint, fingerprint, seed]
    folder = cache / hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16] / "plays"
    if not is_finished(folder):
        plan = Plan(config, seed, config.steps, None, fingerprint)
        learner = ByteLearner(start.network.config, MAX_HIDDEN, start.network)
        resume = (folder / "training.safetensors").exists()
        run_training(plan, Corpus(documents, 0, fingerprint), folder, learner=learner, resume=resume)
    return load_expert(folder)
