"""Letter case: texts that lost their capital letters, are written in capitals, or have wrong letter case.

The rates of wrong capital and small letters are inferred from the document (``case_lattice``). It is changed only if
they explain it better than almost no errors do, by ``min_gain`` nats and ``min_gain_per_word``. Only the case of
letters changes. Addresses, identifiers, and lines of code stay.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from conservator.channel_names import CASE
from conservator.experts.letter_case import case_words, has_case_model, load_case_model
from conservator.experts.word_ngram import WordFrequencies, identify_languages
from conservator.pipelines.corrected_text import byte_offsets
from conservator.pipelines.task import PipelineTask
from conservator.pipelines.visible_text.case_lattice import CaseLattice, Rates, build_lattice
from conservator.pipelines.visible_text.code import code_mask
from conservator.pipelines.visible_text.correction import Proposal, TextChannel, correct_visible_text
from conservator.pipelines.visible_text.coverage import is_covered
from conservator.pipelines.visible_text.words import model_names
from conservator.results import Restoration


@dataclass(frozen=True)
class CaseConfig:
    """Constants of the channel."""

    min_gain: float = 6.0  # nats: of inferred rates over clean text [untuned]
    min_gain_per_word: float = 0.05  # nats: the same, per word [untuned]
    min_text: float = 0.5  # ratio: of the words that are not code, in a text that is changed [untuned]
    proposed: float = 0.02  # probability: of a change that is proposed [untuned]
    max_ratio: float = 3.0  # ratio: of r in the whole text to r at the start of sentences [untuned]
    rounds: int = 8  # iterations: of expectation maximisation [numerical]
    prior_errors: float = 0.5  # letters: prior count of errors [untuned]
    prior_correct: float = 2.0  # letters: prior count of correct letters [untuned]
    capitals: float = 0.6  # ratio: of capital letters in a text in capitals [untuned]
    few_capitals: float = 0.01  # ratio: of words with capital letters in a text without them [untuned]
    mixed: float = 0.05  # ratio: of words with mixed letters in a text with random letter case [untuned]


CONFIG = CaseConfig()
CLEAN = Rates(1e-3, 1e-5)


def restore_case(task: PipelineTask) -> Restoration:
    """Restore the capital and small letters of a document."""
    text = task.document.data.decode(errors="replace")
    frequencies = WordFrequencies(identify_languages(text.lower().encode()), {}, task.references.word_counts)
    damage = infer_damage(text, frequencies)
    channel = TextChannel(
        CASE,
        lambda _: () if damage is None else propose(text, *damage),
        model_names(frequencies),
        caution=1.0 if damage is None else max(0.0, 1.0 - 2 * max(damage[1].lowered, damage[1].raised)),
    )
    return correct_visible_text(task, channel)


def infer_damage(text: str, frequencies: WordFrequencies) -> tuple[CaseLattice, Rates] | None:
    """Return the forms of the words of a text and the rates of errors; None if the text is not damaged."""
    language = max(frequencies.languages, key=lambda name: frequencies.languages[name], default="")
    if not has_case_model(language) or not is_covered(text, frequencies.languages):
        return None
    words = case_words(text)
    start = start_rates([text[word.start : word.stop] for word in words])
    lattice = build_lattice(text, words, load_case_model(language), frequencies, deliberate=start.raised < 0.1)
    lattice = without_code(text, lattice)
    if len(lattice.words) <= CONFIG.min_text * len(words):
        return None
    rates, total = lattice.infer_rates(start, CONFIG.rounds, (CONFIG.prior_errors, CONFIG.prior_correct))
    clean = lattice.posteriors(CLEAN)[1]
    if total - clean < CONFIG.min_gain + CONFIG.min_gain_per_word * len(lattice.words):
        return None
    if rates.lowered > CONFIG.max_ratio * lattice.lowered_starts(rates):
        return None  # other spelling rules, such as those of nouns, rather than damage
    return lattice, rates


def start_rates(words: list[str]) -> Rates:
    """Return the rates to start with, by the shares of capital letters and of words with them."""
    letters = "".join(words)
    share = sum(map(str.isupper, letters)) / max(1, len(letters))
    capital = sum(word != word.lower() for word in words) / max(1, len(words))
    mixed = sum(word[1:] != word[1:].lower() and not word.isupper() for word in words) / max(1, len(words))
    if share > CONFIG.capitals:
        return Rates(0.01, 0.99)
    if mixed > CONFIG.mixed:
        return Rates(0.3, 0.3)
    return Rates(0.99, 1e-4) if capital < CONFIG.few_capitals else Rates(0.05, 1e-4)


def without_code(text: str, lattice: CaseLattice) -> CaseLattice:
    """Return the lattice without the words of code."""
    excluded = code_mask(text)
    is_text = np.array([not excluded[word.start] for word in lattice.words], dtype=bool)
    numbers = np.cumsum(is_text) - 1
    is_selected = is_text[lattice.owners] if len(lattice.owners) else np.zeros(0, dtype=bool)
    return CaseLattice(
        [word for word, flag in zip(lattice.words, is_text, strict=True) if flag],
        [form for form, flag in zip(lattice.forms, is_selected, strict=True) if flag],
        numbers[lattice.owners][is_selected],
        lattice.states[is_selected],
        lattice.log_priors[is_selected],
        lattice.counts[is_selected],
        lattice.log_odds[is_text],
    )


def propose(text: str, lattice: CaseLattice, rates: Rates) -> Iterator[Proposal]:
    """Propose other forms of the words whose letter case is probably wrong."""
    posteriors, _ = lattice.posteriors(rates)
    offsets = byte_offsets(text)
    for number, word in enumerate(lattice.words):
        observed = text[word.start : word.stop]
        first, last = lattice.starts[number], lattice.starts[number + 1]
        probs = dict(zip(lattice.forms[first:last], posteriors[first:last].tolist(), strict=True))
        if 1 - probs.get(observed, 0.0) < CONFIG.proposed:
            continue
        scores = {form.encode(): float(np.log(max(prob, 1e-30))) for form, prob in probs.items()}
        unchanged = scores.pop(observed.encode(), float(np.log(1e-30)))
        yield Proposal(offsets[word.start], offsets[word.stop], {observed.encode(): unchanged, **scores})
