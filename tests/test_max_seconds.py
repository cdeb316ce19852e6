"""A limit of time: what was reached by then is kept, by a clock that only evaluations move."""

import itertools
import json
from contextlib import contextmanager
from functools import partial
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conservator import Restorer, restore
from conservator.channels import EditChannel
from conservator.cli.restore import summary
from conservator.documents import LOST
from conservator.errors import ConservatorError, OptionError, TooSlowError
from conservator.experts import Cost, Meter, OutOfTimeError
from conservator.experts.char_ngram import CharNgramMixture, CharNgramModel
from conservator.options import RestoreOptions
from conservator.pipelines.correction import Corrector, as_restoration
from conservator.pipelines.rescoring import Rescorer
from conservator.results import as_record, plan_renewal, renew
from support.causal_experts import Bookworm
from support.commands import call
from support.european import SENTENCES
from support.fakes import FakeExpert

MARK = "\ufffd"
FAR = 1e6  # seconds that are never over
DOCUMENT = ("some text that is long enough for windows " + 3 * MARK + " and é" + MARK + "\n") * 6
pieces = st.sampled_from([MARK.encode(), 5 * MARK.encode(), b"\xe2\x82", b"\xa9", "é".encode(), b"some words ", b"x\n"])
documents = st.lists(pieces, min_size=1, max_size=10).map(lambda parts: b"a" + b"".join(parts) + MARK.encode() + b"z")


class Timed(FakeExpert):
    """Every evaluation takes a second, and none may begin when time is over; it notes where it is asked to fill in."""

    def __init__(self, seed=0, context=16):
        super().__init__(seed, context)
        self.now, self.seconds, self.stage, self.asked = 0, FAR, "", set()

    def begin(self):
        assert self.now < self.seconds, "an evaluation begins although time is over"
        self.now += 1

    def tell(self, stage, share):
        self.stage = stage

    def predict(self, context, at):
        self.begin()
        if self.stage == "decoding":
            self.asked |= set((context.start[at[0]] + at[1]).tolist())
        return super().predict(context, at)


class TimedWorm(Bookworm):
    """A language model whose readings take a second."""

    def __init__(self, text, expert, name="bookworm"):
        super().__init__(text, name)
        self.expert = expert

    def read(self):
        reading = super().read()
        grow = reading.grow

        def timed(parents, tokens, asked):
            self.expert.begin()
            return grow(parents, tokens, asked)

        reading.grow = timed
        return reading


@contextmanager
def clocked(clock):
    """Restorations see another clock, and read one window at a time."""
    with (
        mock.patch("conservator.restorer.Meter", partial(Meter, clock=clock)),
        mock.patch("conservator.experts.team.POSITIONS", 1),
    ):
        yield


def run(document, seconds=FAR, language_models=(), **options):
    """A restoration by one expert, which is returned too."""
    expert = Timed()
    worms = [TimedWorm(text, expert, f"worm{number}") for number, text in enumerate(language_models)]
    everything = RestoreOptions(memory=False, lost="bytes", min_gap_confidence=0.0, fill_undetermined=True)
    restorer = Restorer([expert], everything, language_models=worms)
    expert.seconds = seconds
    with clocked(lambda: expert.now):
        return restorer.restore(document, progress=expert.tell, max_seconds=seconds, **options), expert


def run_all(document, limits=None, **options):
    """The restoration for all seconds, or so many ``limits``, the last enough; None where nothing was reached."""
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


def same_but_for_cost(one, other):
    first, second = as_record(one), as_record(other)
    return {**first, "cost": None} == {**second, "cost": None} and one.data == other.data


