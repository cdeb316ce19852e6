"""The specialisation check (appendix "The specialization check"): every expert should predict its domain best."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from conservator.errors import ConservatorError
from conservator.experts import Expert
from conservator.training.scoring import (
    Estimate,
    Scores,
    Windows,
    draw_noisy_windows,
    interval,
    resampled_ratios,
    score,
)
from conservator.vocabularies import Tokens


@dataclass(frozen=True)
class Cell:
    """One expert on one domain, in nats.

    Attributes:
        domain: name of the domain.
        expert: name of the expert.
        energy: nats per byte over all positions (visible ones count as 0), as in the table of the paper.
        per_hidden_byte: training loss: nats per predicted byte (hidden bytes, or all with a uniform source).
        bits_per_byte: schedule-weighted bound.
    """

    domain: str
    expert: str
    energy: Estimate
    per_hidden_byte: Estimate
    bits_per_byte: Estimate


@dataclass(frozen=True)
class Check:
    """Energies of every expert on every domain, and the two verdicts.

    Attributes:
        cells: domain by domain.
        counts: numbers of windows and documents of each domain.
        margins: for each domain with an expert of its name, the lowest energy of the other experts with a domain,
            minus the energy of its expert.
        row_wise: whether each of these experts has its lowest energy on its domain.
        column_wise: whether each of these domains has its lowest energy with its expert.
    """

    cells: tuple[Cell, ...]
    counts: dict[str, dict[str, int]]
    margins: dict[str, Estimate]
    row_wise: bool
    column_wise: bool

    @property
    def passed(self) -> bool:
        """Whether both verdicts are true."""
        return self.row_wise and self.column_wise

    def energy(self, domain: str, expert: str) -> float:
        """Return the energy of an expert on a domain."""
        return next(cell.energy.value for cell in self.cells if (cell.domain, cell.expert) == (domain, expert))

    def as_record(self) -> dict[str, Any]:
        """Convert the check to a JSON record."""
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

    The text of the windows is the same for all experts; the noise is the same for experts with the same vocabulary and
    source. Windows are truncated to the maximum length of an expert.

    The domain of an expert has the same name. An expert without a domain, such as a generalist, is scored but does not
    affect the verdicts.

    Args:
        experts: at least two with the name of a domain.
        domains: name -> documents.
        windows: number of windows of each domain.
        length: bytes per window.
        seed: seed of the windows and of the noise.
        track: progress bar.
    """
    names = [expert.spec.name for expert in experts]
    if len(set(names)) < len(names):
        raise ConservatorError(f"the names of the experts must be different, got {', '.join(names)}")
    compared = [name for name in names if name in domains]
    if len(compared) < 2:
        raise ConservatorError(
            f"expected at least two experts with the name of a domain, got the experts {', '.join(names)} and "
            f"the domains {', '.join(domains)}"
        )
    drawn: dict[tuple[Any, ...], Windows] = {}
    scores: dict[tuple[str, str], Scores] = {}
    for domain, expert in track([(domain, expert) for domain in domains for expert in experts], "scoring"):
        spec = expert.spec
        limit = spec.max_length if isinstance(spec.vocabulary, Tokens) else None
        key = (domain, spec.vocabulary.fingerprint, spec.source, limit)
        if key not in drawn:
            drawn[key] = draw_noisy_windows(domains[domain], windows, length, seed, spec.vocabulary, spec.source, limit)
        scores[domain, spec.name] = score(expert, drawn[key])
    cells = tuple(
        Cell(domain, name, cell_scores.energy(), cell_scores.per_hidden_byte(), cell_scores.bits_per_byte())
        for (domain, name), cell_scores in scores.items()
    )
    energies = {(cell.domain, cell.expert): cell.energy.value for cell in cells}
    documents = {domain: scores[domain, names[0]].documents for domain in domains}
    counts = {domain: {"windows": windows, "documents": len(indices.unique())} for domain, indices in documents.items()}
    return Check(
        cells,
        counts,
        {domain: _margin(scores, domain, compared) for domain in domains if domain in compared},
        all(energies[name, name] < energies[other, name] for name in compared for other in domains if other != name),
        all(energies[name, name] < energies[name, other] for name in compared for other in compared if other != name),
    )


def _margin(scores: Mapping[tuple[str, str], Scores], domain: str, compared: Sequence[str]) -> Estimate:
    """Compute the minimum energy of the other experts on ``domain`` minus that of its expert, with paired windows."""

    def difference(value: Callable[[Scores], torch.Tensor]) -> torch.Tensor:
        others = torch.stack([value(scores[domain, name]) for name in compared if name != domain])
        return others.min(0).values - value(scores[domain, domain])

    resampled = difference(lambda s: resampled_ratios(s.nats, s.length, s.documents))
    return interval(float(difference(lambda s: s.nats.sum() / s.length.sum())), resampled)
