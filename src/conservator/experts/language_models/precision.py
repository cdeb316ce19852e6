"""Number format of pretrained networks: bfloat16 if the processor has instructions for it, else float32."""

from typing import Literal

import torch

Precision = Literal["float32", "bfloat16"]
NATIVE_BFLOAT16 = ("amx_bf16", "avx512_bf16", "bf16")  # Intel, Intel and AMD, ARM


def choose_precision() -> Precision:
    """Return ``bfloat16`` if the processor multiplies it natively, else ``float32``.

    The choice depends on the processor only, so that results are reproducible on the same machine.
    """
    capabilities = torch.cpu.get_capabilities()
    return "bfloat16" if any(capabilities.get(name, False) for name in NATIVE_BFLOAT16) else "float32"


def precision_of(network: torch.nn.Module) -> str:
    """Return the number format of the weights of a network, such as ``bfloat16``."""
    return str(next(network.parameters()).dtype).removeprefix("torch.")
