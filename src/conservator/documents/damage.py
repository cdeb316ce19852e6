"""Damage a clean document, to test how well it is restored."""

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
    """Lose a share ``rate`` of a document, on average: of its bytes, or of its characters if it is given as text.

    Args:
        document: any bytes, or a text.
        rate: the share that is damaged.
        channel: ``mask`` puts a mark in place of a damaged byte; ``replacement`` puts a random byte there, so that the
            document does not show which bytes are damaged.
        burst: how many consecutive bytes are damaged together. Bursts begin anywhere, and may overlap.
        mark: the text that stands for a lost byte; the document must not contain it already.
        seed: the seed of all randomness.
    """
    if not 0 <= rate <= 1:
        raise ConservatorError(f"the share that is damaged is {rate}; it must lie between 0 and 1")
    if burst < 1:
        raise ConservatorError(f"bursts of {burst} bytes; at least 1 is needed")
    if channel not in ("mask", "replacement"):
        raise ConservatorError(f"no channel {channel!r}; known: mask, replacement")
    sign = mark if isinstance(document, str) else encode(mark, "the mark")
    if channel == "mask" and (not sign or sign in document):
        unit = "character" if isinstance(document, str) else "byte"
        where = f"stands at {unit} {document.find(sign)} of the document already" if sign else "is empty"
        raise ConservatorError(f"the mark {mark!r} {where}", Advice("mark", "TEXT", "names another"))
    generator = torch.Generator().manual_seed(seed)
    # A byte is undamaged if no burst begins at it or at the burst - 1 places before it, some of which are before the
    # start of the document.
    begin = 1 - (1 - rate) ** (1 / burst)
    reach = min(burst, max(len(document), 1))
    drawn = torch.rand(len(document) + reach - 1, generator=generator, dtype=torch.float64).numpy()
    begins = drawn < begin
    if burst > reach:  # a burst from any of these places covers the whole document; one draw stands for all of them
        begins[reach - 1 : reach] = drawn[reach - 1 : reach] < 1 - (1 - rate) ** ((burst - reach + 1) / burst)
    counts = np.concatenate([[0], np.cumsum(begins)])
    damaged = counts[reach:] > counts[:-reach]
    if channel == "replacement":
        if isinstance(document, str):
            raise ConservatorError("bytes are replaced, not characters; give bytes")
        noise = torch.randint(BYTES.size, (len(document),), generator=generator).numpy()
        return np.where(damaged, noise, np.frombuffer(document, dtype=np.uint8)).astype(np.uint8).tobytes()
    return document[:0].join(
        sign if lost else document[place : place + 1] for place, lost in enumerate(damaged.tolist())
    )
