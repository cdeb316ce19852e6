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
    """The size of an adapter: its rank, and alpha; its part of a layer is alpha / rank times the product."""

    rank: int = 16
    alpha: int = 32


@dataclass(frozen=True)
class TrainingConfig:
    """How an expert is trained.

    Attributes:
        network: its size.
        steps: the number of steps, unless the command says otherwise.
        batch: windows per step.
        window: tokens per window.
        long: every ``long``-th step has windows as long as the network's context, and fewer of them in proportion; 0
            for never.
        muon: the learning rate of the inner matrices under Muon; None trains everything by AdamW.
        adamw: the learning rate of AdamW, for the embedding and the head (or everything).
        memory: the learning rate of the n-gram memory, also by AdamW.
        weight_decay: of AdamW.
        warmup: steps over which the rates rise from 0.
        decay: the share of the training, at its end, over which the rates fall to 0.
        blocks: if given, windows are drawn from so many blocks of the text that do not overlap.
        half: whether the network computes in bfloat16 where that is safe, in training.
        checkpointing: whether what is inside a block of the network is computed again instead of kept.
        lora: the size of the adapter, if a base gets one and stays as it is.
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
    # The paper's network (14M parameters), optimiser and settings; they need a GPU.
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
    """A network in training. All randomness of step n depends only on the seed and n, so a step can be repeated."""

    def __init__(self, config: TrainingConfig, seed: int, device: torch.device, learner: Learner | None = None) -> None:
        """Draw the initial weights, and make the optimisers; without a ``learner``, it is a byte expert."""
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
        """Muon for the inner matrices, AdamW for the embedding, the head and the memory; or AdamW for everything."""
        config = self.config
        named = self.trained()
        memory = [named.pop("memory.weight")] if "memory.weight" in named else []
        inner = [named.pop(name) for name in list(named) if self.learner.inner(name)]
        groups = [{"params": list(named.values()), "lr": config.adamw}]
        if memory:
            groups.append({"params": memory, "lr": config.memory})
        found: list[torch.optim.Optimizer] = []
        if config.muon is None:
            groups[0]["params"] = [*named.values(), *inner]
        else:
            found.append(Muon(inner, config.muon))
        betas = (0.9, 0.98) if config.muon else (0.9, 0.999)
        found.append(torch.optim.AdamW(groups, betas=betas, weight_decay=config.weight_decay, fused=True))
        for optimiser in found:
            for group in optimiser.param_groups:
                group["peak"] = group["lr"]
        return found

    def step(self, stream: Tensor, progress: float) -> float:
        """Take one step on windows of ``stream``; ``progress`` in [0, 1) is how much of the training is done.

        Returns:
            The loss before the step: nats per token that was predicted.
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
        drops = self.learner.dropout > 0
        with (
            torch.random.fork_rng(devices=[], enabled=drops),
            torch.autocast(self.device.type, torch.bfloat16, enabled=config.half),
        ):
            if drops:
                torch.manual_seed(self.seed * 1_000_003 + self.steps_done)
            loss = self.learner.loss(self.network.train(), windows, generator, self.device)
        if not torch.isfinite(loss):
            raise ConservatorError(f"the loss is {loss.item()} at step {self.steps_done}: training has failed")
        self.network.zero_grad()
        loss.backward()
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = group["peak"] * rate
            optimiser.step()
        self.steps_done += 1
        return float(loss.detach())

    def trained(self) -> dict[str, torch.nn.Parameter]:
        """The weights that are trained, by name."""
        return {name: weight for name, weight in self.network.named_parameters() if weight.requires_grad}

    def state(self) -> dict[str, Tensor]:
        """Everything that a later ``restore`` needs, as named tensors."""
        tensors: dict[str, Tensor] = {f"network.{name}": value for name, value in self.trained().items()}
        for number, optimiser in enumerate(self.optimisers):
            for place, parameter in enumerate(_parameters(optimiser)):
                for key, value in optimiser.state[parameter].items():
                    tensors[f"optimiser.{number}.{place}.{key}"] = value
        return tensors

    def restore(self, tensors: dict[str, Tensor], steps_done: int) -> None:
        """Load a ``state`` that was saved after ``steps_done`` steps; raise a ValueError for what cannot be one."""
        shapes = self.shapes()
        if tensors.keys() != shapes.keys():
            raise ValueError(f"{min(tensors.keys() ^ shapes.keys())} is missing, or not of this network")
        for key, shape in shapes.items():
            found = tensors[key]
            if found.shape != shape or found.dtype != torch.float32 or not found.isfinite().all():
                raise ValueError(f"{key} is no tensor of finite numbers of the shape {tuple(shape)}")
        self.steps_done = steps_done
        with torch.no_grad():
            for name, weight in self.trained().items():
                weight.copy_(tensors[f"network.{name}"])
        for key, value in tensors.items():
            if key.startswith("optimiser."):
                _, number, place, name = key.split(".")
                optimiser = self.optimisers[int(number)]
                parameter = _parameters(optimiser)[int(place)]
                optimiser.state[parameter][name] = value.to(parameter.device).clone()

    def shapes(self) -> dict[str, torch.Size]:
        """The shape of each tensor of a ``state`` after at least one step."""
        found = {f"network.{name}": weight.shape for name, weight in self.trained().items()}
        for number, optimiser in enumerate(self.optimisers):
            kept = ("momentum",) if isinstance(optimiser, Muon) else ("step", "exp_avg", "exp_avg_sq")
            for place, parameter in enumerate(_parameters(optimiser)):
                sizes = {key: torch.Size() if key == "step" else parameter.shape for key in kept}
                found |= {f"optimiser.{number}.{place}.{key}": size for key, size in sizes.items()}
        return found


def byte_learner(config: TrainingConfig) -> ByteLearner:
    """The learner of a config that describes a byte expert."""
    if not isinstance(config.network, NetworkConfig):
        raise ConservatorError("a flow-matching network has to be trained by a learner that knows its vocabulary")
    return ByteLearner(config.network)


def _parameters(optimiser: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimiser.param_groups for parameter in group["params"]]
