"""The study of black dots, on made-up plays."""

import gzip
import json

import numpy as np
import pytest
import torch

from conservator import ConservatorError
from conservator.experts import ByteExpert, ByteNetwork, NetworkConfig
from conservator.reference import MarkovExpert
from conservator.training import TrainingConfig
from conservator_studies import blackdots
from conservator_studies.blackdots import Config, fit_scales, loss_rates
from conservator_studies.lacunae import Answers, Filled, Page, by_letter, draw_pages, lone_difference, summarise
from conservator_studies.plays import DOT, Play, read_plays
from conservator_studies.resources import Resources
from conservator_studies.study import untracked
from support.fakes import TextExpert

VERSE = "The king is dead, and long doth liue the queene.\nNow is the king of all the land.\n"
SMALL = NetworkConfig(context=64, channels=8, convolutions=1, hidden_channels=16, memory=0, width=16, layers=1, heads=2)


def lose(text, places):
    return "".join(DOT if place in places else one for place, one in enumerate(text))


def play(number):
    clean = f"Act {number}.\n{VERSE * 2}"
    start = clean.index("king")
    return {"id": f"play {number}", "clean": clean, "damaged": lose(clean, {start + 1, start + 40, start + 41})}


@pytest.fixture
def corpora(tmp_path):
    with gzip.open(tmp_path / "earlyprint.dev.jsonl.gz", "wt") as lines:
        lines.writelines(json.dumps(play(number)) + "\n" for number in range(40))
    with gzip.open(tmp_path / "prose.train.jsonl.gz", "wt") as lines:
        lines.write(json.dumps({"text": "the king and the queen live"}) + "\n")
    return tmp_path


def chain(name, precision):
    counts = torch.full((256, 256), 0.01)
    for pair in zip(VERSE.encode(), VERSE.encode()[1:], strict=False):
        counts[pair] += 1
    return MarkovExpert([bytes([byte]) for byte in range(256)], torch.zeros(256), counts.log(), name)


def test_every_method_is_measured(corpora, monkeypatch):
    monkeypatch.setattr(blackdots, "load_language_model", chain)
    torch.manual_seed(0)
    experts = {name: TextExpert(VERSE, name=name) for name in blackdots.EXPERTS}
    experts["prose"] = ByteExpert(ByteNetwork(SMALL), "prose", "")
    training = TrainingConfig(network=SMALL, batch=2, window=16, long=0)
    config = Config(lacunae=6, some=3, written=5, few=4, tuned=6, training=training, steps_per_lacuna=0.5)
    found = blackdots.run(config, 0, untracked, Resources(corpora, experts, corpora / "out"))
    rows = {row["method"]: row for row in found.rows}
    assert set(rows) == set(blackdots.LABELS)
    assert rows["composed"]["lacunae"] == 6
    assert rows["everything"]["lacunae"] == 5
    assert rows["like"]["lacunae"] == 5
    assert rows["language"]["lacunae"] == 4
    assert rows["evidence"]["lacunae"] == 3
    assert rows["composed"]["lone"] == 1
    assert rows["period"]["lone"] == 1
    assert rows["letter"]["difference"] >= 0
    assert len(blackdots.STUDY.grids(found.rows)) == len(blackdots.TABLES)
    assert "Of lone dots 1.000" in blackdots.conclude(found.rows)
    assert list(found.figures) == ["blackdots"]
    again = blackdots.run(config, 0, untracked, Resources(corpora, experts, corpora / "out"))  # all is there
    assert again.rows == found.rows


def test_parts_are_told_by_name_alone(corpora):
    plays = read_plays(corpora)
    assert sum(map(len, plays.values())) == 40
    names = {part: {one.name for one in found} for part, found in plays.items()}
    assert not names["train"] & names["test"] | names["tune"] & names["test"] | names["train"] & names["tune"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "there is no earlyprint.dev.jsonl.gz"), ('{"id": "a"}', "damaged"), ("", "too few plays")],
)
def test_a_file_that_has_no_plays_is_an_error(tmp_path, content, message):
    if content is not None:
        (tmp_path / "earlyprint.dev.jsonl").write_text(content)
    with pytest.raises(ConservatorError, match=message):
        read_plays(tmp_path)


