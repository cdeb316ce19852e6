"""The time limit keeps the finished part of a result; tests use a clock that only evaluations advance."""

import itertools
import json
import re
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conservator import Restorer, restore
from conservator.channels import EditChannel
from conservator.cli.restore import summary
from conservator.document import Document
from conservator.documents import LOST, read_damaged
from conservator.errors import ConservatorError, OptionError, TooSlowError
from conservator.experts import Cost, Meter, OutOfTimeError, team
from conservator.experts.char_ngram import CharNgramMixture, CharNgramModel
from conservator.options import RestoreOptions
from conservator.pipelines.correction import Corrector, as_restoration
from conservator.pipelines.rescoring import Rescorer
from conservator.results import Record, plan_renewal, renew
from conservator.results.notices import time_limit_notice
from support.causal_experts import MemorizingCausalExpert
from support.commands import call
from support.european import SENTENCES
from support.fakes import FakeExpert

MARK = "\ufffd"
NON_ASCII = r"[^\x00-\x7f]"
UNLIMITED = 1e6  # seconds that never elapse
DOCUMENT = ("some text that is long enough for windows " + 3 * MARK + " and é" + MARK + "\n") * 6
pieces = st.sampled_from([MARK.encode(), 5 * MARK.encode(), b"\xe2\x82", b"\xa9", "é".encode(), b"some words ", b"x\n"])
documents = st.lists(pieces, min_size=1, max_size=10).map(lambda parts: b"a" + b"".join(parts) + MARK.encode() + b"z")


class Timed(FakeExpert):
    """An expert whose evaluations take a second, fail after the limit, and record the positions that they decode."""

    def __init__(self, seed=0, context=16):
        super().__init__(seed, context)
        self.now, self.seconds, self.stage, self.predicted = 0, UNLIMITED, "", set()

    def begin(self):
        assert self.now < self.seconds, "an evaluation starts after the time limit"
        self.now += 1

    def tell(self, stage, share):
        self.stage = stage

    def predict(self, context, at):
        self.begin()
        if self.stage == "decoding":
            self.predicted |= set((context.start[at[0]] + at[1]).tolist())
        return super().predict(context, at)


class TimedWorm(MemorizingCausalExpert):
    """A language model whose evaluations take a second."""

    def __init__(self, text, expert, name="bookworm"):
        super().__init__(text, name)
        self.expert = expert

    def read(self):
        reading = super().read()
        extend = reading.extend

        def timed(parents, tokens, wanted):
            self.expert.begin()
            return extend(parents, tokens, wanted)

        reading.extend = timed
        return reading


@contextmanager
def clocked(clock):
    """Replace the clock of restorations, and read one window at a time."""
    with (
        mock.patch("conservator.restorer.Meter", partial(Meter, clock=clock)),
        mock.patch.object(team, "TEAM_CONFIG", replace(team.TEAM_CONFIG, batch_positions=1)),
    ):
        yield


def run(document, seconds=UNLIMITED, language_models=(), **options):
    """Return a restoration by one expert, and the expert."""
    expert = Timed()
    worms = [TimedWorm(text, expert, f"worm{number}") for number, text in enumerate(language_models)]
    everything = RestoreOptions(memory=False, lost="bytes", min_gap_confidence=0.0, fill_undetermined=True)
    restorer = Restorer([expert], everything, language_models=worms)
    expert.seconds = seconds
    with clocked(lambda: expert.now):
        return restorer.restore(document, progress=expert.tell, max_seconds=seconds, **options), expert


def run_all(document, limits=None, **options):
    """Yield the restoration for each time limit, or for ``limits`` of them; None if nothing was restored in time."""
    most = run(document, **options)[1].now
    for seconds in range(1, most + 2) if limits is None else np.linspace(1, most + 1, limits).astype(int).tolist():
        try:
            yield run(document, seconds, **options)
        except TooSlowError:
            yield None, None


def is_text(data):
    try:
        return bool(data.decode()) or not data
    except UnicodeDecodeError:
        return False


def same_but_for_cost(first, second):
    return replace(first.record, cost=second.record.cost) == second.record and first.data == second.data


