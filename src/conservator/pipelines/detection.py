"""Identify how a document was damaged: compare the evidence of the channels.

Marks, gap markers, overwritten bytes and text in a wrong encoding are found without a comparison. For other errors in
visible text, every channel restores a sample of the document. With the calibrated probabilities p of its edits, the
evidence of a channel against undamaged text is

    sum over edits of  log p / (1 - p)

A channel is selected if it has enough evidence and enough edits for the size of the sample. Channels of spaces, letter
case and broken words are special: the other channels also make their corrections, so edits that only change these do
not count for others. If both a special and another channel have enough evidence, the special one is selected, unless
the evidence of the other is a considerable part of its own.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from conservator.channel_names import CASE, HYPHENATION, MASK, MOJIBAKE, OCR, SPACES
from conservator.documents import overwritten_rate
from conservator.options import RestoreOptions
from conservator.pipelines.task import PipelineTask
from conservator.results import Edit, Restoration

Stage = Callable[[PipelineTask], Restoration]
SPECIAL = (HYPHENATION, SPACES, CASE)
LAYOUT = re.compile("[\\s\u00ad\u00ac\u2e17=-]+")  # spaces, line ends and hyphens


@dataclass(frozen=True)
class DetectionConfig:
    """Constants of the detection."""

    sample_chunks: int = 4  # chunks: of a long document, evenly spaced [untuned]
    chunk_bytes: int = 1000  # bytes: length of a chunk, up to the end of its last line [untuned]
    max_edit_nats: float = 4.0  # nats: bound of the evidence of one edit [untuned]
    min_nats: float = 3.0  # nats: evidence of a channel that is selected [untuned]
    max_bytes_per_edit: int = 500  # bytes: undamaged text has fewer edits than one per this many bytes [untuned]
    # ratio: evidence of another channel to that of a special one, above which it is selected [LOG: detection-of-damage]
    min_ratio: float = 0.1
    # factor: of the evidence of OCR errors, whose models also correct typing errors [LOG: detection-of-damage]
    ocr_weight: float = 0.6


CONFIG = DetectionConfig()


@dataclass(frozen=True)
class Evidence:
    """The evidence for a channel in a sample.

    Attributes:
        nats: Log-odds against undamaged text.
        edits: Number of edits.
    """

    nats: float
    edits: int

    @classmethod
    def of(cls, result: Restoration, *, is_special: bool = True, weight: float = 1.0) -> "Evidence":
        """Sum the evidence of the corrections of a result.

        Args:
            result: The result of a channel.
            is_special: Whether corrections count that only change spaces, letter case and hyphens.
            weight: Factor of the sum.
        """
        edits = [edit for edit in result.corrections if is_special or changes_letters(result, edit)]
        probabilities = np.array([edit.probability for edit in edits])
        clipped = np.clip(probabilities, 1e-9, 1 - 1e-9)
        nats = np.minimum(np.log(clipped) - np.log1p(-clipped), CONFIG.max_edit_nats)
        return cls(weight * float(nats.sum()), len(nats))

    def is_sufficient(self, size: int) -> bool:
        """Return whether undamaged text of ``size`` bytes has less evidence."""
        return self.nats >= CONFIG.min_nats and self.edits * CONFIG.max_bytes_per_edit >= size


def detect_channels(task: PipelineTask, stages: Mapping[str, Stage]) -> tuple[str, ...]:
    """Return the channels that damaged a document, in the order of their restoration.

    Args:
        task: The document and the options.
        stages: Name of each channel of errors in visible text -> its stage.
    """
    data, options = task.document.data, task.options
    rate = overwritten_rate(data)
    if rate:
        return (f"replacement:{rate:.2g}",)
    if MOJIBAKE in stages:
        result = run(task, MOJIBAKE, stages[MOJIBAKE])
        if Evidence.of(result).nats > 0:
            return (MOJIBAKE, MASK) if has_markers(result.data, options) else (MOJIBAKE,)
    if has_markers(data, options):
        return (MASK,)
    sample = replace(task, document=replace(task.document, data=sample_lines(data), ocr_confidence=None))
    evidence = {
        name: Evidence.of(
            run(sample, name, stage), is_special=name in SPECIAL, weight=CONFIG.ocr_weight if name == OCR else 1.0
        )
        for name, stage in stages.items()
        if name != MOJIBAKE
    }
    size = len(sample.document.data)
    nats = {name: value.nats for name, value in evidence.items() if value.is_sufficient(size)}
    special = max((name for name in nats if name in SPECIAL), key=nats.__getitem__, default=MASK)
    other = max((name for name in nats if name not in SPECIAL), key=nats.__getitem__, default=special)
    return (other if nats.get(other, 0.0) >= CONFIG.min_ratio * nats.get(special, 0.0) else special,)


def changes_letters(result: Restoration, edit: Edit) -> bool:
    """Return whether a correction changes more than spaces, letter case and hyphens."""
    observed = result.observed[slice(*edit.span)].decode(errors="replace")
    return LAYOUT.sub("", observed).casefold() != LAYOUT.sub("", edit.text).casefold()


def run(task: PipelineTask, channel: str, stage: Stage) -> Restoration:
    """Restore the document of a task as if ``channel`` had damaged it, without language models."""
    return stage(replace(task, options=replace(task.options, channel=channel, effort="fast", alternatives=0), fixed=()))


def has_markers(data: bytes, options: RestoreOptions) -> bool:
    """Return whether a document has marks or gap markers."""
    return any(marker.encode() in data for marker in options.markers)


def sample_lines(data: bytes) -> bytes:
    """Return evenly spaced chunks of whole lines of a document; all of it if it is short."""
    if len(data) <= CONFIG.sample_chunks * CONFIG.chunk_bytes:
        return data
    starts = np.linspace(0, len(data) - CONFIG.chunk_bytes, CONFIG.sample_chunks).astype(int).tolist()
    return b"".join(lines(data, starts))


def lines(data: bytes, starts: Iterable[int]) -> Iterable[bytes]:
    """Yield the lines from the first line start after each position on, about ``chunk_bytes`` long and disjoint."""
    done = 0
    for start in starts:
        first = 0 if start == 0 else max(done, data.find(b"\n", start - 1) + 1)
        end = data.find(b"\n", min(first + CONFIG.chunk_bytes, len(data)))
        done = len(data) if end < 0 else end + 1
        yield data[first:done]
