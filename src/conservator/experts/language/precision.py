"""How a network computes: in float32 or bfloat16, whichever this machine is quicker at, or in int8."""

import time
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor, nn

Precision = Literal["float32", "bfloat16", "int8"]
ROWS, WIDTH = 64, 768  # a typical product: so many tokens in one step, through a layer so wide
MARGIN = 1.15  # float32 has no loss: another must be this much quicker
LARGEST = 127  # the largest of signed bytes


class Int8Linear(nn.Module):
    """y = W x + b with the rows of W in int8, each with its own scale, and each x in 7 bits, by its largest entry.

    With one scale for all tokens of a step, those that are far larger than others would drown them. Eight bits of x
    overflow the sums of processors without instructions for such products.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """Quantise (out, in) weights; nothing of them is kept."""
        super().__init__()
        weight = weight.detach().float()
        scales = (weight.abs().amax(dim=1) / LARGEST).clamp_min(torch.finfo(torch.float32).tiny)
        zeros = torch.zeros(len(scales), dtype=torch.int64)
        with warnings.catch_warnings():  # torch means to replace these tensors
            warnings.filterwarnings("ignore", message=".*quantize_per_channel.*deprecated")
            rows = torch.quantize_per_channel(weight, scales.double(), zeros, 0, torch.qint8)
        self.packed = torch.ops.quantized.linear_prepack(rows, None)
        self.bias = None if bias is None else nn.Parameter(bias.detach().float(), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) float32 -> (..., out) float32."""
        largest = x.abs().amax(dim=-1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)
        y: Tensor = torch.ops.quantized.linear_dynamic(x / largest, self.packed, True) * largest
        return y if self.bias is None else y + self.bias


def prepare(network: Any, precision: Precision) -> None:
    """Bring a causal language model of transformers into a precision, in place, layer by layer."""
    if precision == "int8":
        output = network.get_output_embeddings()
        for module in list(network.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, nn.Linear):
                    setattr(module, name, Int8Linear(child.weight, child.bias))
                elif type(child).__name__ == "Conv1D":  # of GPT-2: a linear layer with its weights transposed
                    setattr(module, name, Int8Linear(child.weight.T, child.bias))
        assert network.get_output_embeddings() is not output
        network.float()
    else:
        network.to(getattr(torch, precision))


def choose_precision() -> Precision:
    """The precision in which one typical product is quicker here, measured once in a process (some milliseconds).

    Never int8, which loses more than a hundredth of the nats: it is for those who name it.
    """
    return _quickest(torch.get_num_threads())


@cache
def _quickest(threads: int) -> Precision:
    """Measure; what is quickest may depend on the number of threads."""
    drawn = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(rows, WIDTH, generator=drawn) for rows in (ROWS, 2 * WIDTH))
    ways: dict[Precision, Callable[[], Tensor]] = {"float32": lambda: nn.functional.linear(x, weight)}
    halves = x.bfloat16(), weight.bfloat16()
    ways["bfloat16"] = lambda: nn.functional.linear(*halves)
    with torch.inference_mode():
        seconds = {name: _seconds(way) * (1 if name == "float32" else MARGIN) for name, way in ways.items()}
    return min(seconds, key=lambda name: seconds[name])


def _seconds(way: Callable[[], Tensor], tries: int = 5) -> float:
    """The time of the quickest of some tries, after one that does not count."""
    way()
    taken = []
    for _ in range(tries):
        start = time.perf_counter()
        way()
        taken.append(time.perf_counter() - start)
    return min(taken)
