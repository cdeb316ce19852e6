"""The work on one document: a pure function of its bytes and the configuration."""

import hashlib
import time
from codecs import BOM_UTF8
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from conservator.batch.engine import COPIED, RESTORED, UNDAMAGED, DocumentResult, Task, WorkerConfig
from conservator.documents.damaged import MARK, WARMUP_TEXT
from conservator.errors import ConservatorError, NotTextError
from conservator.execution import OnProgress

if TYPE_CHECKING:
    from conservator.batch.references import SharedReferences
    from conservator.experts.language_models.precision import Precision
    from conservator.restorer import Restorer

PROC = Path("/proc/self")  # on Linux
RESET_PEAK = "5"  # written to clear_refs: the kernel resets the peak memory of the process
DocumentWorker = Callable[[Task, OnProgress], DocumentResult]


def make_worker(worker_config: WorkerConfig) -> DocumentWorker:
    """Load the experts of a configuration and restore a small document.

    The warm-up compiles kernels before the first document, and raises errors for options that fit no document.
    """
    import torch

    from conservator.batch.references import SharedReferences
    from conservator.channels import needs_experts
    from conservator.experts import load_experts
    from conservator.options import expert_names
    from conservator.pipelines.references import ReferenceTexts
    from conservator.restorer import Restorer

    torch.set_num_threads(1)
    options = worker_config.options
    precision = cast("Precision", worker_config.precision)
    is_correction = not needs_experts(options.channel)
    loaded = None
    if worker_config.experts is not None or not is_correction:
        loaded = load_experts(
            expert_names(worker_config.experts),
            worker_config.device,
            precision=precision,
            trust_remote_code=worker_config.trust_remote_code,
        )
    language_models = None
    if options.effort == "best":
        from conservator.experts.language_models import load_language_model

        names = [name.strip() for name in options.language_models.split(",")]
        language_models = [load_language_model(name, precision) for name in names]
    folder = worker_config.reference_index
    reference_index = None if folder is None else SharedReferences.open(Path(folder))
    paths = tuple(map(Path, worker_config.references))
    references = ReferenceTexts(paths, options.mark, None if reference_index is None else reference_index.texts)
    restorer = Restorer(
        loaded,
        options,
        references=references,
        select=worker_config.experts is None,
        language_models=language_models,
    )
    restorer.restore(WARMUP_TEXT.replace(MARK, "o" if is_correction else options.mark))
    return lambda task, on_progress: restore_task(restorer, task, reference_index)


def restore_task(restorer: "Restorer", task: Task, reference_index: "SharedReferences | None" = None) -> DocumentResult:
    """Restore one document, which is hidden in the index of references; errors become results.

    The result depends only on the arguments.
    """
    reset_peak()
    start, cpu_start = time.perf_counter(), time.process_time()
    try:
        result = restore_document(restorer, task, reference_index)
    except NotTextError as error:
        result = DocumentResult(COPIED, reason=str(error), binary=True)
    except ConservatorError as error:
        result = DocumentResult(COPIED, reason=str(error))
    except MemoryError:
        result = DocumentResult(COPIED, reason="not enough memory", gave_up=True)
    except Exception as error:  # a bug must not stop the batch
        result = DocumentResult(COPIED, reason=f"unexpected {type(error).__name__}: {error}", gave_up=True)
    return replace(
        result,
        seconds=time.perf_counter() - start,
        cpu_seconds=time.process_time() - cpu_start,
        peak_bytes=peak_memory(),
    )


def restore_document(restorer: "Restorer", task: Task, reference_index: "SharedReferences | None") -> DocumentResult:
    """Restore one document, or raise a ConservatorError if it cannot be restored."""
    from conservator.document import open_document

    if not task.data:
        return DocumentResult(UNDAMAGED)
    document = open_document(task.data.decode() if task.is_text else task.data, restorer.options, read_scans=False)
    sha256 = hashlib.sha256(document.data.removeprefix(BOM_UTF8)).hexdigest()
    with nullcontext() if reference_index is None else reference_index.without(sha256):
        restoration = restorer.restore(document)
    summary, encoding = restoration.summary, restoration.encoding
    notices = {notice.kind: notice.message for notice in restoration.notices}
    if not restoration.changes:
        return DocumentResult(UNDAMAGED, notices=notices)
    data, written = document.encode(restoration), restoration.encoded[1]
    return DocumentResult(
        RESTORED,
        data=None if data == task.data else data,
        reason="" if written == encoding else f"a restored character does not exist in {encoding}",
        lost=summary.lost,
        restored=summary.restored,
        confident=summary.confident,
        unfilled=summary.unfilled,
        expected_accuracy=summary.expected_accuracy,
        encoding=encoding,
        written=written,
        notices=notices,
        weights={name: round(weight, 6) for name, weight in zip(restoration.experts, summary.weights, strict=True)},
    )


def reset_peak() -> None:
    """Reset the peak memory of this process."""
    with suppress(OSError):
        (PROC / "clear_refs").write_text(RESET_PEAK)


def peak_memory() -> int:
    """Peak memory of this process since ``reset_peak``, in bytes; 0 if unknown."""
    with suppress(OSError):
        for line in (PROC / "status").read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key == "VmHWM":
                return 1024 * int(value.split()[0])
    return 0
