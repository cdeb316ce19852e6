"""What training hides of characters, and the words outside ASCII that documents share."""

import torch

from conservator.training.path import encoding_loss
from conservator.training.phrases import LEAST_OUTSIDE, LEAST_PAIRS, find_words_outside
from conservator.vocabularies import CHARACTERS


def test_three_of_four_rows_lose_what_is_outside_ascii_and_nothing_else():
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(CHARACTERS.size, (8, 50), generator=generator)
    at_random, lost = encoding_loss(tokens, torch.ones(8, 50, dtype=torch.bool))
    decoded = torch.arange(8) % 4 > 0
    assert torch.equal(lost[decoded], torch.from_numpy(CHARACTERS.outside)[tokens[decoded]])
    assert not lost[~decoded].any()
    assert torch.equal(at_random[~decoded], tokens[~decoded] != CHARACTERS.other)
    assert not at_random[decoded].any()


def test_words_outside_ascii_are_kept_if_several_documents_share_them():
    often, seldom = ["im Café ist es schön"] * LEAST_PAIRS, ["größer"] * (LEAST_OUTSIDE - 1)
    assert find_words_outside([*often, *seldom]) == [" Café ", " Café ist ", " es schön ", " im Café ", " schön "]