@settings(max_examples=25, deadline=None)
@given(documents, st.lists(st.integers(1, 60), min_size=1, max_size=3, unique=True).map(sorted))
@example(b"a\xc3" + 40 * MARK.encode() + b"\xa9", list(range(1, 14)))
def test_what_is_predicted_is_filled_in_and_what_is_not_stays_open(document, limits):
    try:
        whole = run(document)[0]
    except ConservatorError:  # no UTF-8, whatever is lost
        return
    before = len(whole.damaged.lost)
    for seconds in [*limits, FAR]:
        try:
            found, expert = run(document, seconds)
        except TooSlowError:
            assert before == len(whole.damaged.lost)
            continue
        lost = found.damaged.tokens == LOST
        np.testing.assert_array_equal(found.tokens[~lost], whole.damaged.tokens[~lost])
        assert is_text(found.data)
        assert set(found.unfilled_positions.tolist()).isdisjoint(expert.asked)
        character = np.cumsum((found.tokens & 0xC0) != 0x80)
        for place in set(found.damaged.lost.tolist()) - expert.asked:
            # Half a character cannot be written: where its other half is visible, it is filled in, too.
            assert found.left_open[place] != (~lost[character == character[place]]).any()
        assert found.summary.left_open == len(found.unfilled_positions) <= before
        assert ((found.confidence > 0) & (found.confidence <= 1)).all()
        before = found.summary.left_open
        record = as_record(found)
        assert "".join(piece["text"] for piece in record["pieces"]) == found.text
        if found.out_of_time is None:
            assert same_but_for_cost(found, whole)
        else:
            assert record["out_of_time"] == found.out_of_time == "decoding"
    assert found.out_of_time is None
    assert same_but_for_cost(found, whole)


def test_later_rounds_are_left_out_and_nothing_stays_open():
    whole, _ = run(DOCUMENT)
    seen = []
    for found, expert in run_all(DOCUMENT):
        if found is None:
            assert not seen
            continue
        if found.out_of_time is not None and expert.asked == set(found.damaged.lost.tolist()):
            assert not found.left_open.any()
            assert any("chosen at once, less surely" in line for line in summary(found))
        if found.left_open.any():
            said = f"time ran out while filling in: {found.summary.left_open} byte"
            assert next(line for line in summary(found) if "open" in line).startswith(said)
        seen.append((found.summary.left_open, found.out_of_time))
    opened = [left for left, _ in seen]
    assert opened == sorted(opened, reverse=True)
    assert max(opened) > 10  # some were not reached,
    assert seen.count((0, "decoding")) > 2  # some rounds were left out,
    assert seen[-1] == (0, None)  # and at last there was time for all
    assert same_but_for_cost(found, whole)


def test_a_gap_is_filled_in_as_a_whole_or_not_at_all():
    document = "words before it [...] and after it, and then " + 3 * MARK + " more [...] of it."
    for found, expert in run_all(document, 12, gap="[...]", max_gap=8):
        if found is not None:
            for span in found.spans:
                inside = set(range(span.start, span.stop))
                assert span.left_open == (not inside <= expert.asked)
                assert not span.left_open or inside <= set(found.unfilled_positions.tolist())
            gaps = [span for span in found.spans if span.origin[1] - span.origin[0] == len("[...]")]
            assert found.text.count("[...]") == sum(span.left_open for span in gaps)


def test_doubtful_bytes_that_were_not_reached_stay_as_they_were_seen():
    document = "naïve words".encode() + b"\xff and " + MARK.encode() + f" more, é{MARK}".encode()
    most = run(document, channel="replacement:0.1")[1].now
    opened = []
    for seconds in range(most, 0, -1):
        try:
            found, expert = run(document, seconds, channel="replacement:0.1")
        except TooSlowError:
            break
        opened.append(found.summary.left_open)
        assert is_text(found.data)
        places = np.array(sorted(set(range(found.length)) - expert.asked), dtype=np.int64)
        seen = found.damaged.tokens[places]
        assert (found.left_open[places] == (seen == LOST)).all()
        stays = (seen != LOST) & (seen != 0xFF)
        np.testing.assert_array_equal(found.tokens[places[stays]], seen[stays])
        assert (found.confidence[places[stays]] < 1).all()
    assert set(opened) == {0, 1, 2}


def test_without_time_for_them_there_are_no_alternatives():
    plain = run(DOCUMENT)[0]
    stages = []
    for found, _ in run_all(DOCUMENT, alternatives=2):
        if found is not None and found.out_of_time != "decoding":
            assert found.data == plain.data
            np.testing.assert_array_equal(found.confidence, plain.confidence)
            assert bool(found.alternatives) == (found.out_of_time is None)
            stages.append(found.out_of_time)
    assert set(stages) == {"alternatives", None}


