"""What doubt brings where damage is not seen: restoration and field by rounds of gathering evidence.

    python benchmarks/doubt.py [--corpora PATH] [--windows 64] [--rate 0.2] [--json FILE]

Tokens are overwritten by random ones at a rate, and nothing says which. In the first round the experts trust all of
them; in each further one, and when they decode, a token is hidden from them with the probability that it is wrong (in
no round: never). First on two chains of 12
tokens (exact conditionals; 64 positions in three regions), then, with ``--corpora``, on mixed byte windows of 256 from
the documents of ``train`` that the built-in experts' training held out. Beside it: copying, and one-step decoding with
the damaged positions told (the mask channel's case), which is what doubt can reach at best.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from conservator.channels import MaskChannel, ReplacementChannel
from conservator.evaluation.provenance import commit, versions
from conservator.experts import Team, load_experts
from conservator.field import Bayes
from conservator.reference import BigramExpert, decode_one_step, decode_with_channel, draw_particles
from conservator.system.files import write_atomically
from conservator_studies.corpora import DOMAINS, read_domains
from conservator_studies.mixtures import mix

ROUNDS = (0, 1, 2, 3, 5)
FOLDS = 5


def chains(count: int, seed: int) -> tuple[Team, Tensor, Tensor]:
    """Two random chains, and sequences that follow the first, the second and the first again."""
    generator = torch.Generator().manual_seed(seed)
    team = Team([BigramExpert.random(12, 2.0, generator, f"chain {number}") for number in range(2)])
    labels = torch.tensor([0] * 21 + [1] * 22 + [0] * 21)
    everything = torch.ones(count, 64, dtype=torch.bool)
    nothing = torch.zeros(count, 64, dtype=torch.long)
    field = torch.eye(2, dtype=torch.float64)[labels]
    return team, draw_particles(team, field, nothing, everything, 64, generator), labels.expand(count, -1)


def measure(name: str, team: Team, clean: Tensor, labels: Tensor, rate: float, seed: int) -> list[dict[str, object]]:
    """Restore overwritten tokens with more and more rounds."""
    size = team.vocabulary.size
    observation = ReplacementChannel(size, rate).corrupt(clean, torch.Generator().manual_seed(seed))
    wrong = observation.tokens != clean
    rows: list[dict[str, object]] = []

    def row(method: str, tokens: Tensor, regions: Tensor | None = None, evaluations: float = 0) -> None:
        right = tokens == clean
        found: dict[str, object] = {"data": name, "method": method, "accuracy": float(right.double().mean())}
        found["repaired"] = float(right[wrong].double().mean())
        found["spoilt"] = float((~right[~wrong]).double().mean())
        found["evaluations"] = evaluations / len(clean)
        if regions is not None:
            found["field_accuracy"] = float((regions.argmax(-1) == labels).double().mean())
        rows.append(found)

    row("copy", observation.tokens)
    for rounds in ROUNDS:
        generator = torch.Generator().manual_seed(seed)
        inferred = Bayes(iterations=max(1, rounds))(team, observation, generator)
        if rounds == 0:
            inferred = replace(inferred, error_probs=torch.zeros_like(inferred.error_probs))
        decoded = decode_with_channel(team, observation, inferred, FOLDS, generator)
        spent = inferred.cost.evaluations + decoded.cost.evaluations
        row(f"{rounds} rounds of doubt", decoded.tokens, inferred.regions, spent)
    told = MaskChannel(size, rate).observe(observation.tokens.masked_fill(wrong, size))
    inferred = Bayes()(team, told, torch.Generator().manual_seed(seed))
    decoded = decode_one_step(team, told, inferred.composition)
    spent = inferred.cost.evaluations + decoded.cost.evaluations
    row("damage told", decoded.tokens, inferred.regions, spent)
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, help="the folder with NAME.train.jsonl.gz, for byte windows")
    parser.add_argument("--experts", nargs=3, default=list(DOMAINS), help="three experts: prose, code, config")
    parser.add_argument("--windows", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    team, clean, labels = chains(options.windows, options.seed)
    rows = measure("two chains", team, clean, labels, options.rate, options.seed)
    if options.corpora:
        domains = read_domains(options.corpora, "train", held_out=True)
        mixed = mix(domains, options.windows, seed=options.seed)
        trained = Team(load_experts(options.experts))
        rows += measure("bytes", trained, mixed.tokens, mixed.labels, options.rate, options.seed)

    columns = ("accuracy", "repaired", "spoilt", "field_accuracy", "evaluations")
    table = Table("data", "method", *(heading.replace("_", " ") for heading in columns))
    for one in rows:
        shown = [f"{one[key]:.4g}" if key in one else "" for key in columns]
        table.add_row(str(one["data"]), str(one["method"]), *shown)
    Console(width=120).print(table)
    if options.json:
        record = {"commit": commit(), "versions": versions(), "seed": options.seed, "rate": options.rate}
        record |= {"windows": options.windows, "rows": rows}
        write_atomically(options.json, (json.dumps(record, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