@settings(max_examples=25, deadline=None)
@given(documents, st.lists(st.integers(1, 60), min_size=1, max_size=3, unique=True).map(sorted))
@example(b"a\xc3" + 40 * MARK.encode() + b"\xa9", list(range(1, 14)))
def test_predicted_bytes_are_filled_and_others_are_unfilled(document, limits):
    try:
        whole = run(document)[0]
    except ConservatorError:  # invalid UTF-8 for any lost bytes
        return
    damaged = read_damaged(whole.observed)
    before = len(damaged.lost)
    for seconds in [*limits, UNLIMITED]:
        try:
            result, expert = run(document, seconds)
        except TooSlowError:
            assert before == len(damaged.lost)
            continue
        lost = damaged.tokens == LOST
        np.testing.assert_array_equal(result.tokens[~lost], damaged.tokens[~lost])
        assert is_text(result.data)
        assert set(np.flatnonzero(result.unfilled).tolist()).isdisjoint(expert.predicted)
        character = np.cumsum((result.tokens & 0xC0) != 0x80)
        for position in set(damaged.lost.tolist()) - expert.predicted:
            # A part of a character cannot be written: if another part is visible, the character is filled, too.
            assert result.unfilled[position] != (~lost[character == character[position]]).any()
        assert result.summary.unfilled == result.unfilled.sum() <= before
        assert ((result.confidence > 0) & (result.confidence <= 1)).all()
        before = result.summary.unfilled
        assert result.record.text == result.text
        if result.out_of_time is None:
            assert same_but_for_cost(result, whole)
        else:
            assert result.record.out_of_time == result.out_of_time == "decoding"
    assert result.out_of_time is None
    assert same_but_for_cost(result, whole)


def test_later_iterations_are_skipped_and_every_byte_is_filled():
    whole, _ = run(DOCUMENT)
    outcomes = []
    for result, expert in run_all(DOCUMENT):
        if result is None:
            assert not outcomes
            continue
        if result.out_of_time is not None and expert.predicted == set(np.flatnonzero(result.changed).tolist()):
            assert not result.unfilled.any()
            assert any("decoded in one step, with lower accuracy" in line for line in summary(result))
        if result.unfilled.any():
            message = f"time limit reached while decoding: {result.summary.unfilled} byte"
            assert next(line for line in summary(result) if "unfilled" in line).startswith(f"warning: {message}")
        outcomes.append((result.summary.unfilled, result.out_of_time))
    unfilled = [count for count, _ in outcomes]
    assert unfilled == sorted(unfilled, reverse=True)
    assert max(unfilled) > 10  # bytes that were not reached
    assert outcomes.count((0, "decoding")) > 2  # skipped iterations
    assert outcomes[-1] == (0, None)  # enough time
    assert same_but_for_cost(result, whole)


def test_a_gap_is_filled_as_a_whole_or_not_at_all():
    document = "words before it [...] and after it, and then " + 3 * MARK + " more [...] of it."
    for result, expert in run_all(document, 12, gap="[...]", max_gap=8):
        if result is not None:
            for edit, (start, stop) in zip(result.edits, result.ranges, strict=True):
                is_unfilled = not set(range(start, stop)) <= expert.predicted
                assert sorted(edit.placeholders) == (list(range(len(edit.data))) if is_unfilled else [])
            gaps = [edit for edit in result.edits if edit.span[1] - edit.span[0] == len("[...]")]
            assert result.text.count("[...]") == sum(bool(edit.placeholders) for edit in gaps)


def test_uncertain_bytes_that_were_not_reached_are_unchanged():
    document = "naïve words".encode() + b"\xff and " + MARK.encode() + f" more, é{MARK}".encode()
    most = run(document, channel="replacement:0.1")[1].now
    unfilled = []
    for seconds in range(most, 0, -1):
        try:
            result, expert = run(document, seconds, channel="replacement:0.1")
        except TooSlowError:
            break
        unfilled.append(result.summary.unfilled)
        assert is_text(result.data)
        positions = np.array(sorted(set(range(result.length)) - expert.predicted), dtype=np.int64)
        observed = read_damaged(document).tokens[positions]
        assert (result.unfilled[positions] == (observed == LOST)).all()
        unchanged = (observed != LOST) & (observed != 0xFF)
        np.testing.assert_array_equal(result.tokens[positions[unchanged]], observed[unchanged])
        assert (result.confidence[positions[unchanged]] < 1).all()
    assert set(unfilled) == {0, 1}


def test_alternatives_are_skipped_at_the_time_limit():
    plain = run(DOCUMENT)[0]
    stages = []
    for result, _ in run_all(DOCUMENT, alternatives=2):
        if result is not None and result.out_of_time != "decoding":
            assert result.data == plain.data
            np.testing.assert_array_equal(result.confidence, plain.confidence)
            assert all(bool(edit.alternatives) == (result.out_of_time is None) for edit in result.edits)
            stages.append(result.out_of_time)
    assert set(stages) == {"alternatives", None}


