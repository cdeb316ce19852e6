"""The input of a pipeline: the document, the options, and the models of the restorer."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from conservator.document import Document
from conservator.documents import FixedText, Pin
from conservator.experts import DocumentExpert, Expert, Memory, Meter, Team, load_experts
from conservator.experts.causal import CausalExpert
from conservator.experts.word_ngram import WordModel
from conservator.field import Engine
from conservator.options import RestoreOptions
from conservator.pipelines.references import ReferenceTexts
from conservator.pipelines.rescoring import Rescorer

AnyExpert = Expert | DocumentExpert


@dataclass(frozen=True)
class Models:
    """The models of a restorer; they are loaded on first use.

    Attributes:
        requested_experts: Names, folders or objects.
        select: Whether to select, for each document, the experts with non-negligible weight.
        engine: Infers the composition; None for the default of the channel.
        language_models: Language models of the effort ``best``; None: those that the options name.
        given_rescorer: Replaces the rescorer that uses the language models; None without one.
    """

    requested_experts: Sequence[str | Path | AnyExpert]
    select: bool
    engine: Engine | None = None
    language_models: Sequence[CausalExpert] | None = None
    given_rescorer: Rescorer | None = None

    @cached_property
    def experts(self) -> list[AnyExpert]:
        """The experts; a correction needs none."""
        experts: list[AnyExpert] = []
        for expert in self.requested_experts:
            experts += load_experts([expert]) if isinstance(expert, str | Path) else [expert]
        return experts

    @property
    def names(self) -> str:
        """The names of the experts, for messages."""
        return ", ".join(expert.spec.name for expert in self.experts)

    @property
    def frozen_experts(self) -> list[Expert]:
        """The experts that do not depend on the document."""
        return [expert for expert in self.experts if not isinstance(expert, DocumentExpert)]

    def check(self) -> None:
        """Load the experts, and raise an error for an invalid team now, not at the first document."""
        if self.frozen_experts or not self.experts:
            Team(self.frozen_experts)

    def document_experts(self, references: ReferenceTexts, options: RestoreOptions) -> list[DocumentExpert]:
        """Return the experts that are made from the document: those given, a word expert and a memory."""
        experts = [expert for expert in self.experts if isinstance(expert, DocumentExpert)]
        if options.memory and not any(isinstance(expert, WordModel) for expert in experts):
            experts.insert(0, WordModel(references.word_counts))
        if options.memory and not any(isinstance(expert, Memory) for expert in experts):
            experts.append(Memory(references.index, words=references.word_index))
        return sorted(experts, key=lambda expert: expert.spec.is_gated)

    def rescorer(self, options: RestoreOptions) -> Rescorer | None:
        """Return the rescorer of the effort ``best``; None with another effort."""
        if options.effort != "best":
            return None
        if self.given_rescorer is not None:
            return self.given_rescorer
        if self.language_models is not None:
            return Rescorer(self.language_models)
        from conservator.experts.language_models import load_language_model

        return Rescorer([load_language_model(name.strip()) for name in options.language_models.split(",")])


@dataclass(frozen=True)
class PipelineTask:
    """A document to restore.

    Attributes:
        document: The document.
        options: Options of the restoration.
        models: Models of the restorer.
        references: Reference texts.
        fixed: Fixed text of lost spans.
        meter: Counts cost and time, reports progress, and enforces the time limit.
        pins: Edits of earlier stages, as fixed texts.
        readings: Additional readings of the text of the document.
    """

    document: Document
    options: RestoreOptions
    models: Models
    references: ReferenceTexts
    fixed: Sequence[FixedText]
    meter: Meter
    pins: Sequence[Pin] = ()
    readings: Sequence[Document] = ()

    @cached_property
    def generator(self) -> torch.Generator:
        """Source of all randomness."""
        return torch.Generator().manual_seed(self.options.seed)
