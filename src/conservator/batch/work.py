"""The work on one document, and who does it: a pure function of its bytes and the setup."""

import hashlib
import time
from codecs import BOM_UTF8
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from conservator.batch.engine import COPIED, RESTORED, WHOLE, DocumentResult, Task, WorkerConfig
from conservator.batch.memory_usage import peak_memory, reset_peak
from conservator.errors import ConservatorError, NotTextError
from conservator.options import DEFAULTS
from conservator.system.processes import find_factory

if TYPE_CHECKING:
    from conservator.batch.references import SharedReferences
    from conservator.experts.language_models.precision import Precision
    from conservator.restorer import Restorer
    from conservator.results import Restoration

Worker = Callable[[Task], DocumentResult]
WARM = "A small document, in which a letter is l{mark}st."


def load_worker(setup: WorkerConfig) -> Worker:
    """What the factory of a setup makes of it."""
    return cast(Worker, find_factory(setup.factory)(setup))


def make_worker(setup: WorkerConfig) -> Worker:
    """A worker with the experts of a setup loaded, which has restored a small document already.

    So the first document takes no longer than others, and options that fit no document are known before it.
    """
    import torch

    from conservator.batch.references import SharedReferences
    from conservator.channels import as_edit_channel
    from conservator.experts import load_experts
    from conservator.options import expert_names
    from conservator.restorer import Restorer

    torch.set_num_threads(1)
    precision = cast("Precision", setup.precision)
    loaded = None
    if setup.experts is not None or as_edit_channel(setup.options.channel) is None:
        names = expert_names(setup.experts)
        with_confidence = setup.trust_remote_code
        loaded = load_experts(names, setup.device, precision=precision, trust_remote_code=with_confidence)
    references = [Path(one) for one in setup.references] or None
    language_models = None
    if setup.options.effort == "best":
        from conservator.experts.language_models import load_language_model

        names = [name.strip() for name in setup.options.language_models.split(",")]
        language_models = [load_language_model(name, precision) for name in names]
    restorer = Restorer(
        loaded, setup.options, references=references, select=setup.experts is None, language_models=language_models
    )
    reference_index = None if setup.reference_index is None else SharedReferences.open(Path(setup.reference_index))
    if reference_index is not None:
        restorer.reference_index = reference_index.texts
    restorer.restore(WARM.format(mark=setup.options.mark if as_edit_channel(setup.options.channel) is None else "o"))
    return lambda task: restore_one(restorer, task, reference_index)


def restore_one(restorer: "Restorer", task: Task, reference_index: "SharedReferences | None" = None) -> DocumentResult:
    """Restore one document. The result depends on its bytes, the restorer and the references alone.

    Args:
        restorer: experts and options.
        task: the document.
        reference_index: the index of texts like the documents, of which this document itself is left out.
    """
    reset_peak()
    began, cpu = time.perf_counter(), time.process_time()
    try:
        done = restore_bytes(restorer, task, reference_index)
    except NotTextError as error:
        done = DocumentResult(COPIED, reason=str(error), binary=True)
    except ConservatorError as error:
        done = DocumentResult(COPIED, reason=str(error))
    except MemoryError:
        done = DocumentResult(COPIED, reason="there was not enough memory", gave_up=True)
    except Exception as error:  # a fault of ours must not stop the rest of a corpus
        done = DocumentResult(COPIED, reason=f"unexpected {type(error).__name__}: {error}", gave_up=True)
    return replace(
        done,
        seconds=time.perf_counter() - began,
        cpu_seconds=time.process_time() - cpu,
        peak_bytes=peak_memory(),
    )


def restore_bytes(restorer: "Restorer", task: Task, reference_index: "SharedReferences | None") -> DocumentResult:
    """Restore one document, or raise a ConservatorError that says why it cannot be restored."""
    from conservator.documents import UTF8, InputText
    from conservator.pages import detect_ocr_format
    from conservator.restorer import as_source

    if not task.data:
        return DocumentResult(WHOLE)
    if not task.is_text and detect_ocr_format(task.data) is not None:
        return restore_pages(restorer, task.data)
    source = InputText(task.data, UTF8) if task.is_text else as_source(task.data, restorer.options)
    own = hashlib.sha256(source.data.removeprefix(BOM_UTF8)).hexdigest()
    with nullcontext() if reference_index is None else reference_index.without(own):
        found = restorer.restore(source)
    data, written = found.encoded
    done = describe(found, data, task.data)
    if done.outcome != RESTORED:
        return done
    reason = "" if written == found.encoding else f"a restored character does not exist in {found.encoding}"
    return replace(done, encoding=found.encoding, written=written, reason=reason)


def restore_pages(restorer: "Restorer", data: bytes) -> DocumentResult:
    """Correct the words in a file of an OCR engine."""
    from conservator.documents import read_input
    from conservator.pages import ocr_confidence_of, read_pages

    transcript = read_pages(data)
    changes: dict[str, Any] = (
        {"channel": "ocr", "alternatives": 0} if restorer.options.channel == DEFAULTS.channel else {}
    )
    found = restorer.restore(read_input(transcript.text), ocr_confidence=ocr_confidence_of(transcript), **changes)
    changed = transcript.word_changes((one.start, one.stop, one.text, one.probability) for one in found.changes)
    return describe(found, transcript.apply_changes(changed) if found.changes else data, data)


def describe(found: "Restoration", written: bytes, original: bytes) -> DocumentResult:
    """The restoration in numbers, and the document as it is written."""
    notices = {one.kind: one.message for one in found.notices}
    if not found.spans:
        return DocumentResult(WHOLE, notices=notices)
    one = found.summary
    lost, confident = one.lost, one.confident
    restored = one.restored
    if found.corrects:
        from conservator.results import sum_changes

        numbers = sum_changes(found.seen, found.changes)
        lost, restored, confident = numbers.changes, numbers.changes, numbers.confident
    return DocumentResult(
        RESTORED,
        data=None if written == original else written,
        lost=lost,
        restored=restored,
        confident=confident,
        left_open=one.left_open,
        expected=one.expected_accuracy,
        notices=notices,
        shares={name: round(share, 6) for name, share in zip(found.experts, one.weights, strict=True)},
    )
