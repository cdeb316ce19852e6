"""The word expert over characters: codes of characters, and agreement with the word expert over bytes."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import CharacterMaskChannel, MaskChannel
from conservator.channels.character_mask import ANY, kinds_of_characters
from conservator.experts import Context
from conservator.experts.word_ngram import WordModel
from conservator.experts.word_ngram.alphabet import OTHER, Alphabet, encode_list, list_characters
from conservator.experts.word_ngram.characters import HIDDEN_CHARACTER, CodedWords
from conservator.experts.word_ngram.expert import NO_COUNTS, SPEC
from conservator.experts.word_ngram.lists import load_word_list
from conservator.vocabularies import BYTES

RUSSIAN = "комитет собрался во вторник, и комитет решил: этого никто не ожидал. "


def document(text, lost):
    """Return the observation of a text without the characters ``lost``, and its positions of lost bytes."""
    widths = [len(character.encode()) for character in text]
    kinds = np.concatenate(
        [
            kinds_of_characters(np.array([width])) if index in lost else np.full(width, ANY)
            for index, width in enumerate(widths)
        ]
    )
    tokens = torch.tensor([list(text.encode())]).masked_fill(torch.from_numpy(kinds) != ANY, BYTES.mask)
    return CharacterMaskChannel(kinds).observe(tokens), np.flatnonzero(kinds != ANY)


def predict(words, observation, hidden):
    """Return the predictions (n, V) at the positions ``hidden``, all of which are hidden."""
    masked = torch.zeros(1, observation.tokens.shape[1], dtype=torch.bool)
    masked[0, hidden] = True
    at = (torch.zeros(len(hidden), dtype=torch.long), torch.as_tensor(hidden))
    context = Context(observation.readable, masked, start=torch.tensor([0]))
    return words.condition(observation).predict(context, at)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30))
def test_codes_identify_the_characters_of_an_alphabet(text):
    alphabet = Alphabet.of(text)
    codes = alphabet.encode(text)
    assert len(codes) == len(text)
    for code, character in zip(codes, text, strict=True):
        assert code == OTHER or alphabet.characters[code] == character.encode()
        if code != OTHER:
            assert alphabet.widths[code] == len(character.encode())


def test_a_control_character_is_not_confused_with_punctuation():
    alphabet = Alphabet.of("«»")
    assert alphabet.encode("\x01«") == bytes([OTHER, alphabet.codes["«"]])


def test_a_word_list_in_codes_has_the_same_words():
    alphabet = Alphabet.of(list_characters("de"))
    codes = tuple(alphabet.codes.get(character, OTHER) for character in list_characters("de"))
    coded, listed = encode_list("de", codes).probs, load_word_list("de").probs
    assert coded[alphabet.encode("für")] == listed["für".encode()]
    assert len(coded) > 0.99 * len(listed)


def test_predictions_of_ascii_text_are_those_of_the_expert_over_bytes():
    text = "the king is dead, long live the king"
    observation, lost = document(text, {5, 6, 25})
    by_bytes = MaskChannel(BYTES.size, 0.5).observe(observation.tokens)
    words = WordModel(lists=False)
    ours, theirs = (predict(words, document, lost).exp() for document in (observation, by_bytes))
    printable = slice(32, 127)  # control characters have no code
    ours, theirs = (probs[:, printable] / probs[:, printable].sum(dim=1, keepdim=True) for probs in (ours, theirs))
    torch.testing.assert_close(ours, theirs, atol=5e-3, rtol=0.02)


def test_a_lost_letter_of_two_bytes_is_predicted():
    index = RUSSIAN.index("итет решил")
    observation, lost = document(RUSSIAN, {index})
    log_probs = predict(WordModel(lists=False), observation, lost)
    torch.testing.assert_close(log_probs.exp().sum(dim=1), torch.ones(2))
    first, second = RUSSIAN[index].encode()
    assert int(log_probs[0].argmax()) == first
    # Given the first byte, the second one follows.
    tokens = observation.tokens.clone()
    tokens[0, lost[0]] = first
    masked = torch.zeros(1, observation.tokens.shape[1], dtype=torch.bool)
    masked[0, lost[1]] = True
    expert = WordModel(lists=False).condition(observation)
    at = (torch.tensor([0]), torch.tensor([lost[1]]))
    context = Context(tokens.masked_fill(tokens == BYTES.mask, 0), masked, start=torch.tensor([0]))
    assert int(expert.predict(context, at)[0].argmax()) == second


def test_predictions_do_not_depend_on_the_window():
    index = RUSSIAN.index("итет решил")
    observation, lost = document(RUSSIAN, {index})
    expert, whole = WordModel(lists=False).condition(observation), predict(WordModel(lists=False), observation, lost)
    start, stop = 33, 115  # begins and ends within a character
    window = observation.readable[:, start:stop]
    masked = torch.zeros(1, stop - start, dtype=torch.bool)
    masked[0, lost - start] = True
    at = (torch.zeros(2, dtype=torch.long), torch.as_tensor(lost - start))
    part = expert.predict(Context(window, masked, start=torch.tensor([start])), at)
    torch.testing.assert_close(part, whole, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("width", [1, 2])
def test_the_distribution_of_a_hidden_character_is_normalised(width):
    index = RUSSIAN.index("лся") - 1
    text = RUSSIAN[:index] + HIDDEN_CHARACTER + RUSSIAN[index + 1 :]
    words = CodedWords.of(text, NO_COUNTS, SPEC, lists=width == 2)
    codes = np.frombuffer(words.codes, dtype=np.uint8)
    rows = words.distributions(codes, 0, np.array([text.index(HIDDEN_CHARACTER)]))
    assert rows.sum() == pytest.approx(1)
    if width == 2:
        assert words.alphabet.characters[int(rows[0].argmax())] == RUSSIAN[index].encode()
