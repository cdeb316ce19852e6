"""Words that are broken at the end of a line.

Of a line that ends with the letters a and a hyphen, and the next line, which begins with the letters b, the candidates
are

    joined ab:     log q + log (1 - h) + log p(ab)
    hyphenated:    log q + log h       + log p(a) + log p(b)
    not broken:    log (1 - q) + log c + log p(a) + log p(b)

p are the word frequencies, h is the share of hyphenated words, inferred from the text, c is the share of words that end
with a hyphen ("pre- and postwar"), and q, for each character that stands for the hyphen, the probability that a line
end with it breaks a word. q is inferred from the text, too, by expectation maximisation with a beta prior. A joined
word goes to the end of the line, and the next line starts after it. If it is all that the next line has, it goes to the
next line, and the line before ends in front of it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from conservator.channel_names import HYPHENATION
from conservator.experts.word_ngram import WordFrequencies
from conservator.pipelines.corrected_text import byte_offsets
from conservator.pipelines.correction.protection import ADDRESS, SYMBOLS, has_digit
from conservator.pipelines.task import PipelineTask
from conservator.pipelines.visible_text.correction import Proposal, TextChannel, correct_visible_text
from conservator.pipelines.visible_text.words import WordScores, model_names
from conservator.results import Restoration

# Characters at the end of a line that may break a word; U+2E17 is the double oblique hyphen of old prints.
HYPHENS = "-\u2010\u00ad\u00ac=\u2e17"
LETTERS = r"[^\W\d_](?:[^\W\d_]|[\u0300-\u036f])*"
PREFIX = r"[ \t]*(?:(?:>[ \t]?)+|#+|//+|%|\*(?=[ \t]))?[ \t]*"  # indentation, or marks of quotations and comments
BREAK = re.compile(
    rf"(?P<token>[^\s|]*?)(?P<left>{LETTERS})(?P<hyphen>[{HYPHENS}])(?P<end>[ \t]*\r?\n)"
    rf"(?P<prefix>{PREFIX})(?P<right>{LETTERS})(?P<rest>[^\s|]*)(?P<space>[ \t]*)"
)
HYPHENATED = re.compile(rf"{LETTERS}[-\u2010]{LETTERS}")
# After a hyphen, these words continue an enumeration such as "pre- and postwar".
CONJUNCTIONS = frozenset(
    word
    for words in (
        "and or to und oder bzw bis sowie noch als et ou y o u e ed od i a lub oraz och eller og en of ja tai sekä",
        "vagy és ve veya și sau ali ili in ar un vai või",
        "\u0438 \u0438\u043b\u0438 \u0430 \u0434\u043e \u0442\u0430 \u0430\u0431\u043e \u0439",
    )
    for word in words.split()
)


@dataclass(frozen=True)
class HyphenationConfig:
    """Constants of the channel.

    Attributes:
        breaks: Character -> prior counts of line ends with it that do and do not break a word.
    """

    hyphenated_words: float = 2.0  # words: prior count of hyphenated words [untuned]
    all_words: float = 200.0  # words: prior count of words that may be hyphenated [untuned]
    hyphen_nearby: float = 20.0  # ratio: h is larger if the word has another hyphen [untuned]
    counted: float = 1.0  # words: weight of an occurrence of the hyphenated word in the text or a reference [untuned]
    conjunction: float = 0.02  # ratio: 1 - h and h are smaller if b is a conjunction [untuned]
    ends_with_hyphen: float = 0.1  # ratio: c to h, unless b is a conjunction [untuned]
    rounds: int = 10  # iterations: of expectation maximisation [numerical]


CONFIG = HyphenationConfig()
PRIOR_BREAKS: Mapping[str, tuple[float, float]] = {"=": (0.2, 39.8), "-": (9.0, 1.0), "\u2010": (9.0, 1.0)}
OTHER_BREAKS = (19.0, 1.0)  # counts: of soft hyphens and other characters that only break words [untuned]


@dataclass(frozen=True)
class Break:
    """A line end that may break a word.

    Attributes:
        match: The match of ``BREAK``.
        broken: Text -> its log-score given that the word is broken.
        unbroken: Log-score given that it is not.
    """

    match: re.Match[str]
    broken: Mapping[str, float]
    unbroken: float

    def prob(self, share: float) -> float:
        """Return the probability that the word is broken, with q = ``share``."""
        broken = np.logaddexp.reduce(list(self.broken.values())) + np.log(share)
        return float(np.exp(broken - np.logaddexp(broken, self.unbroken + np.log1p(-share))))


def restore_hyphenation(task: PipelineTask) -> Restoration:
    """Join the words of a document that are broken at line ends."""
    frequencies = WordFrequencies.of(task.document.data, task.references.word_counts)
    texts = [text for _, text in task.references.texts]
    channel = TextChannel(
        HYPHENATION, lambda text: propose(text, WordScores(frequencies), texts), model_names(frequencies)
    )
    return correct_visible_text(task, channel)


def propose(text: str, scores: WordScores, references: list[str]) -> Iterator[Proposal]:
    """Propose to join the words of a text that are broken at line ends."""
    hyphenated = Counter(match[0] for source in (text, *references) for match in HYPHENATED.finditer(source))
    words = sum(scores.frequencies.document.values())
    share = (CONFIG.hyphenated_words + hyphenated.total()) / (CONFIG.all_words + words + hyphenated.total())
    breaks = [
        Break(match, broken_scores(match, scores, hyphenated, min(0.5, share)), unbroken_score(match, scores, share))
        for match in BREAK.finditer(text)
        if is_prose(text, match)
    ]
    offsets = byte_offsets(text) if breaks else []
    shares = infer_shares(breaks)
    for item in breaks:
        start, stop = item.match.start("token"), item.match.end()
        share = shares[item.match["hyphen"]]
        proposed: dict[bytes, float] = {text[start:stop].encode(): item.unbroken + np.log1p(-share)}
        for word, score in item.broken.items():
            begin, written = written_text(text, item.match, word)
            if begin < start:
                start, proposed = begin, {text[begin:stop].encode(): item.unbroken + np.log1p(-share)}
            proposed[written.encode()] = score + np.log(share)
        yield Proposal(offsets[start], offsets[stop], proposed)


def is_prose(text: str, match: re.Match[str]) -> bool:
    """Return whether a line end with a hyphen may break a word: not in code, addresses, tables, and before capitals."""
    first = match["token"] + match["left"] + match["hyphen"]
    last = match["right"] + match["rest"]
    line = text[text.rfind("\n", 0, match.start()) + 1 : match.end("end")]
    following = text[match.end("end") : text.find("\n", match.end("end")) % (len(text) + 1)]
    begin = re.match(PREFIX, line)
    is_code = any(
        has_digit(token) or ADDRESS.search(token) or len(SYMBOLS.findall(token)) > 1 for token in (first, last)
    )
    is_upper = match["right"][0].isupper() and not (match["left"] + match["right"]).isupper()
    has_prefix = not match["prefix"].strip() or (begin is not None and begin[0] == match["prefix"])
    is_code = is_code or "|" in line + following
    return not is_code and not first.startswith("-") and has_prefix and (not is_upper or match["hyphen"] in "-\u2010")


def broken_scores(
    match: re.Match[str], scores: WordScores, hyphenated: Mapping[str, int], share: float
) -> dict[str, float]:
    """Return the joined and the hyphenated word and their log-scores given that the word is broken."""
    left, right, hyphen = match["left"], match["right"], match["hyphen"]
    is_upper = right[0].isupper() and not (left + right).isupper()
    has_hyphen = match["token"].endswith(("-", "\u2010")) or match["rest"].startswith(("-", "\u2010"))
    share = min(0.5, share * CONFIG.hyphen_nearby) if has_hyphen else share
    factor = CONFIG.conjunction if right.lower() in CONJUNCTIONS else 1.0
    pair = pair_score(match, scores)
    hyphenated_word = f"{left}{hyphen}{right}" if hyphen in "-\u2010" else f"{left}-{right}"
    count = CONFIG.counted * hyphenated.get(f"{left}-{right}", 0) / scores.frequencies.total
    result = {hyphenated_word: float(np.logaddexp(np.log(factor * share) + pair, np.log(max(count, 1e-300))))}
    if not is_upper:
        result = {left + right: np.log(factor * (1 - share)) + scores.log_prob(left + right), **result}
    return result


def pair_score(match: re.Match[str], scores: WordScores) -> float:
    """Return log p(a) + log p(b); both parts are counted in the text, which is no evidence."""
    return scores.log_prob(match["left"], excluded=1) + scores.log_prob(match["right"], excluded=1)


def unbroken_score(match: re.Match[str], scores: WordScores, share: float) -> float:
    """Return the log-score of two words given that the line end breaks no word."""
    if match["hyphen"] not in "-\u2010":
        return pair_score(match, scores)
    factor = 1.0 if match["right"].lower() in CONJUNCTIONS else CONFIG.ends_with_hyphen
    return pair_score(match, scores) + float(np.log(factor * share))


def infer_shares(breaks: list[Break]) -> dict[str, float]:
    """Return the mode of q for each character that occurs, by expectation maximisation."""
    shares = {}
    for hyphen in {item.match["hyphen"] for item in breaks}:
        items = [item for item in breaks if item.match["hyphen"] == hyphen]
        yes, no = PRIOR_BREAKS.get(hyphen, OTHER_BREAKS)
        share = yes / (yes + no)
        for _ in range(CONFIG.rounds):
            share = (yes + sum(item.prob(share) for item in items)) / (yes + no + len(items))
        shares[hyphen] = share
    return shares


def written_text(text: str, match: re.Match[str], word: str) -> tuple[int, str]:
    """Return the first character that a joined word replaces, and the text from there to the end of the match."""
    start, end, prefix = match.start("token"), match["end"].lstrip(" \t"), match["prefix"]
    joined = match["token"] + word + match["rest"]
    if match.end() < len(text) and text[match.end()] not in "\r\n":
        return start, f"{joined}{end}{prefix}"
    before = re.search(r"\S([ \t]+)$", text[text.rfind("\n", 0, start) + 1 : start])
    if before and not re.fullmatch(PREFIX, text[text.rfind("\n", 0, start) + 1 : start]):
        return start - len(before[1]), f"{end}{prefix}{joined}{match['space']}"
    return start, joined + match["space"]