@pytest.mark.parametrize("worms", [1, 2])
def test_without_time_for_language_models_the_text_is_that_of_networks(worms):
    text = "Zwölf Boxkämpfer jagen Viktor quer über den Deich. "
    document = text.replace("ä", MARK).replace("D", MARK)
    fast = run(document)[0]
    stages = []
    for found, _ in run_all(document, language_models=worms * [text.encode()], effort="best", alternatives=1):
        if found is None or found.out_of_time == "decoding":
            continue
        stages.append(found.out_of_time)
        if found.out_of_time == "writing again":
            assert found.data == fast.data
            np.testing.assert_array_equal(found.confidence, fast.confidence)
            assert found.experts == fast.experts
            assert any("the text is that of networks and memory" in line for line in summary(found))
        else:
            assert found.data != fast.data
    assert list(dict.fromkeys(stages)) == ["writing again", "alternatives", None]


@pytest.mark.parametrize("document", ["some words, and " + MARK, "a [...] b" + MARK])
def test_before_anything_is_filled_in_it_is_too_slow(document):
    with pytest.raises(TooSlowError, match=r"^nothing was restored within 1 s: it was still .*; allow more time$"):
        run(document, 1, gap="[...]", max_gap=4)


def test_nothing_lost_takes_no_time():
    assert run("whole", 1e-9)[0].out_of_time is None


@pytest.mark.parametrize("seconds", [0, -1, "2", True, float("nan")])
def test_a_limit_is_a_positive_number(seconds):
    with pytest.raises(OptionError, match=r"max_seconds: .*positive number"):
        RestoreOptions(max_seconds=seconds)


def test_characters_that_were_not_reached_stay_marks():
    text = " ".join(itertools.chain(*([one] if isinstance(one, str) else one for one in SENTENCES.values())))[:300]
    document = "".join(letter if letter.isascii() else MARK for letter in text)
    with mock.patch("conservator.experts.team.CHUNK", 2**16), mock.patch("conservator.experts.team.LONGEST", 64):
        restorer, opened = Restorer([FakeExpert()], select=True), []
        with clocked(itertools.count().__next__):
            whole = restorer.restore(document, lost="characters")
            for seconds in itertools.count(1):
                try:
                    found = restorer.restore(document, lost="characters", max_seconds=seconds)
                except TooSlowError:
                    continue
                assert found.text.count(MARK) == found.summary.left_open
                assert [one for one in found.text if one.isascii()] == [one for one in document if one.isascii()]
                opened.append(found.summary.left_open)
                if found.out_of_time is None:
                    break
    assert opened == sorted(opened, reverse=True)
    assert len(set(opened)) > 3
    assert found.text == whole.text


COURT = "The prisoner was brought before the magistrate.\nHe was found in the burning house.\nIt was burnt at night.\n"
CHANNEL = EditChannel({("h", "b"): 0.05, ("rn", "m"): 0.05}, {}, 0.95)
PRIOR = CharNgramMixture.of([CharNgramModel.of("court", [COURT * 20])])


def corrections(corrector, text):
    """The correction for every number of seconds, where each look at the clock takes one; None where none was done."""
    for seconds in itertools.count(1):
        meter = Meter(seconds=seconds, clock=itertools.count().__next__)
        try:
            with meter.stage("correcting"):
                found = corrector.correct(text, meter)
        except OutOfTimeError:
            yield None
            continue
        yield found
        if found.out_of_time is None:
            return


def test_lines_that_are_done_keep_their_corrections():
    seen = COURT.replace("the", "tbe").replace("burn", "bum")
    whole = Corrector(CHANNEL, PRIOR).correct(seen)
    assert whole.text == COURT
    found = list(corrections(Corrector(CHANNEL, PRIOR), seen))
    assert found[0] is None
    reached = [one for one in found if one is not None]
    lines = COURT.splitlines(keepends=True)
    wanted = ["".join([*lines[:done], *seen.splitlines(keepends=True)[done:]]) for done in (1, 2, 3)]
    assert list(dict.fromkeys(one.text for one in reached)) == wanted
    assert [one.out_of_time for one in reached] == ["correcting"] * (len(reached) - 1) + [None]
    assert reached[-1] == whole
    shown = as_restoration(reached[0], Cost())
    assert as_record(shown)["out_of_time"] == "correcting"
    assert "time ran out while correcting: lines that were not reached stay as they were seen" in summary(shown)


