"""Frozen denoisers q_i: the expert contract, teams of experts, byte experts, the memory and the lexicon."""

from conservator.experts.byte import ByteExpert, load_expert, read_config, save_expert
from conservator.experts.expert import (
    PAD,
    At,
    Context,
    DocumentExpert,
    Expert,
    ExpertSpec,
    GatePrior,
    check_context,
    copy_visible,
)
from conservator.experts.lexicon import Lexicon, LexiconExpert
from conservator.experts.library import builtin_names, expert_folder, load_experts
from conservator.experts.memory import (
    Memory,
    MemoryExpert,
    MemorySource,
    References,
    load_phrases,
    make_references,
)
from conservator.experts.meter import Cost, Meter, OutOfTimeError, Progress
from conservator.experts.network import ByteNetwork, NetworkConfig
from conservator.experts.source import MaskSource, Source, UniformSource
from conservator.experts.team import Predictions, Team
from conservator.experts.weights import CONFIG, WEIGHTS

__all__ = [
    "CONFIG",
    "PAD",
    "WEIGHTS",
    "At",
    "ByteExpert",
    "ByteNetwork",
    "Context",
    "Cost",
    "DocumentExpert",
    "Expert",
    "ExpertSpec",
    "GatePrior",
    "Lexicon",
    "LexiconExpert",
    "MaskSource",
    "Memory",
    "MemoryExpert",
    "MemorySource",
    "Meter",
    "NetworkConfig",
    "OutOfTimeError",
    "Predictions",
    "Progress",
    "References",
    "Source",
    "Team",
    "UniformSource",
    "builtin_names",
    "check_context",
    "copy_visible",
    "expert_folder",
    "load_expert",
    "load_experts",
    "load_phrases",
    "make_references",
    "read_config",
    "save_expert",
]
