"""Training of byte experts: masked cross-entropy at stratified times (appendix "Experts")."""

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from conservator.errors import ConservatorError
from conservator.experts.network import HIDDEN, ByteNetwork, NetworkConfig
from conservator.training.corpus import draw_windows
from conservator.training.muon import Muon
from conservator.training.path import noise


@dataclass(frozen=True)
class TrainingConfig:
    """How an expert is trained.

    Attributes:
        network: its size.
        steps: the number of steps, unless the command says otherwise.
        batch: windows per step.
        window: bytes per window.
        long: every ``long``-th step has windows as long as the network's context, and fewer of them in proportion.
        muon: the learning rate of the inner matrices under Muon; None trains everything by AdamW.
        adamw: the learning rate of AdamW, for the embedding and the head (or everything).
        memory: the learning rate of the n-gram memory, also by AdamW.
        weight_decay: of AdamW.
        warmup: steps over which the rates rise from 0.
        decay: the share of the training, at its end, over which the rates fall to 0.
    """

    network: NetworkConfig = field(default_factory=NetworkConfig)
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

    def __init__(self, config: TrainingConfig, seed: int, device: torch.device) -> None:
        """Draw the initial weights, and make the optimisers."""
        self.config, self.seed, self.device = config, seed, device
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = ByteNetwork(config.network).to(device)
        self.steps_done = 0
        self.optimisers = list(self._optimisers())

    def _optimisers(self) -> list[torch.optim.Optimizer]:
        """Muon for the inner matrices, AdamW for the embedding, the head and the memory; or AdamW for everything."""
        config = self.config
        named = dict(self.network.named_parameters())
        memory = [named.pop("memory.weight")] if "memory.weight" in named else []
        inner = [named.pop(name) for name in list(named) if not name.startswith(("embed.", "head."))]
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
            The loss before the step: nats per hidden byte.
        """
        config = self.config
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.steps_done)
        rate = min(1.0, (self.steps_done + 1) / config.warmup)
        if config.decay:
            rate *= min(1.0, (1 - progress) / config.decay)
        length = config.network.context if self.steps_done % config.long == config.long - 1 else config.window
        length = min(length, len(stream))
        windows = draw_windows(stream, max(1, config.batch * config.window // length), length, generator)
        _, hidden = noise(windows, generator)
        windows, hidden = windows.to(self.device), hidden.to(self.device)
        with torch.random.fork_rng(devices=[], enabled=config.network.dropout > 0):
            if config.network.dropout:
                torch.manual_seed(self.seed * 1_000_003 + self.steps_done)
            features = self.network.train().features(windows.masked_fill(hidden, HIDDEN), torch.ones_like(hidden))
        loss = functional.cross_entropy(self.network.logits(features[hidden]), windows[hidden])
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

    def state(self) -> dict[str, Tensor]:
        """Everything that a later ``restore`` needs, as named tensors."""
        tensors = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        for number, optimiser in enumerate(self.optimisers):
            for place, parameter in enumerate(_parameters(optimiser)):
                for key, value in optimiser.state[parameter].items():
                    tensors[f"optimiser.{number}.{place}.{key}"] = value
        return tensors

    def restore(self, tensors: dict[str, Tensor], steps_done: int) -> None:
        """Load a ``state`` that was saved after ``steps_done`` steps."""
        self.steps_done = steps_done
        prefix = "network."
        self.network.load_state_dict({k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)})
        for key, value in tensors.items():
            if key.startswith("optimiser."):
                _, number, place, name = key.split(".")
                optimiser = self.optimisers[int(number)]
                parameter = _parameters(optimiser)[int(place)]
                optimiser.state[parameter][name] = value.to(parameter.device).clone()
        if any(not optimiser.state[parameter] for optimiser in self.optimisers for parameter in _parameters(optimiser)):
            raise ValueError("the state of an optimiser is missing")


def _parameters(optimiser: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimiser.param_groups for parameter in group["params"]]
