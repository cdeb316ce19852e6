"""The specialisation check (appendix "The specialization check"): does every expert predict its own domain best?"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from conservator.errors import ConservatorError
from conservator.experts import Expert
from conservator.training.scoring import Estimate, Scores, Windows, cut_windows, interval, resampled_ratios, score
from conservator.vocabularies import Tokens


@dataclass(frozen=True)
class Cell:
    """One expert on one domain, in nats.

    Attributes:
        domain: the name of the texts.
        expert: the name of the expert.
        energy: per byte, over all positions (visible ones count as 0): what the paper's table gives.
        per_hidden_byte: per byte that is predicted, hidden ones or (uniform source) all: the training loss.
        bits_per_byte: the schedule-weighted bound.
    """

    domain: str
    expert: str
    energy: Estimate
    per_hidden_byte: Estimate
    bits_per_byte: Estimate


@dataclass(frozen=True)
class Check:
    """The energies of every expert on every domain, and the two verdicts.

    Attributes:
        cells: domain by domain.
        counts: the numbers of windows and documents of each domain.
        margins: for each domain with an expert of its name, the lowest energy of the other experts (those named like a
            domain), minus the energy of its own expert.
        row_wise: each of these experts has its lowest energy on its own domain.
        column_wise: each of these domains gets its lowest energy from its own expert.
    """

    cells: tuple[Cell, ...]
    counts: dict[str, dict[str, int]]
    margins: dict[str, Estimate]
    row_wise: bool
    column_wise: bool

    @property
    def passed(self) -> bool:
        """Whether both verdicts hold."""
        return self.row_wise and self.column_wise

    def energy(self, domain: str, expert: str) -> float:
        """The energy of an expert on a domain."""
        return next(cell.energy.value for cell in self.cells if (cell.domain, cell.expert) == (domain, expert))

    def as_record(self) -> dict[str, Any]:
        """The check as plain data, for JSON."""
        rows = [
            {
                "domain": cell.domain,
                "expert": cell.expert,
                "energy": cell.energy.value,
                "low": cell.energy.low,
                "high": cell.energy.high,
                "nats_per_masked_byte": asdict(cell.per_hidden_byte),
                "bits_per_byte": asdict(cell.bits_per_byte),
                **self.counts[cell.domain],
            }
            for cell in self.cells
        ]
        return {
            "rows": rows,
            "margins": {domain: margin.value for domain, margin in self.margins.items()},
            "margin_intervals": {domain: [margin.low, margin.high] for domain, margin in self.margins.items()},
            "row_wise": self.row_wise,
            "column_wise": self.column_wise,
        }


def check_specialisation(
    experts: Sequence[Expert],
    domains: Mapping[str, Sequence[bytes]],
    *,
    windows: int = 512,
    length: int = 256,
    seed: int = 0,
    track: Callable[[Iterable[Any], str], Iterable[Any]] = lambda items, _: items,
) -> Check:
    """Score every expert on the same windows of every domain.

    The windows are the same text for all. Which of its tokens are noise is the same for experts that share vocabulary
    and source. An expert that reads few tokens gets windows that are cut off there.

    An expert's own domain is the one of its name. An expert without one, such as a generalist, is scored but does not
    affect the verdicts.

    Args:
        experts: at least two of them named like domains.
        domains: name -> documents.
        windows: how many windows of each domain.
        length: bytes per window.
        seed: of the windows and of what is hidden in them.
        track: shows progress.
    """
    names = [expert.spec.name for expert in experts]
    if len(set(names)) < len(names):
        raise ConservatorError(f"two experts have the same name: {', '.join(names)}")
    judged = [name for name in names if name in domains]
    if len(judged) < 2:
        raise ConservatorError(
            f"the check compares at least two experts that are named like domains; the experts are "
            f"{', '.join(names)}, the domains {', '.join(domains)}"
        )
    cut: dict[tuple[Any, ...], Windows] = {}
    scores: dict[tuple[str, str], Scores] = {}
    for domain, expert in track([(domain, expert) for domain in domains for expert in experts], "scoring"):
        spec = expert.spec
        limit = spec.max_length if isinstance(spec.vocabulary, Tokens) else None
        key = (domain, spec.vocabulary.fingerprint, spec.source, limit)
        if key not in cut:
            cut[key] = cut_windows(domains[domain], windows, length, seed, spec.vocabulary, spec.source, limit)
        scores[domain, spec.name] = score(expert, cut[key])
    cells = tuple(
        Cell(domain, name, one.energy(), one.per_hidden_byte(), one.bits_per_byte())
        for (domain, name), one in scores.items()
    )
    energies = {(cell.domain, cell.expert): cell.energy.value for cell in cells}
    documents = {domain: scores[domain, names[0]].documents for domain in domains}
    counts = {domain: {"windows": windows, "documents": len(found.unique())} for domain, found in documents.items()}
    return Check(
        cells,
        counts,
        {domain: _margin(scores, domain, judged) for domain in domains if domain in judged},
        all(energies[name, name] < energies[other, name] for name in judged for other in domains if other != name),
        all(energies[name, name] < energies[name, other] for name in judged for other in judged if other != name),
    )


def _margin(scores: Mapping[tuple[str, str], Scores], domain: str, judged: Sequence[str]) -> Estimate:
    """Min over other experts of their energy on ``domain``, minus its own expert's; windows are paired."""

    def difference(value: Callable[[Scores], torch.Tensor]) -> torch.Tensor:
        others = torch.stack([value(scores[domain, name]) for name in judged if name != domain])
        return others.min(0).values - value(scores[domain, domain])

    resampled = difference(lambda one: resampled_ratios(one.nats, one.length, one.documents))
    return interval(float(difference(lambda one: one.nats.sum() / one.length.sum())), resampled)