@pytest.mark.parametrize("worms", [1, 2])
def test_rescoring_is_skipped_at_the_time_limit(worms):
    text = "Zwölf Boxkämpfer jagen Viktor quer über den Deich. "
    document = text.replace("ä", MARK).replace("D", MARK)
    fast = run(document)[0]
    stages = []
    for result, _ in run_all(document, language_models=worms * [text.encode()], effort="best", alternatives=1):
        if result is None or result.out_of_time == "decoding":
            continue
        stages.append(result.out_of_time)
        if result.out_of_time == "rescoring":
            assert result.data == fast.data
            np.testing.assert_array_equal(result.confidence, fast.confidence)
            assert result.experts == fast.experts
            assert any("the text is the result of the networks and memory" in line for line in summary(result))
        else:
            assert result.data != fast.data
    assert list(dict.fromkeys(stages)) == ["rescoring", "alternatives", None]


@pytest.mark.parametrize("document", ["some words, and " + MARK, "a [...] b" + MARK])
def test_without_any_decoded_byte_there_is_an_error(document):
    with pytest.raises(
        TooSlowError, match=r"^nothing was restored within 1 s: the time limit was reached while .*; allow more time$"
    ):
        run(document, 1, gap="[...]", max_gap=4)


def test_without_damage_the_time_limit_has_no_effect():
    assert run("whole", 1e-9)[0].out_of_time is None


@pytest.mark.parametrize("seconds", [0, -1, "2", True, float("nan")])
def test_a_limit_is_a_positive_number(seconds):
    with pytest.raises(OptionError, match=r"max_seconds: .*positive number"):
        RestoreOptions(max_seconds=seconds)


def test_characters_that_were_not_reached_are_unfilled():
    text = " ".join(itertools.chain(*([texts] if isinstance(texts, str) else texts for texts in SENTENCES.values())))[
        :300
    ]
    document = "".join(letter if letter.isascii() else MARK for letter in text)
    config = team.TeamConfig(batch_bytes=2**16, default_context=64)
    with mock.patch("conservator.experts.team.TEAM_CONFIG", config):
        restorer, unfilled = Restorer([FakeExpert()], select=True), []
        with clocked(itertools.count().__next__):
            whole = restorer.restore(document, lost="characters")
            for seconds in itertools.count(1):
                try:
                    result = restorer.restore(document, lost="characters", max_seconds=seconds)
                except TooSlowError:
                    continue
                assert result.text.count(MARK) == result.summary.unfilled
                assert re.sub(NON_ASCII, "", result.text) == re.sub(NON_ASCII, "", document)
                unfilled.append(result.summary.unfilled)
                if result.out_of_time is None:
                    break
    assert unfilled == sorted(unfilled, reverse=True)
    assert len(set(unfilled)) > 3
    assert result.text == whole.text


COURT = "The prisoner was brought before the magistrate.\nHe was found in the burning house.\nIt was burnt at night.\n"
CHANNEL = EditChannel({("h", "b"): 0.05, ("rn", "m"): 0.05}, {}, 0.95)
PRIOR = CharNgramMixture.of([CharNgramModel.of("court", [COURT * 20])])


def corrections(corrector, text):
    """Yield the correction for each time limit, if each call of the clock takes a second; None if no line was done."""
    for seconds in itertools.count(1):
        meter = Meter(seconds=seconds, clock=itertools.count().__next__)
        try:
            with meter.stage("correcting"):
                result = corrector.correct(text, meter)
        except OutOfTimeError:
            yield None
            continue
        yield result
        if result.out_of_time is None:
            return


def test_finished_lines_keep_their_corrections():
    observed = COURT.replace("the", "tbe").replace("burn", "bum")
    whole = Corrector(CHANNEL, PRIOR).correct(observed)
    assert whole.text == COURT
    results = list(corrections(Corrector(CHANNEL, PRIOR), observed))
    assert results[0] is None
    reached = [result for result in results if result is not None]
    lines = COURT.splitlines(keepends=True)
    expected = ["".join([*lines[:done], *observed.splitlines(keepends=True)[done:]]) for done in (1, 2, 3)]
    assert list(dict.fromkeys(result.text for result in reached)) == expected
    assert [result.out_of_time for result in reached] == ["correcting"] * (len(reached) - 1) + [None]
    assert reached[-1] == whole
    shown = as_restoration(reached[0], Document(observed.encode()), Cost())
    assert shown.record.out_of_time == "correcting"
    assert [notice.kind for notice in shown.record.notices] == ["time_limit"]
    assert "warning: time limit reached while correcting: lines that were not reached are unchanged" in summary(shown)


