"""The channel mojibake: from damaged documents to restored ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator import Restorer
from conservator.channels import CORRUPT
from conservator.documents import damage, splice
from conservator.documents.encoding import INVALID_UTF8
from conservator.errors import ConservatorError
from conservator.pipelines.visible_text.mojibake import settle, undo_lines
from conservator.pipelines.visible_text.mojibake_layers import Placeholders

MARK = "\ufffd"
TEXTS = {
    "de": "Die Häuser in der Straße sind schön, „sagte er“ – und über 100 € teuer.\n",  # noqa: RUF001
    "fr": "L’été dernier, la forêt était déserte ; « où êtes-vous ? » cria Zoë.\n",  # noqa: RUF001
    "cs": "Žluťoučký kůň úpěl ďábelské ódy, a pak šel domů.\n",
    "ru": "Это было давно, и никто не знает, что случилось с ним потом.\n",  # noqa: RUF001
    "ja": "日本語の文章はここにあります。\n",
}


@pytest.fixture(scope="module")
def restorer():
    return Restorer()


def corrupt(text, rate=1.0):
    return CORRUPT["mojibake"](text, rate, np.random.default_rng(0))


@pytest.mark.parametrize("language", ["de", "fr"])
def test_a_whole_text_is_restored(language, restorer):
    text = TEXTS[language]
    result = restorer.restore(corrupt(text), channel="mojibake")
    assert result.text == text
    assert all(edit.probability > 0.5 for edit in result.edits)


@pytest.mark.parametrize("language", TEXTS)
def test_intact_text_stays(language, restorer):
    assert restorer.restore(TEXTS[language], channel="mojibake").edits == ()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(sorted(set(TEXTS) - {"ja", "ru", "cs"})), max_size=6), st.floats(0, 1))
def test_lines_that_are_not_damaged_stay(languages, rate):
    text = "".join(TEXTS[language] for language in languages)
    damaged = corrupt(text, rate)
    result = Restorer().restore(damaged, channel="mojibake")
    assert result.data == splice(damaged.encode(), ((*edit.span, edit.written()) for edit in result.edits))
    for clean, observed, restored in zip(*(part.split("\n") for part in (text, damaged, result.text)), strict=True):
        assert observed != clean or restored == clean


def test_edits_are_small(restorer):
    result = restorer.restore("Er heiÃŸt MÃ¼ller.", channel="mojibake")
    assert [edit.text for edit in result.edits] == ["ß", "ü"]


def test_other_marks_stay_in_the_channel(restorer):
    text = f"â€œThe h{MARK}use is there,â€{MARK} he said."
    result = restorer.restore(text, channel="mojibake", min_confidence=0.999)
    assert "“The h" in result.text
    result = restorer.restore(text, channel="mojibake")
    assert result.text == "“The house is there,” he said."


def test_stray_bytes(restorer):
    data = "Die Häuser und die Bücher in der Straße, ".encode() + b"f\xfcr 100 \x80.\n"
    result = restorer.restore(data, channel="mojibake")
    assert result.text == "Die Häuser und die Bücher in der Straße, für 100 €.\n"
    assert result.encoding == "utf-8"


@pytest.mark.parametrize("stray", [b"\x81", b"\xe2\x80"])
def test_bytes_that_are_no_characters_are_an_error(stray, restorer):
    data = "Die Häuser und die schönen Bücher, ".encode() + stray + b" und mehr\n"
    with pytest.raises(ConservatorError, match="invalid byte 0x"):
        restorer.restore(data, channel="mojibake")
    assert restorer.restore(data, channel="mojibake", lost="invalid").data.decode()


@pytest.mark.parametrize("channel", ["mask", "replacement:0.01"])
def test_the_message_offers_the_channel(channel, restorer):
    data = "Die Häuser und die Bücher, ".encode() + b"f\xfcr\n"
    if channel == "mask":
        with pytest.raises(ConservatorError, match="channel='mojibake' reads the 1 invalid byte as windows-1252"):
            restorer.restore(data, channel=channel)
        with pytest.raises(ConservatorError, match=r"^((?!mojibake).)*$"):
            restorer.restore(data.replace(b"\xfc", b"\x81"), channel=channel)


def test_characters_of_the_plane_of_placeholders_stay(restorer):
    text = "\U00100000 â€œlossyâ€\ufffd, and \U00100000\U0010fffd â€œdecodingâ€\ufffd."
    result = restorer.restore(text, channel="mojibake")
    assert result.text == "\U00100000 “lossy”, and \U00100000\U0010fffd “decoding”."


def test_fixed_text_stays(restorer):
    text = "Er heiÃŸt MÃ¼ller."
    start = text.encode().index("Ã¼".encode())
    result = restorer.restore(text, channel="mojibake", fixed=[(start, start + 4, "u")])
    assert result.text == "Er heißt Muller."


def test_uncertain_characters_become_marks():
    candidates = {"abä": np.log(0.4), "abö": np.log(0.35), "acö": np.log(0.25)}
    settled = settle(candidates, has_mark=True)
    best = max(settled, key=settled.get)
    assert best == f"ab{MARK}"
    assert np.isclose(settled[best], np.log(0.75))
    assert settle(candidates, has_mark=False) == {}
    assert settle({"ab": 0.0}, has_mark=False) == {"ab": 0.0}


def test_the_channel_damages_lines():
    text = "".join(TEXTS.values())
    assert corrupt(text, 0.0) == text
    assert corrupt(text) == text.encode().decode("windows-1252", "replace")
    lines = list(zip(text.split("\n"), corrupt(text, 0.5).split("\n"), strict=True))
    assert 0 < sum(clean != damaged for clean, damaged in lines) < len(TEXTS)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(["de", "fr", "cs", "ru"]), st.integers(0, 1000))
def test_marks_beside_letters_are_no_mojibake(language, seed):
    damaged = damage(TEXTS[language].encode(), 0.25, seed=seed).decode(errors="surrogateescape")
    text = INVALID_UTF8.sub(MARK, damaged)
    assert undo_lines(text, Placeholders()).text == text
