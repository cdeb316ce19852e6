"""Words of the user: they are preferred where they match, and change nothing elsewhere."""

import re

import numpy as np
import pytest

from conservator import RestoreOptions, Restorer
from conservator.batch import WorkerConfig, hash_configuration
from conservator.channels import EditChannel
from conservator.errors import OptionError
from conservator.experts import make_references
from conservator.experts.char_ngram import CharNgramMixture, CharNgramModel
from conservator.options import MAX_WORD_CHARS, MAX_WORDS_BYTES, read_words
from conservator.pipelines.correction import corrector
from conservator.pipelines.references import ReferenceTexts

MARK = "\ufffd"
WORDS = ("Wojciechowski", "Mu\u0161kau", "K\u0151r\u00f6si", "van der Q\u0142ompf")
MARKED = f"The meeting was opened by Mr. Wo{MARK}cie{MARK}howski, who spoke first."
CHARACTERS = f"Herr Mu{MARK}kau und Frau K{MARK}r{MARK}si wohnten in Wien und gingen nach Hause."
CLEAN = (
    "The committee thanked Mr. Wojciechowski for the work of the year, and the secretary read the report of the "
    "treasurer to the members who had come to the house in the evening.\n"
)


@pytest.fixture(scope="module")
def restorer():
    return Restorer()


@pytest.fixture(scope="module")
def with_words():
    return Restorer(options=RestoreOptions(words=WORDS))


def test_marks_in_a_name(restorer, with_words):
    assert "Wojciechowski" not in restorer.restore(MARKED, lost="bytes").text
    result = with_words.restore(MARKED, lost="bytes")
    assert "Wojciechowski" in result.text
    assert {source.name for edit in result.edits for source in edit.sources.values()} == {"words"}


def test_a_gap_in_a_name(restorer, with_words):
    options = {"gap": "[...]", "lost": "bytes"}
    text = "The meeting was opened by Mr. Wojci[...]wski and closed by the secretary."
    assert "Wojciechowski" not in restorer.restore(text, **options).text
    assert "Wojciechowski" in with_words.restore(text, **options).text


def test_lost_characters_in_names(restorer, with_words):
    assert "Mu\u0161kau" not in restorer.restore(CHARACTERS, lost="characters").text
    text = with_words.restore(CHARACTERS, lost="characters").text
    assert text == CHARACTERS.replace(f"Mu{MARK}kau", WORDS[1]).replace(f"K{MARK}r{MARK}si", WORDS[2])


@pytest.mark.parametrize("observed", ["Wojciecbowski", "Wojcieehowskl"])
def test_ocr_errors_in_a_name(restorer, with_words, observed):
    text = CLEAN.replace("Wojciechowski", observed)
    assert "Wojciechowski" not in restorer.restore(text, channel="ocr").text
    result = with_words.restore(text, channel="ocr")
    assert result.text == CLEAN
    assert result.experts[-1] == "words"


def test_correct_text_is_unchanged(with_words):
    assert with_words.restore(CLEAN, channel="ocr").text == CLEAN
    other = CLEAN.replace("Wojciechowski", "Wojcicki")
    assert with_words.restore(other, channel="ocr").text == other
    assert with_words.restore(CLEAN).text == CLEAN


def test_words_do_not_count_as_references_of_the_same_kind():
    prior = CharNgramMixture.of([CharNgramModel.of("prose", [CLEAN]), CharNgramModel.of("words", [CLEAN])])
    made = corrector.Corrector(EditChannel({("h", "b"): 0.02}, {}, 0.97), prior)
    mixture = made.fit_mixture(CLEAN)
    assert mixture.names == ("prose",)
    assert not made.has_related_references(CLEAN, mixture)
    weight = corrector.CORRECTOR.word_weight
    added = mixture.add(made.words, weight)
    assert added.names == ("prose", "words")
    assert added.weights.tolist() == pytest.approx([1 - weight, weight])


def test_words_are_added_to_an_index_of_references():
    text = "Some other text."
    index = make_references([("other", np.frombuffer(text.encode(), np.uint8).astype(np.int16))])
    texts = ReferenceTexts.of(index, MARK, WORDS)
    assert texts.index is index
    assert texts.word_index.names == ("words",)
    assert texts.lexicon_texts == (*WORDS, text)
    assert ReferenceTexts.of(texts, MARK, WORDS) is texts
    assert ReferenceTexts.of(texts, MARK).word_index is None


def test_curly_quotation_marks_in_words_do_not_change_those_of_the_text():
    tokens = ReferenceTexts(words=("O\u2019Brien",)).tokens
    assert tokens == {"O'Brien"}


def test_words_need_the_memory_for_lost_bytes(restorer):
    with pytest.raises(OptionError, match="words have no effect on lost bytes without the memory"):
        restorer.restore(MARKED, words=WORDS, memory=False)


def test_a_file_of_words(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("\ufeff# people\nWojciechowski\n\n  van der Berg \r\nK\u0151r\u00f6si", encoding="utf-8")
    assert read_words(str(path)) == ("Wojciechowski", "van der Berg", "K\u0151r\u00f6si")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (None, "No such file"),
        (b"caf\xe9\n", "must be a text file in UTF-8, but byte 3 is invalid"),
        (b"PK\0\1\n", "must be a word or phrase"),
        (b"a" * (MAX_WORD_CHARS + 1), "must be a word or phrase of at most 200 characters"),
        (b"a\n" * MAX_WORDS_BYTES, f"at most {MAX_WORDS_BYTES} are read"),
    ],
)
def test_an_invalid_file_of_words(tmp_path, data, problem):
    path = tmp_path / "names.txt"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(OptionError, match=re.escape(problem)) as error:
        read_words(str(path))
    assert error.value.option == "words"
    assert str(path) in error.value.problem


def test_invalid_words():
    for value in (["a\nb"], ["\0"], ["\ud800"]):
        with pytest.raises(OptionError, match="without control characters"):
            RestoreOptions(words=value)


def test_the_configuration_of_a_batch_depends_on_the_words_and_not_on_their_file(tmp_path):
    hashes = []
    for name, content in (("a.txt", "Smith\n"), ("b.txt", "# people\nSmith"), ("c.txt", "Jones\n")):
        (tmp_path / name).write_text(content)
        options = RestoreOptions(words=read_words(str(tmp_path / name)))
        hashes.append(hash_configuration(WorkerConfig(options, ())))
    assert hashes[0] == hashes[1] != hashes[2]
