"""Restore documents: experts and options loaded once, documents in, restorations out."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

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
from conservator.pipelines.lost_bytes import fill, observe, precisions
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
    known_texts,
    read_reference_texts,
    read_references,
)
from conservator.pipelines.rescoring import Rescorer
from conservator.results import Notice, Restoration
from conservator.results.notices import LANGUAGE_MODELS_UNUSED
from conservator.system.files import read_document
from conservator.system.threads import SMALL, threads_for
from conservator.vocabularies import BYTES, CHARACTERS

Document = str | bytes | Path | InputText
AnyExpert = Expert | DocumentExpert
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
IN_DOUBT = 0.25  # of the bytes of a text in which any character may be wrong, as far as the time is concerned
DOING = {"lengths": "finding lengths", "inferring": "reading", "decoding": "filling in"}  # stages in plain words


class Restorer:
    """Experts and options, loaded once; restores any number of documents, from several threads too.

    Attributes:
        experts: as they were loaded, or as they were given.
        options: the defaults of each restoration.
        engine: infers the composition; by default ``SubsampledBayes`` near damage, or ``Bayes`` where any byte may be wrong.
        reference_index: the texts like the documents, which the memory recalls; None if there are none.
        selects: whether those of the experts that have something to say are chosen for each document.
        language_models: the language models of the effort ``best``; None for those that the options name.
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
            experts: names of built-in experts or folders, as a list or ``"prose,code"``, or Expert objects. If none are
                given, each document gets those of the built-in ones that have something to say about it.
            options: how documents are restored, unless a call says otherwise.
            engine: infers the composition.
            references: texts like the documents, which the memory recalls: paths of files or folders.
            select: whether each document gets only those of the experts that have something to say about it; if this is
                None, only where no experts are given.
            language_models: the language models of the effort ``best``, instead of those that the options name.
        """
        self.given = expert_names(experts)
        self.options, self.engine, self.language_models = options or RestoreOptions(), engine, language_models
        self.selects = experts is None if select is None else select
        if experts is not None or as_edit_channel(self.options.channel) is None:
            frozen = [one for one in self.experts if not isinstance(one, DocumentExpert)]
            if frozen or not self.experts:
                Team(frozen)  # says now what is wrong with them
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
            document: text, the bytes of a file, its path, or what ``read_input`` made of it. If the file is hOCR,
                ALTO, PAGE XML or the TSV of Tesseract, its recognised text is corrected, with channel ``ocr`` unless
                another one is given, and with the confidences in the file; the result has no markup.
            references: texts like this document, instead of the restorer's.
            fixed: what is known of lost places: ``(start, stop, text)`` with half-open ranges of bytes of the document
                (of its UTF-8), in order.
            ocr_confidence: what a reader of pages said of each character of the document, as ``pages.ocr_confidence_of`` tells it.
            progress: is told what is being done and which share of it is done; what it raises ends the work.
            changes: options that differ from the restorer's.

        Raises:
            TooSlowError: nothing was reached within ``max_seconds``.
        """
        options = with_changes(self.options, changes)
        meter = Meter(progress, options.max_seconds)
        if isinstance(document, bytes | Path):
            document, options, ocr_confidence = read_file(document, options, ocr_confidence)
        source = as_source(document, options)
        try:
            with threads_for(bytes_to_read(source, options)):
                return self.restore_metered(source, options, meter, references, fixed, ocr_confidence)
        except OutOfTimeError as error:
            doing = DOING.get(error.stage, error.stage)
            problem = f"nothing was restored within {options.max_seconds:g} s: it was still {doing}; allow more time"
            raise TooSlowError(problem) from error

    def restore_metered(
        self,
        source: InputText,
        options: RestoreOptions,
        meter: Meter,
        references: ReferencePaths | None,
        fixed: Sequence[FixedText],
        ocr_confidence: OcrConfidence | None,
    ) -> Restoration:
        """Restore a damaged document; arguments as in ``restore``, and what counts the cost and the time."""
        edits = as_edit_channel(options.channel)
        if edits is not None:
            if fixed:
                raise OptionError("fixed", "text is known of marked gaps, and here any character may change")
            return self.correct(source, edits, references, options, meter, ocr_confidence)
        if ocr_confidence is not None:
            raise OptionError("ocr_confidence", "it is what a reader of pages said, and this channel is of none")
        generator = torch.Generator().manual_seed(options.seed)
        channel = as_channel(options.channel, BYTES.size)
        damaged = read_damaged(source.data, mark=options.mark, gap=options.gap, fixed=fixed)
        reference_index = self.reference_index if references is None else read_references(references, options.mark)
        if reference_index is not None and not options.memory:
            raise OptionError("references", "the memory reads these texts, and it is left out")
        uncertain = bool((channel.status(torch.from_numpy(damaged.tokens)) == Status.UNCERTAIN).any())
        if uncertain and options.alternatives:
            raise OptionError("alternatives", "they are given of marked gaps, and here any byte may change")
        if uncertain and options.effort == "best":
            raise OptionError("effort", "language models write marked gaps again, and here any byte may change")
        if uncertain and fixed:
            raise OptionError("fixed", "text is known of marked gaps, and here any byte may change")
        text = self.characters(damaged, options, uncertain=uncertain)
        if text is not None:
            found = self.restore_characters(text, reference_index, options, generator, meter)
            return replace(found, encoding=source.encoding)
        if not uncertain:
            damaged = damaged.check_utf8(options.lost)
        with meter.measure() as spent:
            models = self.models(damaged, channel, options, generator, meter, everywhere=uncertain)
            if len(damaged.gaps):
                # Doubtful bytes that fit into no valid UTF-8 exclude no length: they will be changed.
                fitting = damaged.check_utf8("invalid") if uncertain else damaged
                texts = known_texts(damaged, reference_index) if options.memory else []
                with meter.stage("lengths"):
                    lengths = choose_lengths(Team(models, meter), fitting, options.max_gap, generator, texts)
                damaged = damaged.with_lengths(*lengths)
            document_experts = self.document_experts(reference_index, options)
            if not len(damaged.tokens) or not (uncertain or len(damaged.lost)):
                names = [*(one.spec.name for one in models), *(one.spec.name for one in document_experts)]
                found = Restoration.untouched(damaged, tuple(names), Cost(), is_retrieval=options.memory)
                return replace(found, encoding=source.encoding)
            document_itself = channel.observe(torch.from_numpy(damaged.tokens)[None])
            team = Team([*models, *(one.condition(document_itself) for one in document_experts)], meter)
            observation = observe(damaged, channel, team, options.evidence_radius, everywhere=uncertain)
            engine = self.engine or self.default_engine(observation, options)
            rewriter = self.rewriter(options)
            found = fill(team, damaged, observation, engine, rewriter, options, generator, selects=self.selects)
        loss = "invalid" if options.lost == "invalid" else "bytes"
        return replace(found, cost=spent.cost, encoding=source.encoding, loss=loss)

    @cached_property
    def experts(self) -> list[AnyExpert]:
        """The experts that were given, loaded when they are first needed: a correction needs none."""
        loaded: list[AnyExpert] = []
        for one in self.given:
            loaded += load_experts([one]) if isinstance(one, str | Path) else [one]
        return loaded

    @cached_property
    def prior(self) -> CharNgramMixture:
        """The models of characters, with one of the texts like the documents."""
        return char_ngram_prior(self.references or [])

    @cached_property
    def attested(self) -> frozenset[str]:
        """The tokens of the texts like the documents."""
        return find_tokens(content for _, content in self.references or [])

    def correct(
        self,
        source: InputText,
        channel: EditChannel,
        references: ReferencePaths | None,
        options: RestoreOptions,
        meter: Meter,
        ocr_confidence: OcrConfidence | None,
    ) -> Restoration:
        """Correct a document that a reader of pages wrote: the models of characters that know it are its experts."""
        try:
            text = source.data.decode()
        except UnicodeDecodeError as error:
            problem = f"byte {error.start} of the document fits into no UTF-8, so there is no text to correct"
            raise ConservatorError(problem) from error
        if not self.selects:
            names = ", ".join(one.spec.name for one in self.experts)
            raise OptionError("experts", f"{names} restore what is lost; models of characters correct what is wrong")
        if ocr_confidence is not None and len(ocr_confidence) != len(text):
            raise OptionError(
                "ocr_confidence", f"it is of {len(ocr_confidence)} characters, and the document has {len(text)}"
            )
        for name in ("gap", "lost", "alternatives"):
            if getattr(options, name) != getattr(DEFAULTS, name):
                raise OptionError(name, "it is for what is lost, and here any character may be wrong")
        with meter.measure() as spent:
            texts = [] if references is None else read_reference_texts(references)
            prior = self.prior if references is None else char_ngram_prior(texts)
            with meter.stage("correcting"):
                rewriter, least = self.rewriter(options), (options.min_log_odds, options.min_confidence)
                attested = self.attested if references is None else find_tokens(content for _, content in texts)
                corrector = Corrector(channel, prior, None, *least, options.mark, rewriter, attested)
                found = corrector.correct(text, meter, ocr_confidence)
        precision = precisions(rewriter.experts if rewriter is not None else ())
        return replace(as_restoration(found, spent.cost), encoding=source.encoding, precision=precision)

    def characters(self, damaged: DamagedDocument, options: RestoreOptions, *, uncertain: bool) -> CharacterText | None:
        """The document as characters, if its marks are characters outside ASCII; None if they are bytes."""
        if are_marks_characters(options.lost):
            if uncertain:
                raise OptionError("lost", f"{options.lost!r} is about marks, and here any byte may change")
            if options.effort == "best":
                problem = f"language models are not used with lost={options.lost!r}; use effort 'fast', or lost 'bytes'"
                raise OptionError("effort", problem)
            if not self.selects:
                names = ", ".join(one.spec.name for one in self.experts)
                raise OptionError("experts", f"{names} read bytes; lost characters are restored by known words alone")
            return as_characters(damaged)
        asked = options.lost == "auto" and options.mark == DEFAULTS.mark and not uncertain and len(damaged.lost) > 0
        if not asked or len(damaged.gaps) or not self.selects:
            return None
        try:
            text = as_characters(damaged)
        except ConservatorError:
            return None
        return text if are_characters(text) else None

    def restore_characters(
        self,
        text: CharacterText,
        reference_index: References | None,
        options: RestoreOptions,
        generator: torch.Generator,
        meter: Meter,
    ) -> Restoration:
        """Restore a document whose marks are characters outside ASCII."""
        loss = "characters" if options.lost == "auto" else options.lost
        with meter.measure() as spent:
            expert = make_lexicon_expert(text, reference_index, loss)
            if not len(text.damaged.positions):
                return replace(Restoration.untouched(text.source, (expert.spec.name,), Cost()), loss=loss)
            team = Team([expert], meter)
            channel = as_channel("mask", CHARACTERS.size)
            observation = observe(text.damaged, channel, team, options.evidence_radius, everywhere=False)
            unchecked = replace(options, min_confidence=0.0)  # which counts for whole characters
            found = fill(team, text.damaged, observation, SingleExpert(), None, unchecked, generator)
            found = as_bytes(found, text, loss, options.min_confidence, fill_undetermined=options.fill_undetermined)
        if options.effort == "best":
            message = (
                "every mark stands for one character outside ASCII, and language models are not used for lost "
                "characters, so the effort 'best' had no effect; with lost 'bytes' they are used"
            )
            found = replace(found, reported=(*found.reported, Notice(LANGUAGE_MODELS_UNUSED, message)))
        return replace(found, cost=spent.cost)

    def models(
        self,
        damaged: DamagedDocument,
        channel: Channel,
        options: RestoreOptions,
        generator: torch.Generator,
        meter: Meter,
        *,
        everywhere: bool,
    ) -> list[Expert]:
        """The experts that are not made from the document; if they are selected, those with something to say of it."""
        frozen: list[Expert] = [one for one in self.experts if not isinstance(one, DocumentExpert)]
        damage = everywhere or len(damaged.lost) > 0
        if not self.selects or not len(damaged.tokens) or not (everywhere or len(damaged.gaps)):
            return frozen
        team, evidence_radius = Team(frozen, meter), options.evidence_radius if damage else None
        with meter.stage("choosing experts"):
            sample = observe(damaged, channel, team, evidence_radius, everywhere=everywhere)
            return list(choose_experts(team, sample, generator, evidence_radius).experts)

    def default_engine(self, observation: Observation, options: RestoreOptions) -> Engine:
        """The engine for an observation, if none was given."""
        if observation.uncertain.any():
            return Bayes(evidence_radius=options.evidence_radius)
        return SubsampledBayes(evidence_radius=options.evidence_radius, chooses=self.selects)

    def rewriter(self, options: RestoreOptions) -> Rescorer | None:
        """Who writes again what networks and memory leave in doubt; None if that is not asked for."""
        if options.effort != "best":
            return None
        if self.language_models is None:
            from conservator.experts.language_models import load_language_model

            return Rescorer([load_language_model(name.strip()) for name in options.language_models.split(",")])
        return Rescorer(self.language_models)

    def seconds_to_rewrite(self, document: Document) -> float:
        """About how long language models take with a document; 0 if the effort is not ``best``."""
        rewriter = self.rewriter(self.options)
        if rewriter is None:
            return 0.0
        source = as_source(document, self.options)
        if as_edit_channel(self.options.channel) is not None:
            return rewriter.seconds(source.data.decode(errors="replace"), int(IN_DOUBT * len(source.data)))
        damaged = read_damaged(source.data, mark=self.options.mark, gap=self.options.gap)
        visible = damaged.tokens[damaged.tokens != BYTES.mask].astype(np.uint8).tobytes()
        return rewriter.seconds(visible.decode(errors="replace"), len(damaged.lost))

    def document_experts(self, reference_index: References | None, options: RestoreOptions) -> list[DocumentExpert]:
        """The experts that are made from the document: those that were given, and a memory if none of them is one."""
        given = [one for one in self.experts if isinstance(one, DocumentExpert)]
        if options.memory and not any(one.spec.is_retrieval for one in given):
            given.append(Memory(reference_index))
        return given


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
    """Restore one damaged document, as a ``Restorer`` with these arguments does.

    ``fixed`` and ``ocr_confidence`` are what ``Restorer.restore`` takes.
    """
    restorer = Restorer(
        experts, with_changes(RestoreOptions(), options), engine, references, language_models=language_models
    )
    return restorer.restore(document, fixed=fixed, ocr_confidence=ocr_confidence, progress=progress)


