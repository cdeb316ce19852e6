"""The steps from what is seen to what may be clean: at each place, the edits that could have made what follows."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conservator.channels.edits import LONGEST, EditChannel
from conservator.experts.grams.model import code_points

WIDEST = 24  # clean strings that are tried for what is seen, the commonest first

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Steps(NamedTuple):
    """Steps in a line that was seen, by the place where they begin.

    Attributes:
        begins: (L + 2,) where the steps of each place begin; there is a place after the last character, too.
        widths: (S,) how many characters of what is seen each step takes.
        texts: (S, LONGEST) the clean characters that it writes; 0 after them.
        sizes: (S,) how many they are.
        chances: (S,) its log-probability.
        stays: (S,) whether it leaves a character as it is.
    """

    begins: Ints
    widths: Ints
    texts: Ints
    sizes: Ints
    chances: Floats
    stays: NDArray[np.bool_]


@dataclass(frozen=True)
class StepTable:
    """The steps of a channel for every string that may be seen.

    Attributes:
        channel: the channel.
    """

    channel: EditChannel

    @cached_property
    def _known(self) -> dict[str, Steps]:
        return {}

    def after(self, seen: str) -> Steps:
        """The steps that take exactly ``seen``."""
        found = self._known.get(seen)
        if found is None:
            options = [(clean, chance, False) for clean, chance in self.channel.by_seen.get(seen, [])[:WIDEST]]
            if len(seen) == 1:
                options.append((seen, self.channel.stay(seen), True))
            texts = np.zeros((len(options), LONGEST), dtype=np.int64)
            for row, (clean, _, _) in enumerate(options):
                texts[row, : len(clean)] = code_points(clean)
            found = Steps(
                np.array([0, len(options)]),
                np.full(len(options), len(seen)),
                texts,
                np.array([len(clean) for clean, _, _ in options], dtype=np.int64),
                np.log([max(chance, 1e-12) for _, chance, _ in options]),
                np.array([stays for _, _, stays in options], dtype=bool),
            )
            self._known[seen] = found
        return found

    def of(self, line: str) -> Steps:
        """The steps in a line."""
        parts, begins = [], [0]
        for place in range(len(line) + 1):
            here = [self.after(line[place : place + width]) for width in range(min(LONGEST, len(line) - place) + 1)]
            parts += here
            begins.append(begins[-1] + sum(len(one.widths) for one in here))
        joined = [np.concatenate([part[field] for part in parts]) for field in range(1, len(Steps._fields))]
        return Steps(np.array(begins), *joined)
