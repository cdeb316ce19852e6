"""Experts that studies train themselves: once, on all cores, and kept for the next run."""

import hashlib
import json
import multiprocessing
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from multiprocessing.pool import Pool
from pathlib import Path

import torch

from conservator.experts import Expert, load_experts
from conservator.system.processes import available_cores
from conservator.training import Corpus, Plan, TrainingTarget, hold_out, is_begun, is_finished, run_training
from conservator_studies.study import Track


@dataclass(frozen=True)
class Recipe:
    """How an expert is trained, and on what.

    Attributes:
        name: of the expert.
        corpus: the texts.
        wish: what it is.
        steps: how many.
        preset: of its training.
        seed: of its training.
    """

    name: str
    corpus: Corpus
    wish: TrainingTarget
    steps: int
    preset: str = "laptop"
    seed: int = 0

    def folder(self, home: Path) -> Path:
        """Where it is kept: two recipes that differ in anything but the name of a folder have different ones."""
        base = self.wish.base and load_experts([str(self.wish.base)], own_tokens=True)[0].spec.fingerprint
        config = asdict(self.wish.presets[self.preset])
        facts = [config, asdict(replace(self.wish, base=None)), base, self.corpus.fingerprint, self.steps, self.seed]
        return home / hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16] / self.name

    def train(self, folder: Path) -> None:
        """Train it, from where an interrupted run stopped."""
        resume = is_begun(folder)
        documents = hold_out(self.corpus, self.seed)[0]
        preset = self.wish.presets[self.preset]
        config, learner = self.wish.learner(preset, documents, folder, resume=resume, device="cpu")
        read = f"{self.corpus.fingerprint} {learner.vocabulary.fingerprint}"
        plan = Plan(config, self.seed, self.steps, None, read)
        run_training(plan, self.corpus, folder, learner=learner, resume=resume)


def train_once(recipes: Sequence[Recipe], home: Path, track: Track) -> dict[str, Path]:
    """Train the experts that are not below ``home`` yet, and return the folder of each by its name.

    An interrupt ends all trainings; the next call goes on where they were.
    """
    folders = {recipe.name: recipe.folder(home) for recipe in recipes}
    missing = [(recipe, folder) for recipe in recipes if not is_finished(folder := folders[recipe.name])]
    if missing:
        with start_workers(len(missing)) as workers:
            trained = workers.imap_unordered(train, missing)
            for _ in track(range(len(missing)), f"training {', '.join(recipe.name for recipe, _ in missing)}"):
                next(trained)
    return folders


def train(job: tuple[Recipe, Path]) -> None:
    """Train an expert in a folder."""
    recipe, folder = job
    recipe.train(folder)


def start_workers(count: int) -> Pool:
    """Processes for so many trainings, as many as there are cores at most; they end with the ``with`` block."""
    return multiprocessing.get_context("spawn").Pool(min(available_cores(), count), prepare_worker)


def prepare_worker() -> None:
    """One core for each; an interrupt is for the process that started them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)


def load_all(folders: Mapping[str, Path]) -> dict[str, Expert]:
    """Load experts over their own tokens; adapters of one base share it."""
    experts = load_experts([str(folder) for folder in folders.values()], own_tokens=True)
    return dict(zip(folders, experts, strict=True))


def text_corpus(documents: Sequence[bytes]) -> Corpus:
    """Texts that a study made as a corpus."""
    digest = hashlib.sha256()
    for document in documents:
        digest.update(len(document).to_bytes(8, "big") + document)
    return Corpus(tuple(documents), 0, digest.hexdigest())
