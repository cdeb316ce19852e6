"""What an engine is given, what it gives back, and what it is: the seam between a batch and who computes."""

import time
from collections import Counter, deque
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from conservator.errors import ConservatorError, OptionError
from conservator.options import RestoreOptions

RESTORED, WHOLE, COPIED = "restored", "nothing lost", "copied"
FACTORY = "conservator.batch.work:make_worker"
DEATHS = 3  # of workers on one document, after which it is copied; a chance kill or two is not its fault
STARTS = 5  # workers in a row that end before they are ready, after which something must be wrong with all
WATCH = 0.1  # seconds between two looks at what workers are at


@dataclass(frozen=True)
class WorkerConfig:
    """What a worker is made of; it can be pickled, and says nothing about the machine.

    Attributes:
        options: of every restoration.
        experts: names of experts; None lets each document choose among the built-in ones.
        device: where experts compute.
        precision: how pretrained models compute: the same on every machine, so that the results are.
        trust_remote_code: whether code that comes with pretrained models may be run.
        references: files and folders of texts like the documents, for the correction of text that may be wrong anywhere.
        reference_index: the folder of an index of such texts, which workers share; None without one.
        factory: ``module:function`` of what makes a worker of a Setup: a callable of a Task that returns Done.
    """

    options: RestoreOptions
    experts: tuple[str, ...] | None = None
    device: str = "cpu"
    precision: str = "float32"
    trust_remote_code: bool = False
    references: tuple[str, ...] = ()
    reference_index: str | None = None
    factory: str = FACTORY

    def __post_init__(self) -> None:
        """Refuse a limit of time that keeps what was reached: the same document would have other results elsewhere."""
        if self.options.max_seconds is not None:
            raise OptionError("max_seconds", "in a batch a result must not depend on the speed of a machine")


class Task(NamedTuple):
    """A document to restore: its number in this run, its bytes, and whether these are known to be text in UTF-8."""

    number: int
    data: bytes
    is_text: bool = False


@dataclass(frozen=True)
class DocumentResult:
    """What came of a document.

    Attributes:
        outcome: RESTORED, WHOLE (nothing was lost) or COPIED (it cannot be restored, and stays as it was).
        data: the restored document; None where it stays as it was.
        reason: why it is copied, or why it is written in another encoding than it was read in.
        binary: whether it is copied because it is not text.
        gave_up: whether it is copied because of time, memory or a worker that died: another try may do better.
        lost: how many bytes or characters were lost, or were changed.
        restored: how many of them were filled in.
        confident: how many of these with a confidence of at least 0.9.
        left_open: how many were left open.
        expected: which share of what was filled in should be right.
        encoding: in which it was read; "" if that is not known.
        written: the encoding in which it is written.
        notices: the kind of each notice of the restoration -> its message.
        shares: expert -> its mean weight where something was lost.
        seconds: that it took.
        cpu_seconds: of the processor.
        peak_bytes: the most memory that the worker had in use meanwhile; 0 if that is not known.
    """

    outcome: str
    data: bytes | None = None
    reason: str = ""
    binary: bool = False
    gave_up: bool = False
    lost: int = 0
    restored: int = 0
    confident: int = 0
    left_open: int = 0
    expected: float | None = None
    encoding: str = ""
    written: str = ""
    notices: dict[str, str] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0


Results = Generator[tuple[int, DocumentResult], None, None]


class Engine(Protocol):
    """Who restores the documents of a batch."""

    def run(self, tasks: Iterable[Task]) -> Results:
        """Restore documents: the number and the result of each, exactly once, in any order.

        Tasks are taken one after the other, only as they are needed, in the thread of the caller. Closing the generator
        ends all work. What is wrong with the setup is raised as a ConservatorError; what is wrong with a document is
        part of its result.
        """
        ...


def gave_up(reason: str, began: float) -> DocumentResult:
    """The result for a document that a worker began with at a time and could not finish."""
    return DocumentResult(COPIED, reason=reason, gave_up=True, seconds=time.monotonic() - began)


@dataclass
class Deaths:
    """The workers of a run that have died: on each document, and in a row before they were ready."""

    on: Counter[int] = field(default_factory=Counter)
    early: int = 0

    def count_early(self, how: str) -> None:
        """A worker has died before it was ready; raise a ConservatorError if so many did that more will."""
        self.early += 1
        if self.early >= STARTS:
            raise ConservatorError(f"workers end before they are ready: {how}; fewer --jobs need less memory")

    def count(self, task: Task, began: float, how: str, waiting: deque[Task]) -> list[tuple[int, DocumentResult]]:
        """A worker has died on a document: it is tried again, unless too many have died on it."""
        self.on[task.number] += 1
        if self.on[task.number] < DEATHS:
            waiting.append(task)
            return []
        return [(task.number, gave_up(f"{DEATHS} workers died on it: {how}", began))]
