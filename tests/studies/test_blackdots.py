"""The study of illegible letters, on synthetic plays."""

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
from conservator_studies.play_words import (
    FilledWord,
    FilledWords,
    MarkedPlay,
    by_letter,
    draw_words,
    lone_difference,
    summarise_words,
)
from conservator_studies.plays import DOT, Play, read_plays
from conservator_studies.resources import Resources
from conservator_studies.study import untracked
from support.fakes import TextExpert

VERSE = "The king is dead, and long doth liue the queene.\nNow is the king of all the land.\n"
SMALL = NetworkConfig(context=64, channels=8, convolutions=1, hidden_channels=16, memory=0, width=16, layers=1, heads=2)


def erase(text, positions):
    return "".join(DOT if position in positions else char for position, char in enumerate(text))


def make_play(number):
    clean = f"Act {number}.\n{VERSE * 2}"
    start = clean.index("king")
    return {"id": f"play {number}", "clean": clean, "damaged": erase(clean, {start + 1, start + 40, start + 41})}


@pytest.fixture
def corpora(tmp_path):
    with gzip.open(tmp_path / "earlyprint.dev.jsonl.gz", "wt") as lines:
        lines.writelines(json.dumps(make_play(number)) + "\n" for number in range(40))
    with gzip.open(tmp_path / "prose.train.jsonl.gz", "wt") as lines:
        lines.write(json.dumps({"text": "the king and the queen live"}) + "\n")
    return tmp_path


def load_markov_chain(name, precision):
    counts = torch.full((256, 256), 0.01)
    for pair in zip(VERSE.encode(), VERSE.encode()[1:], strict=False):
        counts[pair] += 1
    return MarkovExpert([bytes([byte]) for byte in range(256)], torch.zeros(256), counts.log(), name)


def test_every_method_is_measured(corpora, monkeypatch):
    monkeypatch.setattr(blackdots, "load_language_model", load_markov_chain)
    torch.manual_seed(0)
    experts = {name: TextExpert(VERSE, name=name) for name in blackdots.EXPERTS}
    experts["prose"] = ByteExpert(ByteNetwork(SMALL), "prose", "")
    training = TrainingConfig(network=SMALL, batch=2, window=16, long=0)
    config = Config(lacunae=6, some=3, written=5, few=4, tuned=6, training=training, steps_per_lacuna=0.5)
    findings = blackdots.run(config, 0, untracked, Resources(corpora, experts, corpora / "out"))
    rows = {row["method"]: row for row in findings.rows}
    assert set(rows) == set(blackdots.LABELS)
    assert rows["composed"]["lacunae"] == 6
    assert rows["everything"]["lacunae"] == 5
    assert rows["like"]["lacunae"] == 5
    assert rows["language"]["lacunae"] == 4
    assert rows["evidence"]["lacunae"] == 3
    assert rows["composed"]["lone"] == 1
    assert rows["period"]["lone"] == 1
    assert rows["letter"]["difference"] >= 0
    assert len(blackdots.STUDY.grids(findings.rows)) == len(blackdots.TABLES)
    assert "The accuracy on lone dots is 1.000" in blackdots.conclude(findings.rows)
    assert list(findings.figures) == ["blackdots"]
    again = blackdots.run(config, 0, untracked, Resources(corpora, experts, corpora / "out"))  # all results are cached
    assert again.rows == findings.rows


def test_parts_depend_only_on_the_name(corpora):
    plays = read_plays(corpora)
    assert sum(map(len, plays.values())) == 40
    names = {part: {play.name for play in part_plays} for part, part_plays in plays.items()}
    assert not names["train"] & names["test"] | names["tune"] & names["test"] | names["train"] & names["tune"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "there is no earlyprint.dev.jsonl.gz"), ('{"id": "a"}', "damaged"), ("", "too few plays")],
)
def test_a_file_without_plays_is_an_error(tmp_path, content, message):
    if content is not None:
        (tmp_path / "earlyprint.dev.jsonl").write_text(content)
    with pytest.raises(ConservatorError, match=message):
        read_plays(tmp_path)