def test_without_rescoring_the_result_is_that_of_the_character_models():
    observed = COURT.replace("the", "tbe")
    rescorer = Rescorer([MemorizingCausalExpert(COURT.encode())])
    whole = Corrector(CHANNEL, PRIOR, min_log_odds=0.0, rescorer=rescorer).correct(observed)
    plain = Corrector(CHANNEL, PRIOR, min_log_odds=0.0).correct(observed)
    corrector = Corrector(CHANNEL, PRIOR, min_log_odds=0.0, rescorer=rescorer)
    results = [result for result in corrections(corrector, observed) if result]
    assert results[-1] == whole
    interrupted = [result for result in results if result.out_of_time == "rescoring"]
    assert interrupted
    for result in interrupted:
        assert (result.changes, result.names, result.weights) == (plain.changes, plain.names, plain.weights)


def test_a_renewed_record_keeps_the_time_limit_of_unchanged_spans():
    far = "some words that are far away. " * 20
    document = f"a {MARK} b {far} c {MARK} d"
    whole = restore(document, [FakeExpert()]).record
    interrupted = interrupt(whole, "decoding")
    at = document.encode().index(MARK.encode())
    plan = plan_renewal(interrupted, [(at, at + 3, "x")])
    renewed = renew(interrupted, whole_with(document, plan.fixed), plan)
    assert (renewed.out_of_time, renewed.notices) == ("decoding", interrupted.notices)  # the other span is unchanged
    update = interrupt(whole_with(document, plan.fixed), "alternatives")
    renewed = renew(whole, update, plan)
    assert (renewed.out_of_time, renewed.notices) == ("alternatives", (*whole.notices, update.notices[-1]))
    alone = f"a {MARK} b"
    interrupted = interrupt(restore(alone, [FakeExpert()]).record, "decoding")
    plan = plan_renewal(interrupted, [(2, 5, "x")])
    renewed = renew(interrupted, whole_with(alone, plan.fixed), plan)
    assert renewed.out_of_time is None
    assert renewed.notices == interrupted.notices[:-1]


def interrupt(record: Record, stage):
    """Return the record of a restoration that the time limit interrupted."""
    return replace(record, out_of_time=stage, notices=(*record.notices, *time_limit_notice(stage, 1, record.unit)))


def whole_with(document, fixed):
    return restore(document, [FakeExpert()], fixed=fixed).record


def test_unfilled_spans_of_an_interrupted_record_can_be_fixed():
    result = next(result for result, _ in run_all(DOCUMENT) if result is not None and result.unfilled.any())
    record = result.record
    unfilled = next(piece for piece in record.pieces if piece.unfilled)
    plan = plan_renewal(record, [(*unfilled.origin, "x")])
    renewed = renew(record, run(DOCUMENT, fixed=plan.fixed)[0].record, plan)
    assert renewed.summary.unfilled < record.summary.unfilled
    assert renewed.summary.fixed == 1


def test_the_command(tmp_path):
    (tmp_path / "damaged.txt").write_text(f"The low h{MARK}ll.", encoding="utf-8")
    done = call("restore", "damaged.txt", "--experts", "prose", "--max-seconds", "1e-9", cwd=tmp_path)
    assert done.returncode == 3
    assert "nothing was restored within 1e-09 s" in done.stderr
    assert "the time limit was reached while inferring expert weights; allow more time" in done.stderr
    assert done.stdout == ""
    done = call("restore", "damaged.txt", "--experts", "prose", "--max-seconds", "0", cwd=tmp_path)
    assert done.returncode == 2
    assert "--max-seconds" in done.stderr
    words = ("restore", "damaged.txt", "--experts", "prose", "--json")
    call(*words, "one.json", "-o", "one.txt", cwd=tmp_path)
    done = call(*words, "two.json", "-o", "two.txt", "--max-seconds", UNLIMITED, cwd=tmp_path)
    assert done.returncode == 0
    assert "time ran out" not in done.stdout
    first, second = (json.loads((tmp_path / name).read_text()) | {"cost": None} for name in ("one.json", "two.json"))
    assert first == second
    assert first["out_of_time"] is None


def test_the_command_reports_that_nothing_was_changed_in_time(tmp_path):
    text = "The prisoner was brought before the magistrate in the morning.\n" * 3
    (tmp_path / "page.txt").write_text(text)
    with clocked(itertools.count().__next__):
        codes = {}
        for seconds in range(11, 400, 2):
            done = call("restore", "page.txt", "--channel", "ocr", "--max-seconds", seconds, cwd=tmp_path)
            codes.setdefault(done.returncode, done)
            if "nothing to correct" in done.stderr:
                break
    assert set(codes) == {0, 3}
    message = "page.txt: time limit reached while correcting: lines that were not reached are unchanged"
    assert message in codes[0].stderr
    assert codes[0].stdout == text


def test_a_batch_has_no_time_limit(tmp_path):
    assert "--max-seconds" not in call("batch", "--help", cwd=tmp_path).stdout
    assert "--max-seconds" in call("restore", "--help", cwd=tmp_path).stdout