def test_what_language_models_have_not_judged_is_as_models_of_characters_have_it():
    seen = COURT.replace("the", "tbe")
    rescorer = Rescorer([Bookworm(COURT.encode())])
    whole = Corrector(CHANNEL, PRIOR, min_log_odds=0.0, rescorer=rescorer).correct(seen)
    plain = Corrector(CHANNEL, PRIOR, min_log_odds=0.0).correct(seen)
    found = [one for one in corrections(Corrector(CHANNEL, PRIOR, min_log_odds=0.0, rescorer=rescorer), seen) if one]
    assert found[-1] == whole
    judged = [one for one in found if one.out_of_time == "writing again"]
    assert judged
    for one in judged:
        assert (one.changes, one.names, one.weights) == (plain.changes, plain.names, plain.weights)


def test_a_record_that_is_renewed_says_what_is_still_so():
    far = "some words that are far away. " * 20
    document = f"a {MARK} b {far} c {MARK} d"
    whole = as_record(restore(document, [FakeExpert()]))
    hasty = {**whole, "out_of_time": "decoding"}
    at = document.encode().index(MARK.encode())
    once = plan_renewal(hasty, [(at, at + 3, "x")])
    assert renew(hasty, whole_with(document, once.known), once)["out_of_time"] == "decoding"  # the other is as it was
    assert renew(whole, {**whole_with(document, once.known), "out_of_time": "alternatives"}, once)["out_of_time"] == (
        "alternatives"
    )
    alone = f"a {MARK} b"
    hasty = {**as_record(restore(alone, [FakeExpert()])), "out_of_time": "decoding"}
    once = plan_renewal(hasty, [(2, 5, "x")])
    assert renew(hasty, whole_with(alone, once.known), once)["out_of_time"] is None
    del hasty["out_of_time"]  # as in records of old
    assert renew(hasty, whole_with(alone, once.known), once)["out_of_time"] is None


def whole_with(document, known):
    return as_record(restore(document, [FakeExpert()], known=known))


def test_open_places_of_a_hasty_record_can_be_chosen():
    found = next(one for one, _ in run_all(DOCUMENT) if one is not None and one.left_open.any())
    record = as_record(found)
    place = next(piece for piece in record["pieces"] if piece.get("open"))
    choice = (*place["origin"], "x")
    plan = plan_renewal(record, [choice])
    renewed = renew(record, as_record(run(DOCUMENT, fixed=plan.fixed)[0]), plan)
    assert renewed["summary"]["left_open"] < record["summary"]["left_open"]
    assert renewed["summary"]["chosen"] == 1


def test_the_command(tmp_path):
    (tmp_path / "damaged.txt").write_text(f"The low h{MARK}ll.", encoding="utf-8")
    done = call("restore", "damaged.txt", "--experts", "prose", "--max-seconds", "1e-9", cwd=tmp_path)
    assert done.returncode == 3
    assert "nothing was restored within 1e-09 s: it was still reading; allow more time" in done.stderr
    assert done.stdout == ""
    done = call("restore", "damaged.txt", "--experts", "prose", "--max-seconds", "0", cwd=tmp_path)
    assert done.returncode == 2
    assert "--max-seconds" in done.stderr
    words = ("restore", "damaged.txt", "--experts", "prose", "--json")
    call(*words, "one.json", "-o", "one.txt", cwd=tmp_path)
    done = call(*words, "two.json", "-o", "two.txt", "--max-seconds", FAR, cwd=tmp_path)
    assert done.returncode == 0
    assert "time ran out" not in done.stdout
    one, two = (json.loads((tmp_path / name).read_text()) | {"cost": None} for name in ("one.json", "two.json"))
    assert one == two
    assert one["out_of_time"] is None


def test_the_command_says_that_nothing_was_changed_in_time(tmp_path):
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
    said = "nothing was changed in page.txt; time ran out while correcting: lines that were not reached stay as they"
    assert said in codes[0].stderr
    assert codes[0].stdout == text


def test_results_of_a_batch_depend_on_no_clock(tmp_path):
    assert "--max-seconds" not in call("batch", "--help", cwd=tmp_path).stdout
    assert "--max-seconds" in call("restore", "--help", cwd=tmp_path).stdout
