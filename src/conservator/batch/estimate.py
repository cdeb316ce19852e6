"""Estimate the cost of a batch from a sample of its documents."""

import heapq
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from conservator.batch.engine import COPIED, Engine, Task
from conservator.batch.items import InputFile, Item
from conservator.errors import ConservatorError
from conservator.options import DEFAULTS, RestoreOptions

SAMPLE_DOCUMENTS = 5  # documents: restored to measure the speed [untuned]


@dataclass
class CostEstimate:
    """Amount of work in a batch, and its estimated cost.

    Attributes:
        documents: number of documents.
        bytes: their total size.
        damaged: number of documents with something to restore.
        lost: number of marks and gaps in these.
        damaged_bytes: total size of the damaged documents.
        measured: number of documents that were restored to measure the speed.
        seconds: estimated time with one worker.
    """

    documents: int = 0
    bytes: int = 0
    damaged: int = 0
    lost: int = 0
    damaged_bytes: int = 0
    measured: int = 0
    seconds: float = 0.0


def estimate_cost(
    input_files: Iterable[InputFile], options: RestoreOptions, make_engine: Callable[[], Engine]
) -> CostEstimate:
    """Read all documents and restore a sample of the damaged ones: those with the smallest hashes."""
    cost, sample = CostEstimate(), list[tuple[int, Item]]()
    for input_file in input_files:
        with suppress(ConservatorError):  # a damaged archive, which a batch copies
            for item in input_file.read():
                _add_document(cost, item, options, sample)
    tasks = [Task(number, item.data or b"", item.is_text) for number, (_, item) in enumerate(sample)]
    seconds = size = 0.0
    for number, result in make_engine().run(tasks) if tasks else ():
        if result.outcome != COPIED:
            cost.measured += 1
            seconds += result.seconds
            size += len(tasks[number].data)
    cost.seconds = seconds / size * cost.damaged_bytes if size else 0.0
    return cost


def _add_document(cost: CostEstimate, item: Item, options: RestoreOptions, sample: list[tuple[int, Item]]) -> None:
    """Count a document; ``sample`` is a heap of the damaged documents with the smallest hashes, as (-hash, item)."""
    cost.documents += 1
    cost.bytes += item.size
    if item.data is None:
        return
    lost = sum(item.data.count(marker.encode()) for marker in options.markers)
    is_notated = options.notation not in ("auto", "plain")
    if lost or is_notated or options.channel != DEFAULTS.channel or options.lost == "invalid":
        cost.damaged += 1
        cost.lost += lost
        cost.damaged_bytes += item.size
        sampled_keys = {sampled.key for _, sampled in sample}
        order = -int(item.key[:15], 16)
        if item.key not in sampled_keys and (len(sample) < SAMPLE_DOCUMENTS or order > sample[0][0]):
            (heapq.heappush if len(sample) < SAMPLE_DOCUMENTS else heapq.heappushpop)(sample, (order, item))
