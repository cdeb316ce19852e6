"""Memory and time of every engine with a large vocabulary: 1,024 tokens, a vocabulary of 50,257, three experts.

Each engine runs in a separate process. The peak is the maximum resident size of that process, including Python, torch
and compiled kernels. The experts return a constant row, so the seconds measure the engine.

    python benchmarks/memory_large_vocabulary.py

``--quick`` uses fewer folds, states and evaluations, but predicts as many positions at once, so the peak is the same.
The tests use it.
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
    "GLOBAL": replace(GLOBAL, folds=ONCE, resolution=3),
    "Maximum": Maximum(folds=ONCE),
    "Ascent": Ascent(iterations=1, folds=ONCE),
}


class ConstantExpert:
    """An expert that predicts the same distribution at every position."""

    def __init__(self, seed: int) -> None:
        """Draw the distribution."""
        self.spec = ExpertSpec(str(seed), NumberedVocabulary(VOCABULARY), LENGTH)
        logits = torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(seed))
        self.log_probs = torch.log_softmax(logits, dim=-1)

    def predict(self, context: Context, at: At) -> torch.Tensor:
        """Return one row per position, in new memory, as a network does."""
        return self.log_probs.repeat(len(at[0]), 1)


def measure(engine: Engine) -> dict[str, float]:
    """Run an engine; return its seconds, and the peak memory of this process before and after, in MB."""
    team = Team([ConstantExpert(seed) for seed in range(EXPERTS)])
    tokens = torch.randint(VOCABULARY, (1, LENGTH), generator=torch.Generator().manual_seed(7))
    observation = MaskChannel(VOCABULARY, 0.2).corrupt(tokens, torch.Generator().manual_seed(8))
    before, start = peak_megabytes(), time.perf_counter()
    inferred = engine(team, observation, torch.Generator().manual_seed(9))
    seconds = time.perf_counter() - start
    if not torch.isfinite(inferred.field).all():
        raise AssertionError("the field must be finite")
    return {"before": before, "peak": peak_megabytes(), "seconds": seconds}


def peak_megabytes() -> float:
    """Return the maximum resident size of this process so far, in MB."""
    try:  # ru_maxrss starts at the size of the parent process
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:  # not Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=ENGINES, help="measure only this engine, in this process")
    parser.add_argument("--quick", action="store_true", help="fewer folds, states and evaluations")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.engine and options.quick:
        short = partial(maximise, max_evaluations=2)
        with mock.patch("conservator.reference.engines.solved.maximise", short):
            print(json.dumps(measure(QUICK[options.engine])))
    elif options.engine:
        print(json.dumps(measure(ENGINES[options.engine])))
    else:
        print(f"V = {VOCABULARY}, L = {LENGTH}, m = {EXPERTS}; {platform.machine()}, one thread")
        for name in ENGINES:
            command = [sys.executable, str(Path(__file__)), "--engine", name, *["--quick"] * options.quick]
            result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            memory = f"{result['peak']:6.0f} MB ({result['before']:.0f} before)"
            print(f"{name:10} {memory}  {result['seconds']:6.1f} s", flush=True)


if __name__ == "__main__":
    main()
