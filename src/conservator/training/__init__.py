"""Training and evaluation of experts: corpora, training runs, model cards, the specialisation check."""

from conservator.training.card import loss_unit, write_card
from conservator.training.corpus import Corpus, as_stream, hold_out, read_corpus
from conservator.training.learners import ByteLearner
from conservator.training.path import noise
from conservator.training.presets import TrainingTarget
from conservator.training.runs import Plan, TrainingProgress, is_finished, is_resumable, run_training
from conservator.training.scoring import ratio
from conservator.training.specialisation import Check, check_specialisation
from conservator.training.strip import FILTERS, Filter, find_python_comments
from conservator.training.trainer import PRESETS, Trainer, TrainingConfig

__all__ = [
    "FILTERS",
    "PRESETS",
    "ByteLearner",
    "Check",
    "Corpus",
    "Filter",
    "Plan",
    "Trainer",
    "TrainingConfig",
    "TrainingProgress",
    "TrainingTarget",
    "as_stream",
    "check_specialisation",
    "find_python_comments",
    "hold_out",
    "is_finished",
    "is_resumable",
    "loss_unit",
    "noise",
    "ratio",
    "read_corpus",
    "run_training",
    "write_card",
]
