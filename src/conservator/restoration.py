"""Restore a document: observation, channel and experts in, text, field and confidence out."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.channels import Channel, MaskChannel, Observation
from conservator.decoders.beam import Fill, best_fills, take_best
from conservator.decoders.lengths import choose_lengths
from conservator.decoders.text import FOLDS, STEPS, decode_text
from conservator.documents.damaged import MARK, read_damaged
from conservator.documents.restored import Restoration, leave_open, runs
from conservator.errors import ConservatorError
from conservator.experts.expert import Expert
from conservator.experts.library import load_experts
from conservator.experts.network import BYTES
from conservator.experts.watched import Watched
from conservator.field.composite import check_experts, cut_into_windows
from conservator.field.cost import Cost
from conservator.field.folds import DEFAULT, Nearby
from conservator.field.infer import ROUNDS, infer_with_bayes

BUILT_IN = "prose,code,config"
NEAR = 256  # bytes around a lost one that are asked which expert to trust
MAX_GAP = 32
Progress = Callable[[str, float], None]


def restore(
    document: str | bytes,
    experts: str | Sequence[str | Path | Expert] | None = None,
    *,
    mark: str = MARK,
    gap: str | None = None,
    max_gap: int = MAX_GAP,
    invalid: Literal["refuse", "lost"] = "refuse",
    channel: Channel | None = None,
    min_confidence: float = 0.0,
    alternatives: int = 0,
    seed: int = 0,
    near: int | None = NEAR,
    progress: Progress = lambda doing, share: None,
) -> Restoration:
    """Restore a damaged document.

    Every visible byte is kept and the result is valid UTF-8. Only the surroundings of damage are read. A channel that
    does not say which bytes are wrong may overturn visible ones.

    Args:
        document: text, or the bytes of a file.
        experts: names of built-in experts or folders, as a list or ``"prose,code"``, or Expert objects; the built-in
            ones for prose, code and configuration if none are given.
        mark: stands for one lost byte.
        gap: stands for a stretch of unknown length, such as ``"[...]"``.
        max_gap: the longest such stretch, in bytes.
        invalid: ``refuse`` a document that is not UTF-8, or count the bytes that are not as ``lost``.
        channel: how the document was damaged; by default marked bytes are lost, and the others right.
        min_confidence: what is less sure than this is left as it was.
        alternatives: how many joint fills to give of each gap; the text then has the best of them.
        seed: what everything random follows from.
        near: how far from damage text is asked which expert to trust, in bytes; None asks all of it.
        progress: is told what is being done and which share of it is done; what it raises ends the work.
    """
    team, generator, cost = choose_experts(experts), torch.Generator().manual_seed(seed), Cost()
    names = tuple(expert.spec.name for expert in team)
    marked = channel is None or isinstance(channel, MaskChannel)
    check_settings(min_confidence, alternatives, marked)
    damaged = read_damaged(document, mark=mark, gap=gap, invalid=invalid if marked else "keep")
    if damaged.gaps:
        heard, tell = poll(team, progress, "lengths")
        damaged = damaged.with_lengths(choose_lengths(heard, damaged, max_gap, generator, cost, tell))
    observation = observe(damaged.tokens, channel)
    asked = surroundings(observation, near) if marked else torch.ones_like(observation.hidden)
    if not asked.any():
        return Restoration.untouched(damaged, names, cost)

    watched = watch(team, observation, asked, partial(progress, "reading"))
    schedule = Nearby(DEFAULT.folds, DEFAULT.repeats, where=asked)
    inferred = infer_with_bayes(watched, observation, generator, schedule=schedule)
    decoded = decode_text(watched, observation, inferred, generator, keep=alternatives > 0)
    fills: list[tuple[Fill, ...]] = []
    if decoded.log_probs is not None:
        spans = runs(damaged.lost)
        heard, tell = poll(team, progress, "alternatives")
        known = damaged.tokens, decoded.context, spans, inferred.composition, decoded.log_probs
        fills = best_fills(heard, *known, alternatives, cost, tell)
        decoded = take_best(decoded, damaged.lost, spans, fills)
    regions = inferred.regions[0].argmax(-1).masked_fill(~(asked | observation.hidden)[0], -1)
    return Restoration(
        damaged,
        decoded.tokens,
        decoded.confidence,
        leave_open(decoded.tokens, decoded.confidence, damaged, min_confidence),
        inferred.field[0].numpy(),
        regions.numpy(),
        names,
        tuple(fills),
        cost.add(inferred.cost).add(decoded.cost),
    )


def choose_experts(experts: str | Sequence[str | Path | Expert] | None) -> list[Expert]:
    """Load experts by name or folder; objects are taken as they are."""
    wanted = BUILT_IN if experts is None else experts
    named = wanted.split(",") if isinstance(wanted, str) else wanted
    team: list[Expert] = []
    for one in named:
        team += load_experts([one.strip() if isinstance(one, str) else one]) if isinstance(one, str | Path) else [one]
    check_experts(team, BYTES)
    return team


def check_settings(min_confidence: float, alternatives: int, marked: bool) -> None:
    """A clear error for a setting that makes no sense."""
    if not 0 <= min_confidence <= 1:
        raise ConservatorError(f"the least confidence is {min_confidence}; it must lie between 0 and 1")
    if alternatives < 0:
        raise ConservatorError(f"{alternatives} alternatives; it must not be negative")
    if alternatives and not marked:
        raise ConservatorError("alternatives are given of marked gaps, which this channel does not have")


def observe(tokens: NDArray[np.int64], channel: Channel | None) -> Observation:
    """The document as an observation (1, L); by default of the mask channel, whose rate makes no difference."""
    return (channel or MaskChannel(BYTES, 0.5)).observe(torch.from_numpy(tokens)[None])


def surroundings(observation: Observation, near: int | None) -> Tensor:
    """(1, L) True within ``near`` bytes of a lost one: what says which expert to trust there."""
    hidden = observation.hidden
    if near is None:
        return hidden.any().expand(hidden.shape)
    length, lost = hidden.shape[1], hidden[0].nonzero()[:, 0]
    covers = torch.zeros(length + 1, dtype=torch.long)  # by how many more lost bytes than the place before
    covers.index_add_(0, (lost - near).clamp(min=0), torch.ones_like(lost))
    covers.index_add_(0, (lost + near + 1).clamp(max=length), -torch.ones_like(lost))
    return (covers.cumsum(0) > 0)[None, :length]


def poll(team: Sequence[Expert], progress: Progress, doing: str) -> tuple[list[Expert], Callable[[float], None]]:
    """The experts, repeating how far the work is each time that they are asked; and who is told how far it is."""
    reached = 0.0

    def tell(share: float) -> None:
        nonlocal reached
        reached = share
        progress(doing, share)

    return [Watched(expert, lambda _: progress(doing, reached)) for expert in team], tell


def watch(
    team: Sequence[Expert], observation: Observation, asked: Tensor, progress: Callable[[float], None]
) -> list[Expert]:
    """The experts, telling which share of the reading is done; of what will be read, as far as that is known."""
    windows = cut_into_windows(asked.shape[1], check_experts(team, BYTES))
    marked = isinstance(observation.channel, MaskChannel)
    heard, decoded = (
        sum(bool(flags[0, one.inner_start : one.inner_stop].any()) for one in windows)
        for flags in (asked, observation.hidden if marked else asked)
    )
    total = len(team) * (heard * DEFAULT.patterns * (1 if marked else ROUNDS) + decoded * (STEPS if marked else FOLDS))
    done = 0

    def tell(sequences: int) -> None:
        nonlocal done
        done += sequences
        progress(min(1.0, done / total))

    return [Watched(expert, tell) for expert in team]
