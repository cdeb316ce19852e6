"""Fit an edit channel to pairs of observed and clean text, by expectation maximisation over all alignments."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from rapidfuzz.distance import Levenshtein

from conservator.arrays import Floats, Ints
from conservator.channels.edits import MAX_EDIT_CHARS, Edit, EditChannel
from conservator.errors import ConservatorError
from conservator.experts.meter import Progress
from conservator.lattice import Lattice


@dataclass(frozen=True)
class FitConfig:
    """Parameters of the fit."""

    band_chars: int = 2  # characters: maximum distance of an alignment from the shortest edit path [untuned]
    iterations: int = 5  # count: iterations of expectation maximisation [untuned]
    min_long_occurrences: int = 3  # count: minimum occurrences of a longer edit in shortest edit paths [untuned]
    min_expected_short: float = 0.5  # count: minimum expected occurrences of an edit of single characters [untuned]
    min_expected_long: float = 2.0  # count: minimum expected occurrences of a longer edit [untuned]
    initial_keep_prob: float = 0.9  # probability: initial value of keeping a character [untuned]
    initial_edit_prob: float = 0.001  # probability: initial value of an edit, divided by its characters [untuned]
    min_keep_prob: float = 1e-6  # probability: lower bound of keeping a character [numerical]
    min_prob: float = 1e-12  # probability: lower bound of an arc [numerical]


CONFIG = FitConfig()
SHAPES = [shape for shape in product(range(MAX_EDIT_CHARS + 1), repeat=2) if shape != (0, 0)]

Pair = tuple[str, str]  # observed text, clean text
Node = tuple[int, int]  # position in the clean text, position in the observed text


def log_likelihood(channel: EditChannel, observed: str, clean: str) -> float:
    """Return log p_c(observed | clean), summed over all paths from one to the other."""
    probabilities = {(character, character): channel.keep_prob(character) for character in set(clean)}
    probabilities |= dict(channel.edits)
    edit_ids = {edit: index for index, edit in enumerate(probabilities)}
    nodes = [(i, j) for i in range(len(clean) + 1) for j in range(len(observed) + 1)]
    lattice = build_lattice(observed, clean, nodes, edit_ids)
    with np.errstate(divide="ignore"):
        log_probs = np.log(list(probabilities.values()))
        return line_lattice(*lattice, log_probs).log_total


def fit_edits(pairs: Sequence[Pair], source: str = "", progress: Progress | None = None) -> EditChannel:
    """Return the channel with maximum likelihood of the observed texts, given the clean ones.

    Args:
        pairs: observed and clean texts, usually lines.
        source: a description of the pairs.
        progress: called with the stage and the completed fraction.
    """
    pairs = [(observed, clean) for observed, clean in pairs if observed and clean]
    if not pairs:
        raise ConservatorError("no pair of lines has text in both; at least one is needed to fit a channel")
    paths = [shortest_path(observed, clean) for observed, clean in pairs]
    edit_ids = {edit: index for index, edit in enumerate(candidate_edits(pairs, paths))}
    lattices = [
        build_lattice(observed, clean, nodes_near(path, observed, clean), edit_ids)
        for (observed, clean), path in zip(pairs, paths, strict=True)
    ]
    occurrences = count_occurrences([clean for _, clean in pairs], {clean for clean, _ in edit_ids})
    is_keep = np.array([clean == observed for clean, observed in edit_ids])
    sizes = np.array([len(clean) + len(observed) for clean, observed in edit_ids])
    opportunities = np.array([max(1, occurrences[clean]) for clean, _ in edit_ids], dtype=np.float64)
    probabilities = np.where(is_keep, CONFIG.initial_keep_prob, CONFIG.initial_edit_prob / sizes)
    expected = np.zeros(len(edit_ids))
    for iteration in range(CONFIG.iterations):
        expected = np.zeros(len(edit_ids))
        for nodes, sources, targets, edits in lattices:
            lattice = line_lattice(nodes, sources, targets, edits, np.log(probabilities))
            expected += np.bincount(edits, np.exp(lattice.log_posteriors), len(expected))
        probabilities = np.maximum(expected / opportunities, CONFIG.min_keep_prob * is_keep + CONFIG.min_prob)
        if progress is not None:
            progress("fitting", (iteration + 1) / CONFIG.iterations)
    return make_channel(edit_ids, probabilities, expected, occurrences, source)


def pair_lines(observed: Sequence[str], clean: Sequence[str]) -> list[Pair]:
    """Pair lines by their index if both texts have equally many lines; else return the whole texts as one pair."""
    if len(observed) == len(clean):
        return list(zip(observed, clean, strict=True))
    return [("\n".join(observed), "\n".join(clean))]


def make_channel(
    edit_ids: Mapping[Edit, int], probabilities: Floats, expected: Floats, occurrences: Mapping[str, int], source: str
) -> EditChannel:
    """Return the channel of the edits with enough expected occurrences, the most frequent first.

    The probability of an edit with a longer clean string is discounted by one expected occurrence. A character that
    never occurs in clean text has the average keep probability: these pairs may be the only ones where it is always
    wrong.
    """
    edits, keep_probs = {}, {}
    for (clean, observed), index in sorted(edit_ids.items(), key=lambda item: (-expected[item[1]], item[0])):
        if clean == observed:
            if occurrences[clean]:
                keep_probs[clean] = min(1.0, float(probabilities[index]))
            continue
        is_short = max(len(clean), len(observed)) <= 1
        min_expected = CONFIG.min_expected_short if is_short else CONFIG.min_expected_long
        if expected[index] < min_expected or "\n" in clean + observed:
            continue  # line ends are always kept
        discount = 1.0 if len(clean) <= 1 else (expected[index] - 1) / expected[index]
        edits[clean, observed] = min(1.0, float(probabilities[index] * discount))
    total = sum(occurrences[character] for character in keep_probs)
    keep_count = sum(keep_probs[character] * occurrences[character] for character in keep_probs)
    return EditChannel(edits, keep_probs, keep_count / max(1, total), source)


def shortest_path(observed: str, clean: str) -> list[Node]:
    """Return the nodes of an alignment with the fewest edits."""
    path = [(0, 0)]
    for operation in Levenshtein.editops(clean, observed):
        i, j = path[-1]
        path += [(i + offset, j + offset) for offset in range(1, operation.src_pos - i + 1)]
        i, j = path[-1]
        path.append((i + (operation.tag != "insert"), j + (operation.tag != "delete")))
    i, j = path[-1]
    return path + [(i + offset, j + offset) for offset in range(1, len(clean) - i + 1)]


def candidate_edits(pairs: Iterable[Pair], paths: Iterable[Sequence[Node]]) -> list[Edit]:
    """Return (character, character) for every character, and then the candidate edits."""
    counts: Counter[Edit] = Counter()
    keeps: dict[Edit, None] = {}
    for (observed, clean), path in zip(pairs, paths, strict=True):
        keeps |= dict.fromkeys((character, character) for character in clean + observed)
        for first, (i, j) in enumerate(path):
            for k, m in path[first + 1 : first + 2 * MAX_EDIT_CHARS]:
                if k - i > MAX_EDIT_CHARS or m - j > MAX_EDIT_CHARS:
                    break
                before, after = clean[i:k], observed[j:m]
                if differ_at_ends(before, after):
                    counts[before, after] += 1
    accepted = {edit for edit, count in counts.items() if is_candidate(edit, count)}
    return [*keeps, *(edit for edit in counts if edit in accepted)]


def is_candidate(edit: Edit, count: int) -> bool:
    """Whether an edit with ``count`` occurrences in shortest edit paths is a candidate; a long one must recur.

    Deletions have one clean character: longer deletions depend on the page, such as bullets before lines, and a
    correction would insert the deleted string everywhere.
    """
    clean, observed = edit
    if max(len(clean), len(observed)) <= 1:
        return True
    return count >= CONFIG.min_long_occurrences and (observed != "" or len(clean) <= 1)


def differ_at_ends(clean: str, observed: str) -> bool:
    """Whether two strings differ in their first and in their last character; one may be empty."""
    return clean != observed and not (clean and observed and (clean[0] == observed[0] or clean[-1] == observed[-1]))


def nodes_near(path: Iterable[Node], observed: str, clean: str) -> list[Node]:
    """Return the nodes within ``band_chars`` of a path, in order."""
    band = range(-CONFIG.band_chars, CONFIG.band_chars + 1)
    nodes = {(i, j + offset) for i, j in path for offset in band if 0 <= j + offset <= len(observed)}
    return sorted(node for node in nodes if node[0] <= len(clean))


def build_lattice(
    observed: str, clean: str, nodes: Sequence[Node], edit_ids: Mapping[Edit, int]
) -> tuple[int, Ints, Ints, Ints]:
    """Return the number of nodes, and the source node, the target node and the edit of each arc between them."""
    node_ids = {node: index for index, node in enumerate(nodes)}
    arcs: list[tuple[int, int, int]] = []
    for (i, j), source in node_ids.items():
        for clean_size, observed_size in SHAPES:
            target = node_ids.get((i + clean_size, j + observed_size))
            if target is not None:
                edit = edit_ids.get((clean[i : i + clean_size], observed[j : j + observed_size]))
                if edit is not None:
                    arcs.append((source, target, edit))
    columns = np.array(arcs, dtype=np.int64).reshape(-1, 3)
    return len(nodes), *np.ascontiguousarray(columns.T)


def line_lattice(nodes: int, sources: Ints, targets: Ints, edits: Ints, log_probs: Floats) -> Lattice:
    """Return the lattice of all alignments of a pair of lines, given the log-probability of each edit."""
    return Lattice(nodes, sources, targets, log_probs[edits], np.array([nodes - 1]))


def count_occurrences(texts: Iterable[str], strings: set[str]) -> Counter[str]:
    """Count the occurrences of ``strings`` in texts; the empty string occurs before and after each character."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts[""] += len(text) + 1
        for size in range(1, MAX_EDIT_CHARS + 1):
            counts.update(text[start : start + size] for start in range(len(text) - size + 1))
    return Counter({string: counts[string] for string in strings})