def test_damaged_and_clean_text_must_have_the_same_length(tmp_path):
    (tmp_path / "earlyprint.dev.jsonl").write_text(json.dumps({"id": "a", "clean": "ab", "damaged": "a"}))
    with pytest.raises(ConservatorError, match="differ in length"):
        read_plays(tmp_path)


def test_words_that_editors_left_unfilled_are_excluded():
    play = Play("a", f"c{DOT}t d{DOT}g", f"cat d{DOT}g")
    assert play.words == [(0, 3)]


def test_positions_of_dots_are_in_bytes():
    play = Play("a", f"\u00e9 c{DOT}t{DOT}", "\u00e9 cats")
    assert MarkedPlay.of(play, play.words).dots == [[4, 6]]


def test_dots_far_from_the_selected_words_are_not_marks():
    damaged = f"c{DOT}t " + "a " * 400 + f"d{DOT}g"
    play = Play("a", damaged, damaged.replace(DOT, "o"))
    marked = MarkedPlay.of(play, play.words[:1])
    assert marked.text.count(DOT) == 1
    assert len(marked.text) == len(damaged)


def test_a_smaller_selection_is_a_subset_of_a_larger_selection():
    plays = [Play(f"{number}", f"c{DOT}t " * (number + 1), "cat " * (number + 1)) for number in range(5)]
    few, many = (
        {
            (marked.play.name, word)
            for marked in draw_words(plays, count, np.random.default_rng(0))
            for word in marked.words
        }
        for count in (6, 12)
    )
    assert len(few) == 6
    assert few < many
    assert len({name for name, _ in few}) == 5


def test_metrics_have_the_expected_values():
    filled = [
        FilledWord("a", 0, f"c{DOT}t", "cat", "cat", (1.0,)),
        FilledWord("a", 9, f"c{DOT}t", "cat", "cut", (0.5,)),
        FilledWord("b", 0, f"c{DOT}{DOT}", "cat", "cut", (1.0, 0.0)),
    ]
    row = summarise_words(FilledWords(filled, 6.0))
    assert (row["lone"], row["two"], row["all"], row["words"]) == (0.5, 0.5, 0.5, pytest.approx(1 / 3))
    assert row["calibration_error_lone"] == pytest.approx(0.25)
    assert row["calibration_error"] == pytest.approx((0.5 + 1 + 1) / 4)
    assert row["seconds"] == 2
    assert row["alike"] == 0.5
    assert "more" not in row
    better = [FilledWord("a", 9, f"c{DOT}t", "cat", "cat", (0.5,))]
    assert lone_difference(FilledWords(better), FilledWords(filled))["difference"] == 1


def test_by_letter_uses_the_same_letter_everywhere():
    play = Play("a", f"c{DOT}t{DOT}", "cats")
    assert by_letter("e", 0.2)(MarkedPlay.of(play, play.words)) == [("ee", [0.2, 0.2])]


def test_loss_rates_depend_on_the_letter():
    rates = loss_rates([Play("a", f"{DOT}b" * 50 + "b" * 400, "ab" * 50 + "b" * 400)])
    assert rates[ord("a")] > 5 * rates[ord("b")]
    assert (rates > 0).all()


def test_the_better_expert_gets_the_larger_scale():
    generator = np.random.default_rng(0)
    truth = generator.integers(4, size=200)
    good, bad = np.full((200, 4), np.log(0.1)), generator.normal(size=(200, 4))
    good[np.arange(200), truth] = np.log(0.7)
    good[:20] = bad[:20]
    log_probs = np.stack([logits - np.logaddexp.reduce(logits, axis=1, keepdims=True) for logits in (bad, good)])
    scales = fit_scales(log_probs, truth, torch.full((4,), 0.1))
    assert scales[1] > 0.5 > scales[0]