def test_lines_must_have_one_length(tmp_path):
    (tmp_path / "earlyprint.dev.jsonl").write_text(json.dumps({"id": "a", "clean": "ab", "damaged": "a"}))
    with pytest.raises(ConservatorError, match="differ in length"):
        read_plays(tmp_path)


def test_words_that_editors_left_open_are_not_asked_for():
    one = Play("a", f"c{DOT}t d{DOT}g", f"cat d{DOT}g")
    assert one.words == [(0, 3)]


def test_a_page_counts_bytes():
    one = Play("a", f"\u00e9 c{DOT}t{DOT}", "\u00e9 cats")
    assert Page.of(one, one.words).dots == [[4, 6]]


def test_dots_far_from_the_words_asked_for_are_no_marks():
    damaged = f"c{DOT}t " + "a " * 400 + f"d{DOT}g"
    one = Play("a", damaged, damaged.replace(DOT, "o"))
    page = Page.of(one, one.words[:1])
    assert page.text.count(DOT) == 1
    assert len(page.text) == len(damaged)


def test_fewer_words_are_among_more():
    plays = [Play(f"{number}", f"c{DOT}t " * (number + 1), "cat " * (number + 1)) for number in range(5)]
    few, many = (
        {(page.play.name, word) for page in draw_pages(plays, count, np.random.default_rng(0)) for word in page.words}
        for count in (6, 12)
    )
    assert len(few) == 6
    assert few < many
    assert len({name for name, _ in few}) == 5


def test_figures_by_hand():
    filled = [
        Filled("a", 0, f"c{DOT}t", "cat", "cat", (1.0,)),
        Filled("a", 9, f"c{DOT}t", "cat", "cut", (0.5,)),
        Filled("b", 0, f"c{DOT}{DOT}", "cat", "cut", (1.0, 0.0)),
    ]
    row = summarise(Answers(filled, 6.0))
    assert (row["lone"], row["two"], row["all"], row["words"]) == (0.5, 0.5, 0.5, pytest.approx(1 / 3))
    assert row["calibration_error_lone"] == pytest.approx(0.25)
    assert row["calibration_error"] == pytest.approx((0.5 + 1 + 1) / 4)
    assert row["seconds"] == 2
    assert row["alike"] == 0.5
    assert "more" not in row
    better = [Filled("a", 9, f"c{DOT}t", "cat", "cat", (0.5,))]
    assert lone_difference(Answers(better), Answers(filled))["difference"] == 1


def test_a_letter_everywhere():
    one = Play("a", f"c{DOT}t{DOT}", "cats")
    assert by_letter("e", 0.2)(Page.of(one, one.words)) == [("ee", [0.2, 0.2])]


def test_letters_have_rates():
    rates = loss_rates([Play("a", f"{DOT}b" * 50 + "b" * 400, "ab" * 50 + "b" * 400)])
    assert rates[ord("a")] > 5 * rates[ord("b")]
    assert (rates > 0).all()


def test_the_better_expert_gets_the_larger_scale():
    generator = np.random.default_rng(0)
    truth = generator.integers(4, size=200)
    good, bad = np.full((200, 4), np.log(0.1)), generator.normal(size=(200, 4))
    good[np.arange(200), truth] = np.log(0.7)
    good[:20] = bad[:20]
    laws = np.stack([one - np.logaddexp.reduce(one, axis=1, keepdims=True) for one in (bad, good)])
    scales = fit_scales(laws, truth, torch.full((4,), 0.1))
    assert scales[1] > 0.5 > scales[0]
