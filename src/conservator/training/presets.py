"""Presets of training runs: a base model over a vocabulary, or an adapter of a base."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from conservator.errors import ConservatorError
from conservator.experts.flow import FlowConfig, is_flow, load_base
from conservator.experts.network import NetworkConfig
from conservator.system.files import make_folder, write_atomically
from conservator.training.learners import AdapterLearner, ByteLearner, FlowLearner, Learner
from conservator.training.tokenizer import NAME, read_tokenizer, tokens_of, train_tokenizer
from conservator.training.trainer import PRESETS, Lora, TrainingConfig
from conservator.vocabularies import BYTES, Vocabulary

# For 20 minutes on one CPU core; the vocabulary size and the source are set later.
BASES = {
    "laptop": TrainingConfig(
        network=FlowConfig(1, context=256, width=160, layers=4, heads=4, conditioning=64, reach=2),
        steps=4000,
        batch=8,
        window=128,
        muon=0.03,
        adamw=0.005,
    )
}
ADAPTERS = {
    "laptop": TrainingConfig(steps=500, batch=16, window=128, muon=None, adamw=0.003, warmup=20, lora=Lora()),
    # The settings of the paper for its base of 1.3 billion parameters; they need a GPU.
    "paper": TrainingConfig(
        steps=6000,
        batch=16,
        window=512,
        long=0,
        muon=None,
        adamw=1e-4,
        warmup=1,
        decay=0.0,
        blocks=12_000,
        half=True,
        checkpointing=True,
        lora=Lora(16, 32),
    ),
}


@dataclass(frozen=True)
class TrainingTarget:
    """The model to train.

    Attributes:
        source: mask or uniform.
        vocabulary: ``bytes``; a number, for a tokenizer of this size that is trained on the texts; or the path of a
            tokenizer.
        base: folder of the expert that the adapter is trained for, or None. The adapter has its source and vocabulary.
        rank: rank of the adapter; None for the preset.
        alpha: alpha of the adapter; None for the preset.
    """

    source: str = "mask"
    vocabulary: str = "bytes"
    base: Path | None = None
    rank: int | None = None
    alpha: int | None = None

    @property
    def presets(self) -> dict[str, TrainingConfig]:
        """Training presets by name; the first is the default."""
        if self.base is not None:
            return ADAPTERS
        return PRESETS if (self.source, self.vocabulary) == ("mask", "bytes") else BASES

    def learner(
        self, config: TrainingConfig, documents: Sequence[bytes], folder: Path, *, resume: bool, device: str
    ) -> tuple[TrainingConfig, Learner]:
        """Complete a preset, and create the learner.

        Args:
            config: one of the presets.
            documents: the training texts.
            folder: folder of the run; a trained tokenizer is stored in it.
            resume: whether the run is resumed, with its tokenizer.
            device: device of the base.
        """
        if self.base is not None:
            return adapter_learner(config, self.base, self.rank, self.alpha, device)
        if isinstance(config.network, NetworkConfig):
            return config, ByteLearner(config.network)
        tokenizer: bytes | None = None
        vocabulary: Vocabulary = BYTES
        if self.vocabulary != "bytes":
            tokenizer = choose_tokenizer(self.vocabulary, documents, folder, resume=resume)
            vocabulary = tokens_of(tokenizer)
        is_uniform = self.source == "uniform"
        network = replace(config.network, tokens=vocabulary.size, source=self.source, apart=is_uniform)
        return replace(config, network=network), FlowLearner(network, vocabulary, tokenizer)


def choose_tokenizer(vocabulary: str, documents: Sequence[bytes], folder: Path, *, resume: bool) -> bytes:
    """Train or load the tokenizer of a base."""
    if not vocabulary.isdecimal():
        return read_tokenizer(Path(vocabulary))
    if resume:
        return read_tokenizer(folder / NAME)
    tokenizer = train_tokenizer(documents, int(vocabulary))
    make_folder(folder)
    write_atomically(folder / NAME, tokenizer)
    return tokenizer


def adapter_learner(
    config: TrainingConfig, folder: Path, rank: int | None, alpha: int | None, device: str
) -> tuple[TrainingConfig, Learner]:
    """Complete the preset of an adapter with the properties of its base in ``folder``."""
    if not is_flow(folder):
        raise ConservatorError(
            f"{folder} is not a base for an adapter; expected the folder of a flow-matching expert, for example "
            "from conservator train --vocabulary"
        )
    base = load_base(folder, device)
    network, preset = base.network.config, config.lora or Lora()
    lora = Lora(rank or preset.rank, alpha or preset.alpha)
    config = replace(config, network=network, lora=lora, window=min(config.window, network.context))
    return config, AdapterLearner(base, folder, lora.rank, lora.alpha)
