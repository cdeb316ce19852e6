"""How a pretrained network computes: in bfloat16 where the processor has instructions for it, else in float32."""

from typing import Literal

import torch

Precision = Literal["float32", "bfloat16"]
NATIVE = ("amx_bf16", "avx512_bf16", "bf16")  # Intel, Intel and AMD, ARM


def choose_precision() -> Precision:
    """``bfloat16`` if the processor multiplies it natively, else ``float32``.

    The choice depends on the processor alone, so that the same machine gives the same result in every run.
    """
    has = torch.cpu.get_capabilities()
    return "bfloat16" if any(has.get(name, False) for name in NATIVE) else "float32"


def precision_of(network: torch.nn.Module) -> str:
    """The precision of the weights of a network, such as ``bfloat16``."""
    return str(next(network.parameters()).dtype).removeprefix("torch.")
