"""Words that are broken at line ends."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator import Restorer
from conservator.channels import CORRUPT

TEXT = (
    "The harbour was quiet in the morning, and the boats lay close to the old stone wall. Nobody had seen the captain "
    "since the night of the storm, and the women of the village waited for important information about him.\n"
)


@pytest.fixture(scope="module")
def restorer():
    return Restorer()


@pytest.mark.parametrize(
    ("damaged", "clean"),
    [
        ("This is an exam-\nple of the text.\n", "This is an example\nof the text.\n"),
        ("This is a well-\nknown story of the town.\n", "This is a well-known\nstory of the town.\n"),
        ("It was an exam-\nple.\nThe end of the story.\n", "It was an\nexample.\nThe end of the story.\n"),
        ("This is an exam\u00ad\nple, and the infor\u00ac\nmation.\n", "This is an example,\nand the\ninformation.\n"),
        ("> This is an exam-\r\n> ple of the text.\r\n", "> This is an example\r\n> of the text.\r\n"),
        (
            "Die Entschei=\ndung war nicht leicht, und das war es.\n",
            "Die Entscheidung\nwar nicht leicht, und das war es.\n",
        ),
        ("Das ist die Arbeits-\nzeit der Frau.\n", "Das ist die Arbeitszeit\nder Frau.\n"),
    ],
)
def test_broken_words_are_joined(restorer, damaged, clean):
    result = restorer.restore(damaged.encode(), channel="hyphenation")
    assert result.text == clean
    assert result.text.count("\n") == damaged.count("\n")


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        "- one item\n- two items\n",
        "Die Vor-\nund Nachteile der Arbeit sind bekannt.\n",
        "value = first-\nsecond[2]\n",
        "| name-\nlong |\n",
        "see --long-\noption\n",
        "He came \u2014\nand went -\nand that was all.\n",
        "y=\nx\n",
    ],
)
def test_other_line_ends_stay(restorer, text):
    assert restorer.restore(text.encode(), channel="hyphenation").text == text


@settings(max_examples=15, deadline=None)
@given(st.floats(0, 1), st.integers(0, 100))
def test_wrapped_words_are_restored(restorer, rate, seed):
    damaged = CORRUPT["hyphenation"](TEXT, rate, np.random.default_rng(seed))
    result = restorer.restore(damaged.encode(), channel="hyphenation").text
    assert result.split() == TEXT.split()
    assert result.count("\n") == damaged.count("\n")
