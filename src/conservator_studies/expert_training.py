"""Train the experts of studies in parallel, and cache them for the next run."""

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
from conservator.training import Corpus, Plan, TrainingTarget, hold_out, is_finished, is_resumable, run_training
from conservator_studies.study import Track


@dataclass(frozen=True)
class Recipe:
    """Training configuration of an expert.

    Attributes:
        name: name of the expert.
        corpus: training texts.
        target: kind of expert.
        steps: number of training steps.
        preset: name of the training preset.
        seed: random seed.
    """

    name: str
    corpus: Corpus
    target: TrainingTarget
    steps: int
    preset: str = "laptop"
    seed: int = 0

    def folder(self, cache: Path) -> Path:
        """Folder of the expert in ``cache``; it depends on all fields, and on the weights of the base model."""
        base = self.target.base and load_experts([str(self.target.base)], native_tokens=True)[0].spec.fingerprint
        config = asdict(self.target.presets[self.preset])
        inputs = [config, asdict(replace(self.target, base=None)), base, self.corpus.fingerprint, self.steps, self.seed]
        return cache / hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16] / self.name

    def train(self, folder: Path) -> None:
        """Train the expert, or resume an interrupted training."""
        resume = is_resumable(folder)
        documents = hold_out(self.corpus, self.seed)[0]
        preset = self.target.presets[self.preset]
        config, learner = self.target.learner(preset, documents, folder, resume=resume, device="cpu")
        fingerprint = f"{self.corpus.fingerprint} {learner.vocabulary.fingerprint}"
        plan = Plan(config, self.seed, self.steps, None, fingerprint)
        run_training(plan, self.corpus, folder, learner=learner, resume=resume)


def train_missing(recipes: Sequence[Recipe], cache: Path, track: Track) -> dict[str, Path]:
    """Train the experts that are not in ``cache``, and return the folder of each expert by name.

    An interrupt stops all trainings; the next call resumes them.
    """
    folders = {recipe.name: recipe.folder(cache) for recipe in recipes}
    missing = [(recipe, folder) for recipe in recipes if not is_finished(folder := folders[recipe.name])]
    if missing:
        with start_workers(len(missing)) as workers:
            trained = workers.imap_unordered(train, missing)
            for _ in track(range(len(missing)), f"training {', '.join(recipe.name for recipe, _ in missing)}"):
                next(trained)
    return folders


def train(job: tuple[Recipe, Path]) -> None:
    """Train the expert of a recipe in a folder."""
    recipe, folder = job
    recipe.train(folder)


def start_workers(count: int) -> Pool:
    """Start ``count`` worker processes, at most one per core; they end with the ``with`` block."""
    return multiprocessing.get_context("spawn").Pool(min(available_cores(), count), prepare_worker)


def prepare_worker() -> None:
    """Use one core; ignore interrupts, because the parent process handles them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)


def load_all(folders: Mapping[str, Path]) -> dict[str, Expert]:
    """Load experts with their native vocabularies; adapters of one base model share it."""
    experts = load_experts([str(folder) for folder in folders.values()], native_tokens=True)
    return dict(zip(folders, experts, strict=True))


def text_corpus(documents: Sequence[bytes]) -> Corpus:
    """Make a corpus from texts."""
    digest = hashlib.sha256()
    for document in documents:
        digest.update(len(document).to_bytes(8, "big") + document)
    return Corpus(tuple(documents), 0, digest.hexdigest())
