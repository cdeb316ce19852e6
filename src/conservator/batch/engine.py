"""The interface between a batch and the workers: configuration, tasks, results and the Engine protocol."""

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from conservator.errors import OptionError
from conservator.options import RestoreOptions

RESTORED, UNDAMAGED, COPIED = "restored", "undamaged", "copied"  # outcomes of a document
FACTORY = "conservator.batch.work:make_worker"


@dataclass(frozen=True)
class WorkerConfig:
    """Configuration of a worker; it can be pickled and does not depend on the machine.

    Attributes:
        options: the options of every restoration.
        experts: names of experts; None lets each document select among the built-in ones.
        device: the torch device of the experts.
        precision: number format of pretrained models; it is fixed, so that results agree between machines.
        trust_remote_code: whether code that comes with pretrained models may be run.
        references: reference files and folders, which a worker reads if it corrects OCR errors.
        reference_index: the folder of an index of the references that all workers share, for the memory; None without
            one.
        factory: ``module:function``; the function takes a WorkerConfig and returns a function from a Task and a
            progress callback to a DocumentResult.
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
        """Reject ``max_seconds``: results would differ between machines."""
        if self.options.max_seconds is not None:
            problem = "not supported in a batch: results must not depend on the speed of the machine"
            raise OptionError("max_seconds", problem)


class Task(NamedTuple):
    """A document to restore.

    Attributes:
        number: the number of the task in this run.
        data: the bytes of the document.
        is_text: whether the bytes are UTF-8 text, as in a table; otherwise the encoding is detected.
    """

    number: int
    data: bytes
    is_text: bool = False


@dataclass(frozen=True)
class DocumentResult:
    """Result for one document.

    Attributes:
        outcome: RESTORED, UNDAMAGED (nothing to restore) or COPIED (it could not be restored).
        data: the restored document; None if it is unchanged.
        reason: why it was copied, or why it is written in another encoding.
        binary: whether it was copied because it is not text.
        gave_up: whether it was copied because of a time limit, a memory limit or a crash; a retry may succeed.
        lost: number of lost bytes or characters; for corrections, the number of changes.
        restored: number of restored bytes or characters.
        confident: number of restored ones with a confidence of at least 0.9.
        unfilled: number of lost ones that were left unfilled.
        expected_accuracy: expected share of the restored ones that are correct; None if nothing was restored.
        encoding: the encoding of the input; "" if unknown.
        written: the encoding of the output.
        notices: kind of each notice -> its message.
        weights: expert -> its mean weight at lost positions.
        seconds: wall time.
        cpu_seconds: processor time.
        peak_bytes: peak memory of the worker; 0 if unknown.
    """

    outcome: str
    data: bytes | None = None
    reason: str = ""
    binary: bool = False
    gave_up: bool = False
    lost: int = 0
    restored: int = 0
    confident: int = 0
    unfilled: int = 0
    expected_accuracy: float | None = None
    encoding: str = ""
    written: str = ""
    notices: dict[str, str] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0


Results = Generator[tuple[int, DocumentResult], None, None]


class Engine(Protocol):
    """Runs the tasks of a batch."""

    def run(self, tasks: Iterable[Task]) -> Results:
        """Restore documents: yield the number and the result of each task exactly once, in any order.

        Tasks are taken one at a time, only when a worker needs one, in the thread of the caller. Closing the generator
        stops all workers. A problem of the configuration raises a ConservatorError; a problem of a document is part of
        its result.
        """
        ...
