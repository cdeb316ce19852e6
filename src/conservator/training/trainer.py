"""Training of experts: cross-entropy at stratified times (appendix "Experts")."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.experts.flow import FlowConfig
from conservator.experts.network import NetworkConfig
from conservator.training.corpus import draw_windows
from conservator.training.learners import ByteLearner, Learner
from conservator.training.muon import Muon


@dataclass(frozen=True)
class Lora:
    """Size of a low-rank adapter, which adds alpha / rank times the product of its matrices to a layer."""

    rank: int = 16
    alpha: int = 32


@dataclass(frozen=True)
class TrainingConfig:
    """Hyperparameters of a training run.

    Attributes:
        network: architecture of the network.
        steps: default number of steps.
        batch: windows per step.
        window: tokens per window.
        long: every ``long``-th step has windows of the maximum length, and proportionally fewer; 0 for never.
        muon: learning rate of Muon for hidden matrices; None trains all weights with AdamW.
        adamw: learning rate of AdamW, for the embedding and the head (or all weights).
        memory: learning rate of AdamW for the n-gram table.
        weight_decay: weight decay of AdamW.
        warmup: steps of the linear increase of the learning rates.
        decay: fraction of the training, at its end, in which the learning rates decrease to 0.
        blocks: number of disjoint blocks of the text that windows are drawn from; None for arbitrary windows.
        half: whether to train with bfloat16 autocast.
        checkpointing: whether to use gradient checkpointing.
        lora: size of the adapter; None to train all weights.
    """

    network: NetworkConfig | FlowConfig = field(default_factory=NetworkConfig)
    steps: int = 5000
    batch: int = 24
    window: int = 256
    long: int = 8
    muon: float | None = 0.05
    adamw: float = 0.006
    memory: float = 0.015
    weight_decay: float = 0.0
    warmup: int = 50
    decay: float = 0.4
    blocks: int | None = None
    half: bool = False
    checkpointing: bool = False
    lora: Lora | None = None


PRESETS = {
    "small": TrainingConfig(),
    # The network (14M parameters), optimiser and settings of the paper; they need a GPU.
    "paper": TrainingConfig(
        network=NetworkConfig(
            context=256,
            channels=384,
            convolutions=0,
            memory=0,
            patch=1,
            width=384,
            layers=8,
            heads=12,
            dropout=0.1,
        ),
        steps=20_000,
        batch=48,
        muon=None,
        adamw=3e-4,
        weight_decay=0.01,
        warmup=400,
        decay=0.0,
    ),
}


class Trainer:
    """Trains a network. The randomness of step n depends only on the seed and n, so a step can be repeated."""

    def __init__(self, config: TrainingConfig, seed: int, device: torch.device, learner: Learner | None = None) -> None:
        """Create the network and the optimisers; without a ``learner``, a byte expert is trained."""
        self.config, self.seed, self.device = config, seed, device
        self.learner = learner or byte_learner(config)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network: Any = self.learner.make()
        self.network = network.to(device)
        self.network.checkpointing = config.checkpointing
        self.steps_done = 0
        self.optimisers = list(self._optimisers())

    def _optimisers(self) -> list[torch.optim.Optimizer]:
        """Create Muon for hidden matrices and AdamW for the other weights, or AdamW for all weights."""
        config = self.config
        named = self.trained()
        memory = [named.pop("memory.weight")] if "memory.weight" in named else []
        inner = [named.pop(name) for name in list(named) if self.learner.inner(name)]
        groups = [{"params": list(named.values()), "lr": config.adamw}]
        if memory:
            groups.append({"params": memory, "lr": config.memory})
        optimisers: list[torch.optim.Optimizer] = []
        if config.muon is None:
            groups[0]["params"] = [*named.values(), *inner]
        else:
            optimisers.append(Muon(inner, config.muon))
        betas = (0.9, 0.98) if config.muon else (0.9, 0.999)
        optimisers.append(torch.optim.AdamW(groups, betas=betas, weight_decay=config.weight_decay, fused=True))
        for optimiser in optimisers:
            for group in optimiser.param_groups:
                group["peak"] = group["lr"]
        return optimisers

    def step(self, stream: Tensor, progress: float) -> float:
        """Take one step on windows of ``stream``; ``progress`` in [0, 1) is the completed fraction of the training.

        Returns:
            The loss before the step, in nats per predicted token.
        """
        config = self.config
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.steps_done)
        rate = min(1.0, (self.steps_done + 1) / config.warmup)
        if config.decay:
            rate *= min(1.0, (1 - progress) / config.decay)
        long = config.long and self.steps_done % config.long == config.long - 1
        length = min(self.learner.context if long else config.window, len(stream))
        count = max(1, config.batch * config.window // length)
        windows = draw_windows(stream, count, length, generator, aligned=config.blocks is not None)
        has_dropout = self.learner.dropout > 0
        with (
            torch.random.fork_rng(devices=[], enabled=has_dropout),
            torch.autocast(self.device.type, torch.bfloat16, enabled=config.half),
        ):
            if has_dropout:
                torch.manual_seed(self.seed * 1_000_003 + self.steps_done)
            loss = self.learner.loss(self.network.train(), windows, generator, self.device)
        if not torch.isfinite(loss):
            raise ConservatorError(f"training failed: the loss is {loss.item()} at step {self.steps_done}")
        self.network.zero_grad()
        loss.backward()
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = group["peak"] * rate
            optimiser.step()
        self.steps_done += 1
        return float(loss.detach())

    def trained(self) -> dict[str, torch.nn.Parameter]:
        """Return the trained weights by name."""
        return {name: weight for name, weight in self.network.named_parameters() if weight.requires_grad}

    def state(self) -> dict[str, Tensor]:
        """Return the state for ``restore`` as named tensors."""
        tensors: dict[str, Tensor] = {f"network.{name}": value for name, value in self.trained().items()}
        for number, optimiser in enumerate(self.optimisers):
            for index, parameter in enumerate(_parameters(optimiser)):
                for key, value in optimiser.state[parameter].items():
                    tensors[f"optimiser.{number}.{index}.{key}"] = value
        return tensors

    def restore(self, tensors: dict[str, Tensor], steps_done: int) -> None:
        """Load a ``state`` that was saved after ``steps_done`` steps; raise a ValueError if it is invalid."""
        shapes = self.shapes()
        if tensors.keys() != shapes.keys():
            raise ValueError(f"the tensor {min(tensors.keys() ^ shapes.keys())} is missing or unexpected")
        for key, shape in shapes.items():
            tensor = tensors[key]
            if tensor.shape != shape or tensor.dtype != torch.float32 or not tensor.isfinite().all():
                raise ValueError(f"{key} must be a finite float32 tensor of shape {tuple(shape)}")
        self.steps_done = steps_done
        with torch.no_grad():
            for name, weight in self.trained().items():
                weight.copy_(tensors[f"network.{name}"])
        for key, value in tensors.items():
            if key.startswith("optimiser."):
                _, number, index, name = key.split(".")
                optimiser = self.optimisers[int(number)]
                parameter = _parameters(optimiser)[int(index)]
                optimiser.state[parameter][name] = value.to(parameter.device).clone()

    def shapes(self) -> dict[str, torch.Size]:
        """Return the shape of each tensor of a ``state`` after at least one step."""
        shapes = {f"network.{name}": weight.shape for name, weight in self.trained().items()}
        for number, optimiser in enumerate(self.optimisers):
            keys = ("momentum",) if isinstance(optimiser, Muon) else ("step", "exp_avg", "exp_avg_sq")
            for index, parameter in enumerate(_parameters(optimiser)):
                sizes = {key: torch.Size() if key == "step" else parameter.shape for key in keys}
                shapes |= {f"optimiser.{number}.{index}.{key}": size for key, size in sizes.items()}
        return shapes


def byte_learner(config: TrainingConfig) -> ByteLearner:
    """Return the learner for the config of a byte expert."""
    if not isinstance(config.network, NetworkConfig):
        raise ConservatorError("a flow-matching network needs a learner with a vocabulary, got none")
    return ByteLearner(config.network)


def _parameters(optimiser: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimiser.param_groups for parameter in group["params"]]
