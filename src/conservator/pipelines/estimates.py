"""Estimates of the cost of a restoration, before it begins."""

import numpy as np

from conservator.channel_names import AUTO
from conservator.channels import as_channel, needs_experts, split_channels
from conservator.document import Document
from conservator.documents import read_damaged
from conservator.options import DEFAULTS, RestoreOptions
from conservator.pipelines.rescoring import Rescorer
from conservator.system.threads import SINGLE_THREAD_BYTES
from conservator.vocabularies import BYTES

# share: bytes of a text with errors that rescoring is assumed to read, for the time estimate [untuned]
ASSUMED_UNCERTAIN_SHARE = 0.25
ASSUMED_OPEN_SHARE = 0.1  # share: the same for the visible bytes of a text that may be overwritten [untuned]


def estimate_rescoring(rescorer: Rescorer, document: Document, options: RestoreOptions) -> float:
    """Estimate how many seconds language models take with a document."""
    if options.channel == AUTO or not needs_experts(options.channel):
        uncertain = int(ASSUMED_UNCERTAIN_SHARE * len(document.data))
        return rescorer.estimate_seconds(document.data.decode(errors="replace"), uncertain)
    damaged = read_damaged(document.data, mark=options.mark, gap=options.gap_markers)
    visible = damaged.tokens[damaged.tokens != BYTES.mask].astype(np.uint8).tobytes()
    channels = [as_channel(part, BYTES.size) for part in split_channels(options.channel) if needs_experts(part)]
    overwritten = ASSUMED_OPEN_SHARE * any(channel.may_overwrite for channel in channels)
    uncertain = len(damaged.lost) + int(overwritten * len(visible))
    return rescorer.estimate_seconds(visible.decode(errors="replace"), uncertain)


def estimate_bytes_read(document: Document, options: RestoreOptions) -> int:
    """Estimate how many bytes the experts read; language models are slow, so at least SINGLE_THREAD_BYTES."""
    size = len(document.data)
    if options.effort == "best":
        return max(SINGLE_THREAD_BYTES, size)
    if options.evidence_radius is None or options.channel != DEFAULTS.channel:
        return size
    markers = sum(document.data.count(marker.encode()) for marker in options.markers)
    return min(size, 2 * options.evidence_radius * markers)
