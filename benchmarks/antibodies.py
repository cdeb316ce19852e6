"""Restore masked residues of antibodies with AntiBERTy, as an expert and by a direct call of its network.

    pip download --no-deps antiberty==0.1.3
    conservator convert antiberty-0.1.3-py3-none-any.whl --out antiberty
    python benchmarks/antibodies.py --model antiberty --antibodies antibodies.tsv [--count 200] [--rate 0.15] [--seed 0]

``antibodies.tsv`` has one row per antibody: its name, its heavy chain and its light chain. Every residue of the first
``--count`` antibodies is masked with probability ``--rate``. ``load_denoiser`` loads the expert, and a team of this
expert decodes each chain in one step. The direct call formats the chain as AntiBERTy's program does, with a space
between residues, and evaluates ``BertForMaskedLM``. The benchmark compares the log-probabilities of all residues at
every masked residue. Intervals are 95 %, from a bootstrap over antibodies. It uses one thread and float32.
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

RESAMPLES = 2000  # bootstrap samples


def read_chains(path: Path, count: int) -> list[list[str]]:
    """Read the chains of the first antibodies."""
    with path.open(newline="") as handle:
        rows = list(csv.DictReader(handle, delimiter="\t"))[:count]
    return [[row[chain] for chain in ("heavy", "light") if row[chain]] for row in rows]


def call_directly(network: BertForMaskedLM, tokenizer: PreTrainedTokenizerFast, symbols: list[str]) -> torch.Tensor:
    """Return (n, V) log-probabilities at the n masks of a chain, without special tokens, as AntiBERTy's program."""
    ids = tokenizer(" ".join(symbols), return_tensors="pt").input_ids
    logits = network(input_ids=ids).logits
    logits[..., tokenizer.all_special_ids] = -torch.inf
    return logits[ids == tokenizer.mask_token_id].log_softmax(-1)


def interval(correct: np.ndarray, total: np.ndarray, seed: int) -> tuple[float, float]:
    """Compute the interval of an accuracy, by a bootstrap over antibodies."""
    samples = np.random.default_rng(seed).integers(len(total), size=(RESAMPLES, len(total)))
    low, high = np.quantile(correct[samples].sum(1) / total[samples].sum(1), [0.025, 0.975])
    return float(low), float(high)


@torch.no_grad()
def main() -> None:
    """Run the benchmark."""
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
    counts: dict[str, list[tuple[int, int]]] = {"expert": [], "direct call": []}
    seconds, max_difference = dict.fromkeys(counts, 0.0), 0.0
    for chains in read_chains(options.antibodies, options.count):
        correct, total = dict.fromkeys(counts, 0), 0
        for chain in chains:
            clean = torch.from_numpy(vocabulary.encode(chain.encode()).tokens)[None]
            observed = channel.corrupt(clean, generator)
            lost = observed.lost
            started = time.process_time()
            field = torch.ones(*clean.shape, 1, dtype=torch.float64)
            restored = decode_one_step(team, observed, Inferred.given(field).composition)
            seconds["expert"] += time.process_time() - started
            predicted = expert.predict(Context(observed.readable, lost), lost.nonzero(as_tuple=True))
            residues = ["[MASK]" if hidden else residue for residue, hidden in zip(chain, lost[0], strict=True)]
            started = time.process_time()
            direct = call_directly(network, tokenizer, ["[CLS]", *residues, "[SEP]"])
            seconds["direct call"] += time.process_time() - started
            possible = ~torch.isneginf(direct[0]) if len(direct) else torch.zeros(vocabulary.size, dtype=torch.bool)
            if len(direct):
                max_difference = max(max_difference, float((predicted - direct)[:, possible].abs().max()))
            correct["expert"] += int((restored.tokens == clean)[lost].sum())
            correct["direct call"] += int((direct.argmax(-1) == clean[lost]).sum())
            total += int(lost.sum())
        for method in counts:
            counts[method].append((correct[method], total))
    summary: dict[str, object] = {"antibodies": len(counts["expert"]), "max log-probability difference": max_difference}
    for method, pairs in counts.items():
        correct, total = np.array(pairs).T
        low, high = interval(correct, total, options.seed)
        summary[method] = {
            "masked": int(total.sum()),
            "accuracy": round(float(correct.sum() / total.sum()), 4),
            "interval": [round(low, 4), round(high, 4)],
            "cpu seconds": round(seconds[method], 1),
        }
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
