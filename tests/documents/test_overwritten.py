"""Detection of overwritten bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.documents import damage
from conservator.documents.overwritten import CONTROL_BYTES, CONTROLS, overwritten_rate

TEXTS = {
    "English": "The harbour was quiet in the morning, and the boats lay close to the old stone wall.\n" * 20,
    "German": "Der Hafen war am frühen Morgen ruhig, und die Boote lagen nahe der alten Mauer.\n" * 20,
    "Russian": "Утром в гавани было тихо, и лодки стояли около старой каменной стены.\n" * 20,
}


def test_the_number_of_control_bytes():
    assert sum(bool(CONTROLS.match(bytes([byte]))) for byte in range(256)) == CONTROL_BYTES


@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("rate", [0.05, 0.2])
def test_the_rate_of_overwritten_bytes(language, rate):
    damaged = damage(TEXTS[language].encode() * 4, rate, channel="replacement", seed=1)
    assert overwritten_rate(damaged) == pytest.approx(rate, rel=0.4)


@pytest.mark.parametrize("language", TEXTS)
def test_undamaged_text_in_any_encoding(language):
    for encoding in ("utf-8", "utf-16", "utf-32", "cp1252", "cp1251", "koi8-r", "shift-jis"):
        assert overwritten_rate(TEXTS[language].encode(encoding, "ignore")) == 0


@given(st.binary())
def test_the_rate_is_a_share(data):
    assert 0 <= overwritten_rate(data) <= 1
