"""Restore documents: experts and options loaded once, documents in, restorations out."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from conservator.alignment import choose_lengths
from conservator.channels import Channel, Excerpt, Observation, Status, as_channel
from conservator.decoders import Fill, best_fills, decode_text, take_best
from conservator.decoders.beam import MARGIN
from conservator.documents import Damaged, read_damaged
from conservator.errors import OptionError
from conservator.experts import Cost, DocumentExpert, Expert, Meter, Progress, Team, load_experts
from conservator.experts.windows import excerpt_around
from conservator.field import Bayes, Engine
from conservator.files import read_document
from conservator.options import RestoreOptions, expert_names
from conservator.restoration import Restoration, leave_open
from conservator.vocabularies import BYTES

Document = str | bytes | Path
AnyExpert = Expert | DocumentExpert


class Restorer:
    """Experts and options, loaded once; restores any number of documents, from several threads too.

    Attributes:
        experts: as they were loaded, or as they were given.
        options: the defaults of each restoration.
        engine: infers the composition; by default ``Bayes``, near damage.
    """

    def __init__(
        self,
        experts: str | Sequence[str | Path | AnyExpert] | None = None,
        options: RestoreOptions | None = None,
        engine: Engine | None = None,
    ) -> None:
        """Load the experts.

        Args:
            experts: names of built-in experts or folders, as a list or ``"prose,code"``, or Expert objects; the
                built-in ones for prose, code and configuration if none are given.
            options: how documents are restored, unless a call says otherwise.
            engine: infers the composition.
        """
        self.experts: list[AnyExpert] = []
        for one in expert_names(experts):
            self.experts += load_experts([one]) if isinstance(one, str | Path) else [one]
        self.options, self.engine = options or RestoreOptions(), engine
        frozen = [one for one in self.experts if not isinstance(one, DocumentExpert)]
        if frozen or not self.experts:
            Team(frozen)  # says now what is wrong with them

    def restore(self, document: Document, *, progress: Progress | None = None, **changes: Any) -> Restoration:
        """Restore a damaged document.

        Every known byte is kept and the result is valid UTF-8. Only the surroundings of damage are read.

        Args:
            document: text, the bytes of a file, or its path.
            progress: is told what is being done and which share of it is done; what it raises ends the work.
            changes: options that differ from the restorer's.
        """
        options = with_changes(self.options, changes)
        generator, meter = torch.Generator().manual_seed(options.seed), Meter(progress)
        channel = as_channel(options.channel, BYTES.size)
        content = read_document(str(document)) if isinstance(document, Path) else document
        damaged = read_damaged(content, mark=options.mark, gap=options.gap)
        doubtful = bool((channel.status(torch.from_numpy(damaged.tokens)) == Status.DOUBTFUL).any())
        if doubtful and options.alternatives:
            raise OptionError("alternatives", "they are given of marked gaps, and here any byte may change")
        if not doubtful:
            damaged = damaged.settled(options.lost)
        with meter.measure() as spent:
            team = self.team(damaged, channel, meter)
            if len(damaged.gaps):
                # Doubtful bytes that fit into no valid UTF-8 exclude no length: they will be changed.
                fitting = damaged.settled("invalid") if doubtful else damaged
                with meter.stage("lengths"):
                    damaged = damaged.with_lengths(choose_lengths(team, fitting, options.max_gap, generator))
            observation = observe(damaged, channel, team, options.near, everywhere=doubtful)
            found = self.fill(team, damaged, observation, options, generator) if observation else None
        return replace(found, cost=spent.cost) if found else Restoration.untouched(damaged, team.names, spent.cost)

    def team(self, damaged: Damaged, channel: Channel, meter: Meter) -> Team:
        """The experts as a team with a meter of its own; those that are made of a document, of this one."""
        made: list[Expert] = []
        for one in self.experts:
            if isinstance(one, DocumentExpert):
                made.append(one.condition(channel.observe(torch.from_numpy(damaged.tokens)[None])))
            else:
                made.append(one)
        return Team(made, meter)

    def fill(
        self,
        team: Team,
        damaged: Damaged,
        observation: Observation,
        options: RestoreOptions,
        generator: torch.Generator,
    ) -> Restoration:
        """Infer the composition of what was observed, and decode it."""
        engine = self.engine or Bayes(near=options.near)
        with team.meter.stage("inferring"):
            inferred = engine(team, observation, generator)
        with team.meter.stage("decoding"):
            decoded = decode_text(team, observation, inferred, generator, keep=options.alternatives > 0)
        fills: list[tuple[Fill, ...]] = []
        if options.alternatives:
            with team.meter.stage("alternatives"):
                fills = best_fills(team, observation, inferred, decoded, options.alternatives)
                decoded = take_best(decoded, observation, fills, team)
        excerpt = observation.excerpt
        positions = np.arange(len(damaged.tokens)) if excerpt is None else excerpt.positions.numpy()
        regions = inferred.regions[0].argmax(-1).masked_fill(~inferred.scored[0], -1)
        return Restoration(
            damaged=damaged,
            experts=team.names,
            positions=positions,
            read_tokens=decoded.tokens,
            read_confidence=decoded.confidence,
            read_field=inferred.field[0].numpy(),
            read_regions=regions.numpy(),
            open_positions=leave_open(damaged, positions, decoded, options.min_confidence),
            alternatives=tuple(fills),
            cost=Cost(),
        )


def restore(
    document: Document,
    experts: str | Sequence[str | Path | AnyExpert] | None = None,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Restoration:
    """Restore one damaged document: ``Restorer(experts, RestoreOptions(**options), engine).restore(document)``."""
    return Restorer(experts, with_changes(RestoreOptions(), options), engine).restore(document, progress=progress)


def with_changes(options: RestoreOptions, changes: dict[str, Any]) -> RestoreOptions:
    """The options with some of them changed; a clear error for one that does not exist."""
    unknown = [name for name in changes if not hasattr(options, name)]
    if unknown:
        raise OptionError(unknown[0], f"no such option; known: {', '.join(vars(options))}")
    return replace(options, **changes) if changes else options


def observe(
    damaged: Damaged, channel: Channel, team: Team, near: int | None, *, everywhere: bool
) -> Observation | None:
    """The document as an observation (1, L): an excerpt of it around the damage, or None where there is none.

    Args:
        damaged: the document.
        channel: what it came through.
        team: who will read it.
        near: how far from damage evidence is gathered; None gathers it everywhere.
        everywhere: whether any byte may be wrong, so that all are read.
    """
    lost, tokens = damaged.lost, torch.from_numpy(damaged.tokens)
    if not len(tokens) or not (everywhere or len(lost)):
        return None
    excerpt: Excerpt | None = None
    if near is not None and not everywhere:
        excerpt = excerpt_around(lost, near, max(near, MARGIN), len(tokens), team.context)
        if len(excerpt.positions) == len(tokens):
            excerpt = None
        else:
            tokens = tokens[excerpt.positions]
    return channel.observe(tokens[None], excerpt)
