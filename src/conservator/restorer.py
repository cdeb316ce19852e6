"""Restore documents: a ``Restorer`` loads experts and options once, and restores any number of documents."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from conservator.channels import OcrConfidence, needs_experts
from conservator.document import Document, open_document
from conservator.documents import FixedText
from conservator.errors import OptionError, TooSlowError
from conservator.experts import Meter, OutOfTimeError, Progress, References
from conservator.experts.causal import CausalExpert
from conservator.field import Engine
from conservator.options import RestoreOptions, expert_names
from conservator.pipelines.estimates import estimate_bytes_read, estimate_rescoring
from conservator.pipelines.notated import restore_document
from conservator.pipelines.references import ReferencePaths, ReferenceTexts
from conservator.pipelines.rescoring import Rescorer
from conservator.pipelines.stages import detect
from conservator.pipelines.task import AnyExpert, Models, PipelineTask
from conservator.results import Restoration
from conservator.results.notices import STAGE_LABELS
from conservator.system.threads import threads_for

AnyDocument = str | bytes | Path | Document


class Restorer:
    """Experts and options, loaded once; restores any number of documents, also from several threads.

    Attributes:
        options: Default options of each restoration.
        models: Experts, engine and language models.
        references: Reference texts of each restoration.
    """

    def __init__(
        self,
        experts: str | Sequence[str | Path | AnyExpert] | None = None,
        options: RestoreOptions | None = None,
        engine: Engine | None = None,
        references: ReferencePaths | References | ReferenceTexts | None = None,
        select: bool | None = None,
        language_models: Sequence[CausalExpert] | None = None,
        rescorer: Rescorer | None = None,
    ) -> None:
        """Load the experts.

        Args:
            experts: Names of built-in experts or folders, as a list or as ``"prose,code"``, or Expert objects. None
                selects among the built-in experts for each document.
            options: Default options of each restoration.
            engine: Infers the composition. None: ``SubsampledBayes``, or ``Bayes`` if any byte may be wrong.
            references: Undamaged reference texts to copy from: paths of files or folders, (name, text), or an index.
            select: Whether to select, for each document, the experts with non-negligible weight. None: only if no
                experts are given.
            language_models: Language models of the effort ``best``, instead of those that the options name.
            rescorer: Rescorer of the effort ``best``, instead of one that uses the language models.
        """
        self.options = options or RestoreOptions()
        selects = experts is None if select is None else select
        self.models = Models(expert_names(experts), selects, engine, language_models, rescorer)
        if experts is not None or needs_experts(self.options.channel):
            self.models.check()
        self.references = ReferenceTexts.of(references, self.options.mark, self.options.words)

    @property
    def experts(self) -> list[AnyExpert]:
        """The experts."""
        return self.models.experts

    def restore(
        self,
        document: AnyDocument,
        *,
        references: ReferencePaths | References | ReferenceTexts | None = None,
        also: Sequence[AnyDocument] = (),
        fixed: Sequence[FixedText] = (),
        ocr_confidence: OcrConfidence | None = None,
        progress: Progress | None = None,
        **changes: Any,
    ) -> Restoration:
        """Restore a damaged document.

        Every known byte is kept and the result is valid UTF-8. ``Document.encode`` and ``Document.write`` return it in
        the format and the encoding of the document. Only the surroundings of damage are read.

        Args:
            document: Text, the bytes of a file, its path, or an opened document. The recognised text of an OCR file
                (hOCR, ALTO, PAGE XML, Tesseract TSV) or of a scan is corrected, with the channel ``ocr`` unless another
                one is given, and with the confidences in the file.
            references: Reference texts, instead of the restorer's.
            also: Additional readings of the same text, such as the results of other OCR engines or other damaged
                copies. Where they differ, the most probable text is chosen, and the stages of the channel follow. The
                result has the format and the whitespace of ``document``.
            fixed: Fixed text of lost spans: ``(start, stop, text)`` with half-open ranges of bytes of the document
                (of its UTF-8), in order.
            ocr_confidence: OCR confidence of each character of the document, instead of those of an OCR file.
            progress: Called with the name of the stage and its completed share; an exception that it raises ends the
                restoration.
            changes: Options that differ from the restorer's.

        Raises:
            TooSlowError: nothing was restored within ``max_seconds``.
        """
        options = with_changes(self.options, changes)
        meter = Meter(progress, options.max_seconds)
        if not isinstance(document, Document):
            document = open_document(document, options, progress=progress)
        readings = [open_reading(item, number, options, progress) for number, item in enumerate(also, 2)]
        if ocr_confidence is not None:
            document = replace(document, ocr_confidence=ocr_confidence)
        options = document.select_channel(options)
        texts = ReferenceTexts.of(self.references if references is None else references, options.mark, options.words)
        task = PipelineTask(document, options, self.models, texts, fixed, meter, readings=readings)
        try:
            with threads_for(estimate_bytes_read(document, options)):
                return restore_document(task)
        except OutOfTimeError as error:
            stage = STAGE_LABELS.get(error.stage, error.stage)
            problem = (
                f"nothing was restored within {options.max_seconds:g} s: the time limit was reached while {stage}; "
                "allow more time"
            )
            raise TooSlowError(problem) from error

    def detect(self, document: AnyDocument, *, progress: Progress | None = None) -> tuple[str, ...]:
        """Return the channels that damaged a document: values of the option ``channel``, in order.

        Undamaged text, and text whose only damage is marked, have the channel ``mask``.
        """
        meter = Meter(progress, self.options.max_seconds)
        if not isinstance(document, Document):
            document = open_document(document, self.options, progress=progress)
        return detect(PipelineTask(document, self.options, self.models, self.references, (), meter))

    def estimate_rescoring_seconds(self, document: Document) -> float:
        """Estimate how long language models take with a document; 0 if the effort is not ``best``."""
        options = document.select_channel(self.options)
        rescorer = self.models.rescorer(options)
        return 0.0 if rescorer is None else estimate_rescoring(rescorer, document, options)


def restore(
    document: AnyDocument,
    experts: str | Sequence[str | Path | AnyExpert] | None = None,
    *,
    engine: Engine | None = None,
    references: ReferencePaths | References | ReferenceTexts | None = None,
    also: Sequence[AnyDocument] = (),
    fixed: Sequence[FixedText] = (),
    ocr_confidence: OcrConfidence | None = None,
    progress: Progress | None = None,
    language_models: str | Sequence[CausalExpert] | None = None,
    **options: Any,
) -> Restoration:
    """Restore one damaged document.

    The arguments are those of ``Restorer`` and of ``Restorer.restore``; ``options`` are fields of ``RestoreOptions``.
    ``language_models`` may be either: names, or models.
    """
    if isinstance(language_models, str):
        options["language_models"], language_models = language_models, None
    restorer = Restorer(
        experts, with_changes(RestoreOptions(), options), engine, references, language_models=language_models
    )
    return restorer.restore(document, also=also, fixed=fixed, ocr_confidence=ocr_confidence, progress=progress)


def open_reading(reading: AnyDocument, number: int, options: RestoreOptions, progress: Progress | None) -> Document:
    """Open an additional reading; ``number``: for messages, if it is not a file."""
    if isinstance(reading, Document):
        return reading
    name = None if isinstance(reading, Path) else f"reading {number}"
    return open_document(reading, options, name=name, progress=progress)


def with_changes(options: RestoreOptions, changes: dict[str, Any]) -> RestoreOptions:
    """Return the options with some of them changed.

    Raises:
        OptionError: an option does not exist.
    """
    unknown = [name for name in changes if not hasattr(options, name)]
    if unknown:
        raise OptionError(unknown[0], f"no such option, expected one of {', '.join(vars(options))}")
    return replace(options, **changes) if changes else options
