"""Restore documents: a ``Restorer`` loads experts and options once, and restores any number of documents."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from conservator.alignment import choose_lengths
from conservator.channels import Channel, EditChannel, Observation, OcrConfidence, Status, as_channel, as_edit_channel
from conservator.documents import DamagedDocument, FixedText, InputText, read_damaged, read_input
from conservator.errors import ConservatorError, OptionError, TooSlowError
from conservator.experts import (
    Cost,
    DocumentExpert,
    Expert,
    Memory,
    Meter,
    OutOfTimeError,
    Progress,
    References,
    Team,
    load_experts,
)
from conservator.experts.causal import CausalExpert
from conservator.experts.char_ngram import CharNgramMixture
from conservator.field import Bayes, Engine, SubsampledBayes, choose_experts
from conservator.options import DEFAULTS, RestoreOptions, are_marks_characters, expert_names
from conservator.pipelines.correction import Corrector, as_restoration, find_tokens
from conservator.pipelines.lost_bytes import infer_and_decode, observe, precision_by_name
from conservator.pipelines.lost_characters import (
    CharacterText,
    SingleExpert,
    are_characters,
    as_bytes,
    as_characters,
    make_lexicon_expert,
)
from conservator.pipelines.references import (
    ReferencePaths,
    char_ngram_prior,
    memory_texts,
    read_reference_texts,
    read_references,
)
from conservator.pipelines.rescoring import Rescorer
from conservator.results import Notice, Restoration
from conservator.results.notices import LANGUAGE_MODELS_UNUSED
from conservator.system.files import read_document
from conservator.system.threads import SINGLE_THREAD_BYTES, threads_for
from conservator.vocabularies import BYTES, CHARACTERS

Document = str | bytes | Path | InputText
AnyExpert = Expert | DocumentExpert
# share: bytes of an OCR text that rescoring is assumed to read, for the time estimate [untuned]
ASSUMED_UNCERTAIN_SHARE = 0.25
# Stages as the error about the time limit names them.
STAGE_LABELS = {"lengths": "estimating gap lengths", "inferring": "inferring weights", "decoding": "decoding"}


class Restorer:
    """Experts and options, loaded once; restores any number of documents, also from several threads.

    Attributes:
        experts: The experts.
        options: Default options of each restoration.
        engine: Infers the composition. None: ``SubsampledBayes`` near damage, or ``Bayes`` if any byte may be wrong.
        references: (name, text) of the reference texts; None without references.
        reference_index: Index of the reference texts, for the memory; None without references.
        select: Whether to select, for each document, the experts with non-negligible weight.
        language_models: Language models of the effort ``best``; None: those that the options name.
    """

    def __init__(
        self,
        experts: str | Sequence[str | Path | AnyExpert] | None = None,
        options: RestoreOptions | None = None,
        engine: Engine | None = None,
        references: ReferencePaths | None = None,
        select: bool | None = None,
        language_models: Sequence[CausalExpert] | None = None,
    ) -> None:
        """Load the experts.

        Args:
            experts: Names of built-in experts or folders, as a list or as ``"prose,code"``, or Expert objects. None
                selects among the built-in experts for each document.
            options: Default options of each restoration.
            engine: Infers the composition.
            references: Undamaged reference texts that the memory copies from: paths of files or folders.
            select: Whether to select, for each document, the experts with non-negligible weight. None: only if no
                experts are given.
            language_models: Language models of the effort ``best``, instead of those that the options name.
        """
        self.requested_experts = expert_names(experts)
        self.options, self.engine, self.language_models = options or RestoreOptions(), engine, language_models
        self.select = experts is None if select is None else select
        if experts is not None or as_edit_channel(self.options.channel) is None:
            frozen = [expert for expert in self.experts if not isinstance(expert, DocumentExpert)]
            if frozen or not self.experts:
                Team(frozen)  # raises an error for an invalid team now, not at the first document
        self.references = None if references is None else read_reference_texts(references)
        self.reference_index = (
            read_references(self.references, self.options.mark) if self.references is not None else None
        )

    def restore(
        self,
        document: Document,
        *,
        references: ReferencePaths | None = None,
        fixed: Sequence[FixedText] = (),
        ocr_confidence: OcrConfidence | None = None,
        progress: Progress | None = None,
        **changes: Any,
    ) -> Restoration:
        """Restore a damaged document.

        Every known byte is kept and the result is valid UTF-8 (``encoded`` is the same in the encoding of the file).
        Only the surroundings of damage are read.

        Args:
            document: Text, the bytes of a file, its path, or the result of ``read_input``. The recognised text of a
                file in hOCR, ALTO, PAGE XML or Tesseract's TSV is corrected, with the channel ``ocr`` unless another
                one is given, and with the confidences in the file; the result has no markup.
            references: Reference texts, instead of the restorer's.
            fixed: Fixed text of lost spans: ``(start, stop, text)`` with half-open ranges of bytes of the document
                (of its UTF-8), in order.
            ocr_confidence: OCR confidence of each character of the document (``pages.ocr_confidence_of``).
            progress: Called with the name of the stage and its completed share; an exception that it raises ends the
                restoration.
            changes: Options that differ from the restorer's.

        Raises:
            TooSlowError: nothing was restored within ``max_seconds``.
        """
        options = with_changes(self.options, changes)
        meter = Meter(progress, options.max_seconds)
        if isinstance(document, bytes | Path):
            document, options, ocr_confidence = read_file(document, options, ocr_confidence)
        source = as_input_text(document, options)
        try:
            with threads_for(estimate_bytes_read(source, options)):
                return self._restore(source, options, meter, references, fixed, ocr_confidence)
        except OutOfTimeError as error:
            stage = STAGE_LABELS.get(error.stage, error.stage)
            problem = (
                f"nothing was restored within {options.max_seconds:g} s: the time limit was reached while {stage}; "
                "allow more time"
            )
            raise TooSlowError(problem) from error

    def _restore(
        self,
        source: InputText,
        options: RestoreOptions,
        meter: Meter,
        references: ReferencePaths | None,
        fixed: Sequence[FixedText],
        ocr_confidence: OcrConfidence | None,
    ) -> Restoration:
        """Restore a damaged document; the meter counts cost and time, the other arguments are those of ``restore``."""
        edit_channel = as_edit_channel(options.channel)
        if edit_channel is not None:
            if fixed:
                raise OptionError("fixed", "fixed text needs marked gaps; with an OCR channel any character may change")
            return self._correct(source, edit_channel, references, options, meter, ocr_confidence)
        if ocr_confidence is not None:
            raise OptionError("ocr_confidence", f"needs an OCR channel, such as channel='ocr', got {options.channel!r}")
        generator = torch.Generator().manual_seed(options.seed)
        channel = as_channel(options.channel, BYTES.size)
        damaged = read_damaged(source.data, mark=options.mark, gap=options.gap, fixed=fixed)
        reference_index = self.reference_index if references is None else read_references(references, options.mark)
        if reference_index is not None and not options.memory:
            raise OptionError("references", "references have no effect without the memory; set memory=True")
        is_uncertain = bool((channel.status(torch.from_numpy(damaged.tokens)) == Status.UNCERTAIN).any())
        if is_uncertain and options.alternatives:
            raise OptionError("alternatives", "alternatives need marked gaps; with this channel any byte may change")
        if is_uncertain and options.effort == "best":
            raise OptionError(
                "effort", "'best' rescores marked gaps; with this channel any byte may change, use 'fast'"
            )
        if is_uncertain and fixed:
            raise OptionError("fixed", "fixed text needs marked gaps; with this channel any byte may change")
        text = self.detect_lost_characters(damaged, options, is_uncertain=is_uncertain)
        if text is not None:
            restored = self._restore_characters(text, reference_index, options, generator, meter)
            return replace(restored, encoding=source.encoding)
        if not is_uncertain:
            damaged = damaged.check_utf8(options.lost)
        with meter.measure() as spent:
            experts = self._select_experts(damaged, channel, options, generator, meter, everywhere=is_uncertain)
            if len(damaged.gaps):
                # Uncertain bytes that are not valid UTF-8 exclude no gap length: they will be changed.
                valid = damaged.check_utf8("invalid") if is_uncertain else damaged
                texts = memory_texts(damaged, reference_index) if options.memory else []
                with meter.stage("lengths"):
                    lengths = choose_lengths(Team(experts, meter), valid, options.max_gap, generator, texts)
                damaged = damaged.with_lengths(*lengths)
            document_experts = self._document_experts(reference_index, options)
            if not len(damaged.tokens) or not (is_uncertain or len(damaged.lost)):
                names = [*(expert.spec.name for expert in experts), *(expert.spec.name for expert in document_experts)]
                untouched = Restoration.untouched(damaged, tuple(names), Cost(), has_memory=options.memory)
                return replace(untouched, encoding=source.encoding)
            whole = channel.observe(torch.from_numpy(damaged.tokens)[None])
            team = Team([*experts, *(expert.condition(whole) for expert in document_experts)], meter)
            observation = observe(damaged, channel, team, options.evidence_radius, everywhere=is_uncertain)
            engine = self.engine or self._default_engine(observation, options)
            rescorer = self.rescorer(options)
            restored = infer_and_decode(
                team, damaged, observation, engine, rescorer, options, generator, active_only=self.select
            )
        lost_unit = "invalid" if options.lost == "invalid" else "bytes"
        return replace(restored, cost=spent.cost, encoding=source.encoding, lost_unit=lost_unit)

    @cached_property
    def experts(self) -> list[AnyExpert]:
        """The experts, loaded on first use: a correction needs none."""
        experts: list[AnyExpert] = []
        for expert in self.requested_experts:
            experts += load_experts([expert]) if isinstance(expert, str | Path) else [expert]
        return experts

    @cached_property
    def prior(self) -> CharNgramMixture:
        """The character models: the built-in ones and one of the references."""
        return char_ngram_prior(self.references or [])

    @cached_property
    def reference_tokens(self) -> frozenset[str]:
        """The tokens of the references."""
        return find_tokens(content for _, content in self.references or [])

    def _correct(
        self,
        source: InputText,
        channel: EditChannel,
        references: ReferencePaths | None,
        options: RestoreOptions,
        meter: Meter,
        ocr_confidence: OcrConfidence | None,
    ) -> Restoration:
        """Correct a document with OCR errors; its experts are character models."""
        try:
            text = source.data.decode()
        except UnicodeDecodeError as error:
            problem = f"OCR correction needs valid UTF-8, but byte {error.start} of the document is invalid"
            raise ConservatorError(problem) from error
        if not self.select:
            names = ", ".join(expert.spec.name for expert in self.experts)
            raise OptionError("experts", f"OCR correction uses its own character models, remove the experts {names}")
        if ocr_confidence is not None and len(ocr_confidence) != len(text):
            problem = f"must have one entry per character: the document has {len(text)}, got {len(ocr_confidence)}"
            raise OptionError("ocr_confidence", problem)
        for name in ("gap", "lost", "alternatives"):
            if getattr(options, name) != getattr(DEFAULTS, name):
                raise OptionError(name, "not supported with an OCR channel, which corrects text without lost spans")
        with meter.measure() as spent:
            texts = [] if references is None else read_reference_texts(references)
            prior = self.prior if references is None else char_ngram_prior(texts)
            with meter.stage("correcting"):
                rescorer = self.rescorer(options)
                tokens = self.reference_tokens if references is None else find_tokens(content for _, content in texts)
                corrector = Corrector(
                    channel,
                    prior,
                    min_log_odds=options.min_log_odds,
                    min_confidence=options.min_confidence,
                    mark=options.mark,
                    rescorer=rescorer,
                    reference_tokens=tokens,
                )
                correction = corrector.correct(text, meter, ocr_confidence)
        precision = precision_by_name(rescorer.experts if rescorer is not None else ())
        return replace(as_restoration(correction, spent.cost), encoding=source.encoding, precision=precision)

    def detect_lost_characters(
        self, damaged: DamagedDocument, options: RestoreOptions, *, is_uncertain: bool
    ) -> CharacterText | None:
        """Return the document as characters, if its marks are non-ASCII characters; None if they are bytes.

        Args:
            damaged: The damaged document.
            options: Options of the restoration.
            is_uncertain: Whether any visible byte may be wrong.
        """
        if are_marks_characters(options.lost):
            if is_uncertain:
                raise OptionError("lost", f"{options.lost!r} needs marks; with this channel any byte may change")
            if options.effort == "best":
                problem = f"language models are not used with lost={options.lost!r}; use effort 'fast', or lost 'bytes'"
                raise OptionError("effort", problem)
            if not self.select:
                names = ", ".join(expert.spec.name for expert in self.experts)
                problem = f"lost characters are restored by the built-in lexicon, remove the experts {names}"
                raise OptionError("experts", problem)
            return as_characters(damaged)
        is_candidate = (
            options.lost == "auto" and options.mark == DEFAULTS.mark and not is_uncertain and len(damaged.lost) > 0
        )
        if not is_candidate or len(damaged.gaps) or not self.select:
            return None
        try:
            text = as_characters(damaged)
        except ConservatorError:
            return None
        return text if are_characters(text) else None

    def _restore_characters(
        self,
        text: CharacterText,
        reference_index: References | None,
        options: RestoreOptions,
        generator: torch.Generator,
        meter: Meter,
    ) -> Restoration:
        """Restore a document whose marks are non-ASCII characters."""
        lost_unit = "characters" if options.lost == "auto" else options.lost
        with meter.measure() as spent:
            expert = make_lexicon_expert(text, reference_index, lost_unit)
            if not len(text.damaged.positions):
                return replace(Restoration.untouched(text.source, (expert.spec.name,), Cost()), lost_unit=lost_unit)
            team = Team([expert], meter)
            channel = as_channel("mask", CHARACTERS.size)
            observation = observe(text.damaged, channel, team, options.evidence_radius, everywhere=False)
            unchecked = replace(options, min_confidence=0.0)  # as_bytes applies it to whole characters
            restored = infer_and_decode(team, text.damaged, observation, SingleExpert(), None, unchecked, generator)
            restored = as_bytes(
                restored, text, lost_unit, options.min_confidence, fill_undetermined=options.fill_undetermined
            )
        if options.effort == "best":
            message = (
                "every mark stands for one non-ASCII character, and language models are not used for lost characters, "
                "so the effort 'best' had no effect; with lost 'bytes' they are used"
            )
            restored = replace(restored, reported=(*restored.reported, Notice(LANGUAGE_MODELS_UNUSED, message)))
        return replace(restored, cost=spent.cost)

    def _select_experts(
        self,
        damaged: DamagedDocument,
        channel: Channel,
        options: RestoreOptions,
        generator: torch.Generator,
        meter: Meter,
        *,
        everywhere: bool,
    ) -> list[Expert]:
        """Return the experts that do not depend on the document; with ``select``, those with non-negligible weight."""
        frozen: list[Expert] = [expert for expert in self.experts if not isinstance(expert, DocumentExpert)]
        has_damage = everywhere or len(damaged.lost) > 0
        if not self.select or not len(damaged.tokens) or not (everywhere or len(damaged.gaps)):
            return frozen
        team, evidence_radius = Team(frozen, meter), options.evidence_radius if has_damage else None
        with meter.stage("choosing experts"):
            sample = observe(damaged, channel, team, evidence_radius, everywhere=everywhere)
            return list(choose_experts(team, sample, generator, evidence_radius).experts)

    def _default_engine(self, observation: Observation, options: RestoreOptions) -> Engine:
        """Return the engine for an observation if none was given."""
        if observation.uncertain.any():
            return Bayes(evidence_radius=options.evidence_radius)
        return SubsampledBayes(evidence_radius=options.evidence_radius, choose_experts=self.select)

    def rescorer(self, options: RestoreOptions) -> Rescorer | None:
        """Return the language models of the effort ``best``; None with another effort."""
        if options.effort != "best":
            return None
        if self.language_models is None:
            from conservator.experts.language_models import load_language_model

            return Rescorer([load_language_model(name.strip()) for name in options.language_models.split(",")])
        return Rescorer(self.language_models)

    def estimate_rescoring_seconds(self, document: Document) -> float:
        """Estimate how long language models take with a document; 0 if the effort is not ``best``."""
        rescorer = self.rescorer(self.options)
        if rescorer is None:
            return 0.0
        source = as_input_text(document, self.options)
        if as_edit_channel(self.options.channel) is not None:
            uncertain = int(ASSUMED_UNCERTAIN_SHARE * len(source.data))
            return rescorer.estimate_seconds(source.data.decode(errors="replace"), uncertain)
        damaged = read_damaged(source.data, mark=self.options.mark, gap=self.options.gap)
        visible = damaged.tokens[damaged.tokens != BYTES.mask].astype(np.uint8).tobytes()
        return rescorer.estimate_seconds(visible.decode(errors="replace"), len(damaged.lost))

    def _document_experts(self, reference_index: References | None, options: RestoreOptions) -> list[DocumentExpert]:
        """Return the experts that are made from the document: those given, and a memory unless one is given."""
        experts = [expert for expert in self.experts if isinstance(expert, DocumentExpert)]
        if options.memory and not any(expert.spec.is_retrieval for expert in experts):
            experts.append(Memory(reference_index))
        return experts


def restore(
    document: Document,
    experts: str | Sequence[str | Path | AnyExpert] | None = None,
    *,
    engine: Engine | None = None,
    references: ReferencePaths | None = None,
    fixed: Sequence[FixedText] = (),
    ocr_confidence: OcrConfidence | None = None,
    progress: Progress | None = None,
    language_models: Sequence[CausalExpert] | None = None,
    **options: Any,
) -> Restoration:
    """Restore one damaged document, as ``Restorer(...).restore(document)`` with these arguments.

    Args:
        document: As in ``Restorer.restore``.
        experts: As in ``Restorer``.
        engine: As in ``Restorer``.
        references: As in ``Restorer``.
        fixed: As in ``Restorer.restore``.
        ocr_confidence: As in ``Restorer.restore``.
        progress: As in ``Restorer.restore``.
        language_models: As in ``Restorer``.
        options: Fields of ``RestoreOptions``.
    """
    restorer = Restorer(
        experts, with_changes(RestoreOptions(), options), engine, references, language_models=language_models
    )
    return restorer.restore(document, fixed=fixed, ocr_confidence=ocr_confidence, progress=progress)


def read_file(
    document: bytes | Path, options: RestoreOptions, ocr_confidence: OcrConfidence | None
) -> tuple[InputText, RestoreOptions, OcrConfidence | None]:
    """Return the text of a file, and the options and OCR confidences to restore it with.

    For a file of an OCR engine this is the recognised text; the options then have an edit channel, and the OCR
    confidences are those of the file, unless some are given. For any other file, both are unchanged.
    """
    from conservator.pages import detect_ocr_format, ocr_confidence_of, read_pages

    name = str(document) if isinstance(document, Path) else "the document"
    content = read_document(name) if isinstance(document, Path) else document
    page_format = detect_ocr_format(content)
    if page_format is None:
        return as_input_text(content, options, name), options, ocr_confidence
    if options.channel == DEFAULTS.channel:
        options = replace(options, channel="ocr")
    elif as_edit_channel(options.channel) is None:
        expected = (
            f"must be 'ocr' or a fitted channel (NAME.json) for a file of an OCR engine ({name} is {page_format})"
        )
        raise OptionError("channel", f"{expected}, got {options.channel!r}")
    try:
        transcript = read_pages(content)
    except ConservatorError as error:
        raise ConservatorError(f"{name}: {error}") from error
    return (
        read_input(transcript.text),
        options,
        ocr_confidence_of(transcript) if ocr_confidence is None else ocr_confidence,
    )


def as_input_text(document: Document, options: RestoreOptions, name: str = "the document") -> InputText:
    """Return the text of a document as UTF-8, and its encoding; ``name`` is used in error messages."""
    if isinstance(document, InputText):
        return document
    content = read_document(name := str(document)) if isinstance(document, Path) else document
    return read_input(
        content,
        options.encoding,
        name=name,
        markers=(options.mark, options.gap),
        allow_invalid_utf8=options.allow_invalid_utf8,
    )


def estimate_bytes_read(source: InputText, options: RestoreOptions) -> int:
    """Estimate how many bytes the experts read; with language models, which are much slower, at least SMALL."""
    if options.effort == "best":
        return max(SINGLE_THREAD_BYTES, len(source.data))
    if options.evidence_radius is None or options.channel != DEFAULTS.channel:
        return len(source.data)
    markers = sum(source.data.count(marker.encode()) for marker in (options.mark, options.gap) if marker)
    return min(len(source.data), 2 * options.evidence_radius * markers)


def with_changes(options: RestoreOptions, changes: dict[str, Any]) -> RestoreOptions:
    """Return the options with some of them changed.

    Raises:
        OptionError: an option does not exist.
    """
    unknown = [name for name in changes if not hasattr(options, name)]
    if unknown:
        raise OptionError(unknown[0], f"no such option, expected one of {', '.join(vars(options))}")
    return replace(options, **changes) if changes else options
