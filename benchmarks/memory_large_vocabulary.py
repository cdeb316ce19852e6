"""What every engine needs at a large vocabulary: a sequence of 1,024 tokens of 50,257, three experts.

Each engine runs in a process of its own. The peak is the largest resident size of that process, Python, torch and the
kernels that numba compiles included. The experts are tables of one row, so the seconds are those of the engine.

    python benchmarks/memory_large_vocabulary.py

With ``--quick`` there are fewer folds, states and evaluations, and as many positions predicted at once, so that the
peak says the same in a few seconds. The tests run that.
"""

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import torch

from conservator.channels import MaskChannel
from conservator.experts import At, Context, ExpertSpec, Team
from conservator.field import GLOBAL, Bayes, Engine, Folds
from conservator.reference import Ascent, Maximum, Particles, maximise
from conservator.vocabularies import NumberedVocabulary

VOCABULARY, LENGTH, EXPERTS = 50_257, 1024, 3
ENGINES: dict[str, Engine] = {
    "Bayes": Bayes(),
    "GLOBAL": GLOBAL,
    "Maximum": Maximum(),
    "Ascent": Ascent(iterations=2),
    "Particles": Particles(iterations=1, particles=1, samples=1, steps=2),
}
ONCE = Folds(2)
QUICK: dict[str, Engine] = {
    **ENGINES,
    "Bayes": Bayes(folds=ONCE),
    "GLOBAL": replace(GLOBAL, folds=ONCE, parts=3),
    "Maximum": Maximum(folds=ONCE),
    "Ascent": Ascent(iterations=1, folds=ONCE),
}


class Row:
    """Predicts the same row wherever it is asked."""

    def __init__(self, seed: int) -> None:
        """Draw the row."""
        self.spec = ExpertSpec(str(seed), NumberedVocabulary(VOCABULARY), LENGTH)
        logits = torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(seed))
        self.row = torch.log_softmax(logits, dim=-1)

    def predict(self, context: Context, at: At) -> torch.Tensor:
        """Rows of their own for the positions asked for, as a network returns them."""
        return self.row.repeat(len(at[0]), 1)


def measure(engine: Engine) -> dict[str, float]:
    """Run an engine; its seconds, and the peak of this process before and after, in megabytes."""
    team = Team([Row(seed) for seed in range(EXPERTS)])
    tokens = torch.randint(VOCABULARY, (1, LENGTH), generator=torch.Generator().manual_seed(7))
    observation = MaskChannel(VOCABULARY, 0.2).corrupt(tokens, torch.Generator().manual_seed(8))
    before, began = peak(), time.perf_counter()
    found = engine(team, observation, torch.Generator().manual_seed(9))
    seconds = time.perf_counter() - began
    if not torch.isfinite(found.field).all():
        raise AssertionError("the field is no field")
    return {"before": before, "peak": peak(), "seconds": seconds}


def peak() -> float:
    """The largest resident size of this process so far, in megabytes."""
    try:  # ru_maxrss begins with the size of the process that started this one
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:  # not Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def main() -> None:
    """Measure each engine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=ENGINES, help="measure this one, in this process")
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.engine and chosen.quick:
        few = partial(maximise, max_evaluations=2)
        with mock.patch("conservator.reference.engines.solved.maximise", few):
            print(json.dumps(measure(QUICK[chosen.engine])))
    elif chosen.engine:
        print(json.dumps(measure(ENGINES[chosen.engine])))
    else:
        print(f"V = {VOCABULARY}, L = {LENGTH}, m = {EXPERTS}; {platform.machine()}, one thread")
        for name in ENGINES:
            words = [sys.executable, str(Path(__file__)), "--engine", name, *["--quick"] * chosen.quick]
            found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
            memory = f"{found['peak']:6.0f} MB ({found['before']:.0f} before)"
            print(f"{name:10} {memory}  {found['seconds']:6.1f} s", flush=True)


if __name__ == "__main__":
    main()