def read_file(
    document: bytes | Path, options: RestoreOptions, ocr_confidence: OcrConfidence | None
) -> tuple[InputText, RestoreOptions, OcrConfidence | None]:
    """The text of a file, and the options and OCR confidences to restore it with.

    For a file of an OCR engine this is the recognised text; the options then have an edit channel, and ``ocr_confidence`` the
    confidences of the file, if none are given. For any other file, options and ``ocr_confidence`` stay as they are.
    """
    from conservator.pages import detect_ocr_format, ocr_confidence_of, read_pages

    name = str(document) if isinstance(document, Path) else "the document"
    content = read_document(name) if isinstance(document, Path) else document
    found = detect_ocr_format(content)
    if found is None:
        return as_source(content, options, name), options, ocr_confidence
    if options.channel == DEFAULTS.channel:
        options = replace(options, channel="ocr")
    elif as_edit_channel(options.channel) is None:
        problem = f"{name} is {found}, the text of an OCR engine: 'ocr' or a fitted channel (NAME.json) is needed"
        raise OptionError("channel", f"{options.channel!r}; {problem}")
    try:
        transcript = read_pages(content)
    except ConservatorError as error:
        raise ConservatorError(f"{name}: {error}") from error
    return (
        read_input(transcript.text),
        options,
        ocr_confidence_of(transcript) if ocr_confidence is None else ocr_confidence,
    )


def as_source(document: Document, options: RestoreOptions, name: str = "the document") -> InputText:
    """The text of a document as UTF-8, and its encoding; ``name`` is for errors."""
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


def bytes_to_read(source: InputText, options: RestoreOptions) -> int:
    """About how many bytes of a document experts read; with language models, which take much longer, at least SMALL."""
    if options.effort == "best":
        return max(SMALL, len(source.data))
    if options.evidence_radius is None or options.channel != DEFAULTS.channel:
        return len(source.data)
    signs = sum(source.data.count(sign.encode()) for sign in (options.mark, options.gap) if sign)
    return min(len(source.data), 2 * options.evidence_radius * signs)


def with_changes(options: RestoreOptions, changes: dict[str, Any]) -> RestoreOptions:
    """The options with some of them changed; a clear error for one that does not exist."""
    unknown = [name for name in changes if not hasattr(options, name)]
    if unknown:
        raise OptionError(unknown[0], f"no such option; known: {', '.join(vars(options))}")
    return replace(options, **changes) if changes else options
