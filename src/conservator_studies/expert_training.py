"""Train the experts of studies in parallel, and cache them for the next run."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from conservator.execution import OnProgress, WorkerPool
from conservator.experts import Expert, load_experts
from conservator.system.processes import available_cores
from conservator.training import Corpus, Plan, TrainingTarget, hold_out, is_finished, is_resumable, run_training
from conservator_studies.study import Track

FACTORY = "conservator_studies.expert_training:make_trainer"


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
        with closing(WorkerPool(FACTORY, None, min(available_cores(), len(missing)))) as pool:
            trained = pool.run(missing)
            for _ in track(range(len(missing)), f"training {', '.join(recipe.name for recipe, _ in missing)}"):
                next(trained).result()
    return folders


def make_trainer(_: None) -> Callable[[tuple[Recipe, Path], OnProgress], None]:
    """Return the handler of a worker: it trains the expert of a recipe in a folder, with one thread."""
    torch.set_num_threads(1)
    return lambda job, on_progress: job[0].train(job[1])


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
