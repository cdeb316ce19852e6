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
from conservator.channels import Channel, EditChannel, Observation, Status, Trust, as_channel, as_edits
from conservator.documents import Damaged, Known, Source, read_damaged, read_source
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
from conservator.experts.char_ngram import Mixture
from conservator.field import Bayes, Engine, Survey, choose_experts
from conservator.options import DEFAULTS, RestoreOptions, are_marks_characters, expert_names
from conservator.pipelines.correction import Corrector, as_restoration, find_tokens
from conservator.pipelines.lost_bytes import fill, observe, precisions
from conservator.pipelines.lost_characters import (
    Alone,
    CharacterText,
    are_characters,
    as_bytes,
    as_characters,
    read_by,
)
from conservator.pipelines.references import Like, character_prior, known_texts, like_texts, read_references
from conservator.pipelines.rescoring import Rewriter
from conservator.results import Notice, Restoration
from conservator.results.notices import LANGUAGE_MODELS_UNUSED
from conservator.system.files import read_document
from conservator.system.threads import SMALL, threads_for
from conservator.vocabularies import BYTES, CHARACTERS

Document = str | bytes | Path | Source
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
        engine: infers the composition; by default ``Survey`` near damage, or ``Bayes`` where any byte may be wrong.
        references: the texts like the documents, which the memory recalls; None if there are none.
        selects: whether those of the experts that have something to say are chosen for each document.
        language: the language models of the effort ``best``; None for those that the options name.
    """

    def __init__(
        self,
        experts: str | Sequence[str | Path | AnyExpert] | None = None,
        options: RestoreOptions | None = None,
        engine: Engine | None = None,
        like: Like | None = None,
        select: bool | None = None,
        language: Sequence[CausalExpert] | None = None,
    ) -> None:
        """Load the experts.

        Args:
            experts: names of built-in experts or folders, as a list or ``"prose,code"``, or Expert objects. If none are
                given, each document gets those of the built-in ones that have something to say about it.
            options: how documents are restored, unless a call says otherwise.
            engine: infers the composition.
            like: texts like the documents, which the memory recalls: paths of files or folders.
            select: whether each document gets only those of the experts that have something to say about it; if this is
                None, only where no experts are given.
            language: the language models of the effort ``best``, instead of those that the options name.
        """
        self.given = expert_names(experts)
        self.options, self.engine, self.language = options or RestoreOptions(), engine, language
        self.selects = experts is None if select is None else select
        if experts is not None or as_edits(self.options.channel) is None:
            frozen = [one for one in self.experts if not isinstance(one, DocumentExpert)]
            if frozen or not self.experts:
                Team(frozen)  # says now what is wrong with them
        self.like = None if like is None else like_texts(like)
        self.references = read_references(self.like, self.options.mark) if self.like is not None else None

    def restore(
        self,
        document: Document,
        *,
        like: Like | None = None,
        known: Sequence[Known] = (),
        trust: Trust | None = None,
        progress: Progress | None = None,
        **changes: Any,
    ) -> Restoration:
        """Restore a damaged document.

        Every known byte is kept and the result is valid UTF-8 (``encoded`` is the same in the encoding of the file).
        Only the surroundings of damage are read.

        Args:
            document: text, the bytes of a file, its path, or what ``read_source`` made of it. If the file is hOCR,
                ALTO, PAGE XML or the TSV of Tesseract, its recognised text is corrected, with channel ``ocr`` unless
                another one is given, and with the confidences in the file; the result has no markup.
            like: texts like this document, instead of the restorer's.
            known: what is known of lost places: ``(start, stop, text)`` with half-open ranges of bytes of the document
                (of its UTF-8), in order.
            trust: what a reader of pages said of each character of the document, as ``pages.trust_of`` tells it.
            progress: is told what is being done and which share of it is done; what it raises ends the work.
            changes: options that differ from the restorer's.

        Raises:
            TooSlowError: nothing was reached within ``max_seconds``.
        """
        options = with_changes(self.options, changes)
        meter = Meter(progress, options.max_seconds)
        if isinstance(document, bytes | Path):
            document, options, trust = read_file(document, options, trust)
        source = as_source(document, options)
        try:
            with threads_for(bytes_to_read(source, options)):
                return self.restore_metered(source, options, meter, like, known, trust)
        except OutOfTimeError as error:
            doing = DOING.get(error.stage, error.stage)
            problem = f"nothing was restored within {options.max_seconds:g} s: it was still {doing}; allow more time"
            raise TooSlowError(problem) from error

    def restore_metered(
        self,
        source: Source,
        options: RestoreOptions,
        meter: Meter,
        like: Like | None,
        known: Sequence[Known],
        trust: Trust | None,
    ) -> Restoration:
        """Restore a damaged document; arguments as in ``restore``, and what counts the cost and the time."""
        edits = as_edits(options.channel)
        if edits is not None:
            if known:
                raise OptionError("known", "text is known of marked gaps, and here any character may change")
            return self.correct(source, edits, like, options, meter, trust)
        if trust is not None:
            raise OptionError("trust", "it is what a reader of pages said, and this channel is of none")
        generator = torch.Generator().manual_seed(options.seed)
        channel = as_channel(options.channel, BYTES.size)
        damaged = read_damaged(source.data, mark=options.mark, gap=options.gap, known=known)
        references = self.references if like is None else read_references(like, options.mark)
        if references is not None and not options.memory:
            raise OptionError("like", "the memory reads these texts, and it is left out")
        doubtful = bool((channel.status(torch.from_numpy(damaged.tokens)) == Status.DOUBTFUL).any())
        if doubtful and options.alternatives:
            raise OptionError("alternatives", "they are given of marked gaps, and here any byte may change")
        if doubtful and options.effort == "best":
            raise OptionError("effort", "language models write marked gaps again, and here any byte may change")
        if doubtful and known:
            raise OptionError("known", "text is known of marked gaps, and here any byte may change")
        text = self.characters(damaged, options, doubtful=doubtful)
        if text is not None:
            found = self.restore_characters(text, references, options, generator, meter)
            return replace(found, encoding=source.encoding)
        if not doubtful:
            damaged = damaged.settled(options.lost)
        with meter.measure() as spent:
            models = self.models(damaged, channel, options, generator, meter, everywhere=doubtful)
            if len(damaged.gaps):
                # Doubtful bytes that fit into no valid UTF-8 exclude no length: they will be changed.
                fitting = damaged.settled("invalid") if doubtful else damaged
                texts = known_texts(damaged, references) if options.memory else []
                with meter.stage("lengths"):
                    lengths = choose_lengths(Team(models, meter), fitting, options.max_gap, generator, texts)
                damaged = damaged.with_lengths(*lengths)
            makers = self.makers(references, options)
            if not len(damaged.tokens) or not (doubtful or len(damaged.lost)):
                names = [*(one.spec.name for one in models), *(one.spec.name for one in makers)]
                found = Restoration.untouched(damaged, tuple(names), Cost(), recalls=options.memory)
                return replace(found, encoding=source.encoding)
            document_itself = channel.observe(torch.from_numpy(damaged.tokens)[None])
            team = Team([*models, *(one.condition(document_itself) for one in makers)], meter)
            observation = observe(damaged, channel, team, options.near, everywhere=doubtful)
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
    def prior(self) -> Mixture:
        """The models of characters, with one of the texts like the documents."""
        return character_prior(self.like or [])

    @cached_property
    def attested(self) -> frozenset[str]:
        """The tokens of the texts like the documents."""
        return find_tokens(content for _, content in self.like or [])

    def correct(
        self,
        source: Source,
        channel: EditChannel,
        like: Like | None,
        options: RestoreOptions,
        meter: Meter,
        trust: Trust | None,
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
        if trust is not None and len(trust) != len(text):
            raise OptionError("trust", f"it is of {len(trust)} characters, and the document has {len(text)}")
        for name in ("gap", "lost", "alternatives"):
            if getattr(options, name) != getattr(DEFAULTS, name):
                raise OptionError(name, "it is for what is lost, and here any character may be wrong")
        with meter.measure() as spent:
            texts = [] if like is None else like_texts(like)
            prior = self.prior if like is None else character_prior(texts)
            with meter.stage("correcting"):
                rewriter, least = self.rewriter(options), (options.min_gain, options.min_confidence)
                attested = self.attested if like is None else find_tokens(content for _, content in texts)
                corrector = Corrector(channel, prior, None, *least, options.mark, rewriter, attested)
                found = corrector.correct(text, meter, trust)
        precision = precisions(rewriter.experts if rewriter is not None else ())
        return replace(as_restoration(found, spent.cost), encoding=source.encoding, precision=precision)

    def characters(self, damaged: Damaged, options: RestoreOptions, *, doubtful: bool) -> CharacterText | None:
        """The document as characters, if its marks are characters outside ASCII; None if they are bytes."""
        if are_marks_characters(options.lost):
            if doubtful:
                raise OptionError("lost", f"{options.lost!r} is about marks, and here any byte may change")
            if options.effort == "best":
                problem = f"language models are not used with lost={options.lost!r}; use effort 'fast', or lost 'bytes'"
                raise OptionError("effort", problem)
            if not self.selects:
                names = ", ".join(one.spec.name for one in self.experts)
                raise OptionError("experts", f"{names} read bytes; lost characters are restored by known words alone")
            return as_characters(damaged)
        asked = options.lost == "auto" and options.mark == DEFAULTS.mark and not doubtful and len(damaged.lost) > 0
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
        references: References | None,
        options: RestoreOptions,
        generator: torch.Generator,
        meter: Meter,
    ) -> Restoration:
        """Restore a document whose marks are characters outside ASCII."""
        loss = "characters" if options.lost == "auto" else options.lost
        with meter.measure() as spent:
            expert = read_by(text, references, loss)
            if not len(text.damaged.places):
                return replace(Restoration.untouched(text.source, (expert.spec.name,), Cost()), loss=loss)
            team = Team([expert], meter)
            channel = as_channel("mask", CHARACTERS.size)
            observation = observe(text.damaged, channel, team, options.near, everywhere=False)
            unchecked = replace(options, min_confidence=0.0)  # which counts for whole characters
            found = fill(team, text.damaged, observation, Alone(), None, unchecked, generator)
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
        damaged: Damaged,
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
        team, near = Team(frozen, meter), options.near if damage else None
        with meter.stage("choosing experts"):
            sample = observe(damaged, channel, team, near, everywhere=everywhere)
            return list(choose_experts(team, sample, generator, near).experts)

    def default_engine(self, observation: Observation, options: RestoreOptions) -> Engine:
        """The engine for an observation, if none was given."""
        if observation.doubtful.any():
            return Bayes(near=options.near)
        return Survey(near=options.near, chooses=self.selects)

    def rewriter(self, options: RestoreOptions) -> Rewriter | None:
        """Who writes again what networks and memory leave in doubt; None if that is not asked for."""
        if options.effort != "best":
            return None
        if self.language is None:
            from conservator.experts.language_models import load_language_model

            return Rewriter([load_language_model(name.strip()) for name in options.language.split(",")])
        return Rewriter(self.language)

    def seconds_to_rewrite(self, document: Document) -> float:
        """About how long language models take with a document; 0 if the effort is not ``best``."""
        rewriter = self.rewriter(self.options)
        if rewriter is None:
            return 0.0
        source = as_source(document, self.options)
        if as_edits(self.options.channel) is not None:
            return rewriter.seconds(source.data.decode(errors="replace"), int(IN_DOUBT * len(source.data)))
        damaged = read_damaged(source.data, mark=self.options.mark, gap=self.options.gap)
        visible = damaged.tokens[damaged.tokens != BYTES.mask].astype(np.uint8).tobytes()
        return rewriter.seconds(visible.decode(errors="replace"), len(damaged.lost))

    def makers(self, references: References | None, options: RestoreOptions) -> list[DocumentExpert]:
        """The experts that are made from the document: those that were given, and a memory if none of them is one."""
        given = [one for one in self.experts if isinstance(one, DocumentExpert)]
        if options.memory and not any(one.spec.recalls for one in given):
            given.append(Memory(references))
        return given


def restore(
    document: Document,
    experts: str | Sequence[str | Path | AnyExpert] | None = None,
    *,
    engine: Engine | None = None,
    like: Like | None = None,
    known: Sequence[Known] = (),
    trust: Trust | None = None,
    progress: Progress | None = None,
    language: Sequence[CausalExpert] | None = None,
    **options: Any,
) -> Restoration:
    """Restore one damaged document, as a ``Restorer`` with these arguments does.

    ``known`` and ``trust`` are what ``Restorer.restore`` takes.
    """
    restorer = Restorer(experts, with_changes(RestoreOptions(), options), engine, like, language=language)
    return restorer.restore(document, known=known, trust=trust, progress=progress)


def read_file(
    document: bytes | Path, options: RestoreOptions, trust: Trust | None
) -> tuple[Source, RestoreOptions, Trust | None]:
    """The text of a file, and the options and OCR confidences to restore it with.

    For a file of an OCR engine this is the recognised text; the options then have an edit channel, and ``trust`` the
    confidences of the file, if none are given. For any other file, options and ``trust`` stay as they are.
    """
    from conservator.pages import name_format, read_pages, trust_of

    name = str(document) if isinstance(document, Path) else "the document"
    content = read_document(name) if isinstance(document, Path) else document
    found = name_format(content)
    if found is None:
        return as_source(content, options, name), options, trust
    if options.channel == DEFAULTS.channel:
        options = replace(options, channel="ocr")
    elif as_edits(options.channel) is None:
        problem = f"{name} is {found}, the text of an OCR engine: 'ocr' or a fitted channel (NAME.json) is needed"
        raise OptionError("channel", f"{options.channel!r}; {problem}")
    try:
        transcript = read_pages(content)
    except ConservatorError as error:
        raise ConservatorError(f"{name}: {error}") from error
    return read_source(transcript.text), options, trust_of(transcript) if trust is None else trust


def as_source(document: Document, options: RestoreOptions, name: str = "the document") -> Source:
    """The text of a document as UTF-8, and its encoding; ``name`` is for errors."""
    if isinstance(document, Source):
        return document
    content = read_document(name := str(document)) if isinstance(document, Path) else document
    return read_source(content, options.encoding, name=name, signs=(options.mark, options.gap), stray=options.stray)


def bytes_to_read(source: Source, options: RestoreOptions) -> int:
    """About how many bytes of a document experts read; with language models, which take much longer, at least SMALL."""
    if options.effort == "best":
        return max(SMALL, len(source.data))
    if options.near is None or options.channel != DEFAULTS.channel:
        return len(source.data)
    signs = sum(source.data.count(sign.encode()) for sign in (options.mark, options.gap) if sign)
    return min(len(source.data), 2 * options.near * signs)


def with_changes(options: RestoreOptions, changes: dict[str, Any]) -> RestoreOptions:
    """The options with some of them changed; a clear error for one that does not exist."""
    unknown = [name for name in changes if not hasattr(options, name)]
    if unknown:
        raise OptionError(unknown[0], f"no such option; known: {', '.join(vars(options))}")
    return replace(options, **changes) if changes else options
