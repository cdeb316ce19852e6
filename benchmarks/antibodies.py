"""Real weights: masked residues of antibodies, restored by AntiBERTy as an expert and by a direct call of its network.

    pip download --no-deps antiberty==0.1.3
    conservator convert antiberty-0.1.3-py3-none-any.whl --out antiberty
    python benchmarks/antibodies.py --model antiberty --antibodies antibodies.tsv [--count 200] [--rate 0.15] [--seed 0]

``antibodies.tsv`` has a line for each antibody, with its name and its heavy and light chain. Of the first ``--count``,
every residue of each chain is masked with probability ``--rate``. The expert is loaded by ``load_denoiser``; a team of
it alone decodes each chain in one step. The direct call spells the same chain as AntiBERTy's own program does, with a
space between residues, and reads it with ``BertForMaskedLM``. Log-probabilities are compared at every masked residue,
over all residues. Intervals are 95 %, by a bootstrap over antibodies. One thread, float32.
"""

import argparse
import csv
import json
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from transformers import BertForMaskedLM, PreTrainedTokenizerFast

from conservator.channels import MaskChannel
from conservator.experts import Context, Team
from conservator.experts.denoisers import load_denoiser, size_of
from conservator.field import Inferred
from conservator.reference import decode_one_step

RESAMPLES = 2000


def read_chains(path: Path, count: int) -> list[list[str]]:
    """The chains of each of the first antibodies."""
    with path.open(newline="") as handle:
        rows = list(csv.DictReader(handle, delimiter="\t"))[:count]
    return [[row[chain] for chain in ("heavy", "light") if row[chain]] for row in rows]


def call_directly(network: BertForMaskedLM, tokenizer: PreTrainedTokenizerFast, signs: list[str]) -> torch.Tensor:
    """(n, V) the log-probabilities at the masks of a chain, without special tokens, as AntiBERTy's program has them."""
    ids = tokenizer(" ".join(signs), return_tensors="pt").input_ids
    logits = network(input_ids=ids).logits
    logits[..., tokenizer.all_special_ids] = -torch.inf
    return logits[ids == tokenizer.mask_token_id].log_softmax(-1)


def interval(right: np.ndarray, total: np.ndarray, seed: int) -> tuple[float, float]:
    """The interval of a share, by a bootstrap over antibodies."""
    drawn = np.random.default_rng(seed).integers(len(total), size=(RESAMPLES, len(total)))
    low, high = np.quantile(right[drawn].sum(1) / total[drawn].sum(1), [0.025, 0.975])
    return float(low), float(high)


@torch.no_grad()
def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--antibodies", type=Path, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--rate", type=float, default=0.15)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"weights: {size_of(options.model) / 1e6:.0f} MB")
    expert = load_denoiser(options.model, precision="float32")
    vocabulary, team = expert.spec.vocabulary, Team([expert])
    channel = MaskChannel(vocabulary.size, options.rate)
    network = BertForMaskedLM.from_pretrained(options.model, dtype=torch.float32).eval()
    specials = {"mask_token": "[MASK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(options.model / "tokenizer.json"), unk_token="[UNK]", **specials
    )
    generator = torch.Generator().manual_seed(options.seed)
    shares: dict[str, list[tuple[int, int]]] = {"expert": [], "direct call": []}
    seconds, worst = dict.fromkeys(shares, 0.0), 0.0
    for chains in read_chains(options.antibodies, options.count):
        right, total = dict.fromkeys(shares, 0), 0
        for chain in chains:
            clean = torch.from_numpy(vocabulary.encode(chain.encode()).tokens)[None]
            observed = channel.corrupt(clean, generator)
            lost = observed.lost
            started = time.process_time()
            field = torch.ones(*clean.shape, 1, dtype=torch.float64)
            restored = decode_one_step(team, observed, Inferred.given(field).composition)
            seconds["expert"] += time.process_time() - started
            predicted = expert.predict(Context(observed.readable, lost), lost.nonzero(as_tuple=True))
            signs = ["[CLS]"] + ["[MASK]" if hidden else sign for sign, hidden in zip(chain, lost[0], strict=True)]
            started = time.process_time()
            direct = call_directly(network, tokenizer, [*signs, "[SEP]"])
            seconds["direct call"] += time.process_time() - started
            possible = ~torch.isneginf(direct[0]) if len(direct) else torch.zeros(vocabulary.size, dtype=torch.bool)
            worst = max(worst, float((predicted - direct)[:, possible].abs().max()) if len(direct) else 0.0)
            right["expert"] += int((restored.tokens == clean)[lost].sum())
            right["direct call"] += int((direct.argmax(-1) == clean[lost]).sum())
            total += int(lost.sum())
        for way in shares:
            shares[way].append((right[way], total))
    figures = {"antibodies": len(shares["expert"]), "largest difference of a log-probability": worst}
    for way, pairs in shares.items():
        right, total = np.array(pairs).T
        low, high = interval(right, total, options.seed)
        figures[way] = {
            "masked": int(total.sum()),
            "accuracy": round(float(right.sum() / total.sum()), 4),
            "interval": [round(low, 4), round(high, 4)],
            "cpu seconds": round(seconds[way], 1),
        }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
