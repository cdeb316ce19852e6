"""Damage a clean document, for tests of restoration."""

from typing import Literal, TypeVar

import numpy as np
import torch

from conservator.documents.damaged import MARK, encode
from conservator.errors import Advice, ConservatorError
from conservator.vocabularies import BYTES

Text = TypeVar("Text", str, bytes)


def damage(
    document: Text,
    rate: float,
    *,
    channel: Literal["mask", "replacement"] = "mask",
    burst: int = 1,
    mark: str = MARK,
    seed: int = 0,
) -> Text:
    """Damage an expected fraction ``rate`` of a document: of its bytes, or of its characters if it is a ``str``.

    Args:
        document: any bytes, or a text.
        rate: the expected damaged fraction.
        channel: ``mask`` replaces a damaged byte by a mark; ``replacement`` replaces it by a random byte, so that the
            document does not show which bytes are damaged.
        burst: the number of consecutive bytes that are damaged together. Bursts start anywhere, and may overlap.
        mark: the text that stands for a lost byte; the document must not contain it.
        seed: the random seed.
    """
    if not 0 <= rate <= 1:
        raise ConservatorError(f"rate must be between 0 and 1, got {rate}")
    if burst < 1:
        raise ConservatorError(f"burst must be at least 1, got {burst}")
    if channel not in ("mask", "replacement"):
        raise ConservatorError(f"no channel {channel!r}; known: mask, replacement")
    marker = mark if isinstance(document, str) else encode(mark, "the mark")
    if channel == "mask" and (not marker or marker in document):
        unit = "character" if isinstance(document, str) else "byte"
        problem = f"occurs at {unit} {document.find(marker)} of the document" if marker else "is empty"
        raise ConservatorError(f"the mark {mark!r} {problem}", Advice("mark", "TEXT", "selects another mark"))
    generator = torch.Generator().manual_seed(seed)
    # A byte is undamaged if no burst starts at it or at the burst - 1 positions before it, some of which are before the
    # start of the document.
    start_rate = 1 - (1 - rate) ** (1 / burst)
    width = min(burst, max(len(document), 1))
    drawn = torch.rand(len(document) + width - 1, generator=generator, dtype=torch.float64).numpy()
    starts = drawn < start_rate
    if burst > width:  # a burst from any of these positions covers the whole document; one draw stands for all of them
        starts[width - 1 : width] = drawn[width - 1 : width] < 1 - (1 - rate) ** ((burst - width + 1) / burst)
    counts = np.concatenate([[0], np.cumsum(starts)])
    damaged = counts[width:] > counts[:-width]
    if channel == "replacement":
        if isinstance(document, str):
            raise ConservatorError("the replacement channel needs bytes, got a text; encode it first")
        noise = torch.randint(BYTES.size, (len(document),), generator=generator).numpy()
        return np.where(damaged, noise, np.frombuffer(document, dtype=np.uint8)).astype(np.uint8).tobytes()
    return document[:0].join(
        marker if lost else document[position : position + 1] for position, lost in enumerate(damaged.tolist())
    )
