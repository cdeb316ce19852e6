"""What a batch would cost, from a few of its documents."""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from conservator.batch.engine import COPIED, Engine, Task
from conservator.batch.items import InputFile, Item
from conservator.errors import ConservatorError
from conservator.options import DEFAULTS, RestoreOptions

MEASURED = 5  # documents


@dataclass
class Estimate:
    """What is to be done, and what it would cost.

    Attributes:
        documents: how many there are.
        bytes: in all of them.
        damaged: how many have something to restore.
        lost: marks and gaps in them.
        damaged_bytes: in the damaged ones.
        measured: how many documents were restored to measure the rate.
        seconds: that one worker would take.
    """

    documents: int = 0
    bytes: int = 0
    damaged: int = 0
    lost: int = 0
    damaged_bytes: int = 0
    measured: int = 0
    seconds: float = 0.0


def estimate(input_files: Iterable[InputFile], options: RestoreOptions, engine: Callable[[], Engine]) -> Estimate:
    """Read all documents, and restore a few of the damaged ones: those with the smallest hashes, so at random."""
    found, sample = Estimate(), list[tuple[int, Item]]()
    for input_file in input_files:
        try:
            for item in input_file.items():
                _count(found, item, options, sample)
        except (ConservatorError, OSError):
            continue  # a damaged archive, which would be copied
    tasks = [Task(number, item.data or b"", item.is_text) for number, (_, item) in enumerate(sample)]
    spent = size = 0.0
    for number, done in engine().run(tasks) if tasks else ():
        if done.outcome != COPIED:
            found.measured += 1
            spent += done.seconds
            size += len(tasks[number].data)
    found.seconds = spent / size * found.damaged_bytes if size else 0.0
    return found


def _count(found: Estimate, item: Item, options: RestoreOptions, sample: list[tuple[int, Item]]) -> None:
    found.documents += 1
    found.bytes += item.size
    if item.data is None:
        return
    signs = [sign.encode() for sign in (options.mark, options.gap) if sign]
    lost = sum(item.data.count(sign) for sign in signs)
    if lost or options.channel != DEFAULTS.channel or options.lost == "invalid":
        found.damaged += 1
        found.lost += lost
        found.damaged_bytes += item.size
        known = {one.key for _, one in sample}
        order = -int(item.key[:15], 16)
        if item.key not in known and (len(sample) < MEASURED or order > sample[0][0]):
            (heapq.heappush if len(sample) < MEASURED else heapq.heappushpop)(sample, (order, item))
