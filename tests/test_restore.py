"""Restoration of documents: properties for any bytes and marks, and examples with a known answer."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from conservator import ConservatorError, MaskChannel, ReplacementChannel, RestoreOptions, Restorer, restore
from conservator.channels import Observation
from conservator.documents import LOST, read_damaged, splice
from conservator.errors import OptionError
from conservator.experts import library, load_expert, save_expert
from conservator.field import DEFAULT
from conservator.reference import BigramExpert
from support.fakes import ChainExpert, FakeExpert, TextExpert
from support.networks import random_network

TEAMS = [[FakeExpert(0)], [FakeExpert(0), FakeExpert(1)], [FakeExpert(seed, 16 + seed) for seed in range(3)]]
MARK = "\ufffd".encode()

pieces = st.one_of(
    st.binary(max_size=4),
    st.text(max_size=3).map(str.encode),
    st.sampled_from([MARK, 2 * MARK, b"[...]", b"\r\n", b"\xe2\x82", b"word ", "日本".encode()]),
)
documents = st.lists(pieces, max_size=12).map(b"".join)


def check(document, result, settings):
    """Check the properties of every restoration."""
    assert result.data.decode() == result.text
    markers = {"mark": settings.get("mark", "\ufffd"), "gap": settings.get("gap")}
    damaged = read_damaged(document, **markers).check_utf8("invalid")
    if result.gaps:
        lengths = [gap.at[1] - gap.at[0] for gap in result.gaps]
        damaged = damaged.with_lengths(lengths, [gap.length_probability for gap in result.gaps])
    lost = damaged.tokens == LOST
    np.testing.assert_array_equal(result.changed, lost)
    np.testing.assert_array_equal(result.tokens[~lost], damaged.tokens[~lost])
    assert result.field.shape == (len(result.tokens), len(result.experts))
    np.testing.assert_allclose(result.field.sum(1), 1, atol=1e-6)
    assert (result.confidence >= 0).all()
    assert (result.confidence <= 1 + 1e-9).all()
    assert (result.confidence[~lost] == 1).all()
    min_confidence = settings.get("min_confidence", 0.0)
    if not result.unfilled.any():
        assert result.data == bytes(result.tokens.tolist())
    assert (result.unfilled <= lost).all()
    filled = settings.get("fill_undetermined", False) and settings.get("min_gap_confidence", 0.5) == min_confidence == 0
    assert not filled or not result.unfilled.any()
    for gap in result.gaps:  # a gap is filled as a whole or not at all
        assert len(np.unique(result.unfilled[slice(*gap.at)])) == 1
    assert sum(len(edit.data) for edit in result.edits) == lost.sum()
    check_edits(document, result)
    for edit in result.edits:
        candidates = edit.alternatives
        assert len(candidates) <= settings.get("alternatives", 0)
        others = [candidate.probability for candidate in candidates[1:]]
        assert others == sorted(others, reverse=True)
        assert not candidates or candidates[0].data == edit.data
        assert sum(candidate.probability for candidate in candidates) <= 1 + 1e-6
        assert all(len(candidate.data) == len(edit.data) for candidate in candidates)


def check_edits(document, result):
    """Check that the edits applied to the damaged document are the result, and that positions have an origin."""
    assert result.observed == document
    assert result.data == splice(document, ((*edit.span, edit.written()) for edit in result.edits))
    edges = [edge for edit in result.edits for edge in edit.span]
    assert edges == sorted(edges)
    origins = [result.origin(position) for position in range(result.length)]
    assert origins == sorted(origins)
    assert all(start < stop for start, stop in origins)
    covered = sorted({byte for span in origins for byte in range(*span)})
    assert covered == list(range(len(document)))
    for position in np.flatnonzero(~result.changed):
        start, stop = origins[position]
        assert document[start:stop] == bytes([result.tokens[position]])
    for edit, (start, stop) in zip(result.edits, result.ranges, strict=True):
        assert result.tokens[start:stop].tolist() == list(edit.data)
        assert (origins[start][0], origins[stop - 1][1]) == edit.span
        assert np.flatnonzero(result.unfilled[start:stop]).tolist() == sorted(edit.placeholders)


@given(
    documents,
    st.sampled_from(TEAMS),
    st.sampled_from(["\ufffd", "_", "é", "o", "[lost]"]),
    st.integers(0, 3),
    st.sampled_from([None, "[...]"]),
    st.sampled_from([0.0, 0.3]),
    st.integers(0, 2),
    st.booleans(),
)
@example(b"\xef\xbf\xbd\xa9\xef\xbf\xbd", TEAMS[1], "\ufffd", 0, None, 0.0, 2, True)
@example(b"\xe2\xef\xbf\xbd\x82\xef\xbf\xbd", TEAMS[1], "\ufffd", 0, None, 0.3, 2, True)
@example(b"\xc3[...]\xa9\xa9", TEAMS[1], "\ufffd", 0, "[...]", 0.0, 2, True)
@example(b"\xef\xbf\xbd\x80[...]\xef\xbf\xbd\x80\xef\xbf\xbd", TEAMS[1], "\ufffd", 0, "[...]", 0.3, 0, False)
def test_any_document_is_restored(document, team, mark, seed, gap, min_confidence, alternatives, everything):
    document = document.replace(MARK, mark.encode())
    options = {"mark": mark, "gap": gap, "min_confidence": min_confidence, "alternatives": alternatives, "seed": seed}
    if everything:
        options |= {"min_gap_confidence": 0.0, "fill_undetermined": True}
    options["encoding"] = "utf-8"  # also if the bytes look like another encoding
    result = restore(document, team, lost="invalid", max_gap=6, **options)
    check(document, result, options)
    again = restore(document, team, lost="invalid", max_gap=6, **options)
    assert again.data == result.data
    np.testing.assert_array_equal(again.field, result.field)
    assert again.edits == result.edits


@pytest.mark.parametrize("context", [8, 13, 64])
def test_experts_of_any_context_and_number(context):
    experts = [FakeExpert(seed, context) for seed in range(3)]
    document = ("some text that is long enough for windows " + 3 * "\ufffd" + " and") * 4
    for team in (experts[:1], experts):
        result = restore(document, team, alternatives=2)
        check(document.encode(), result, {"alternatives": 2})


def test_text_of_the_experts_is_restored_and_the_matching_expert_has_the_weight():
    verse, code = "the quick brown fox jumps over the lazy dog; " * 4, "x = [y for y in z if y]\n" * 6
    experts = [TextExpert(verse, name="verse"), TextExpert(code, name="code")]
    text = verse + code
    lost = list(range(10, len(text), 11))
    damaged = "".join("\ufffd" if position in lost else letter for position, letter in enumerate(text))
    result = restore(damaged, experts, alternatives=1)
    right = np.array(list(result.data)) == np.array(list(text.encode()))
    assert right[lost].mean() > 0.9
    assert result.field[20:160, 0].mean() > 0.8
    assert result.field[220:300, 1].mean() > 0.8
    assert result.experts == ("verse", "code", "words", "memory")


def test_text_far_from_damage_is_not_read():
    near, far = FakeExpert(0, 64), FakeExpert(0, 64)
    document = "a\ufffdc" + 500 * "0123456789"
    result = restore(document, [near], evidence_radius=16)
    restore(document, [far], evidence_radius=None)
    windows, bound = 2, 64  # the first window, and perhaps the next
    assert near.read <= windows * bound * (DEFAULT.patterns + 1)
    assert far.read > 20 * near.read
    assert (result.regions[200:] == -1).all()


def test_at_most_eight_passes_where_there_is_damage():
    expert = FakeExpert(0, 64)
    document = "ab\ufffdcd" * 8
    result = restore(document, [expert])
    assert expert.read <= 8 * len(result.tokens)
    assert result.cost.evaluations <= 8


@pytest.mark.parametrize("length", [1, 90, 199, 200, 201, 300])
@pytest.mark.parametrize("context", [200, 512])
def test_a_hole_at_either_end_of_a_document_that_is_read_at_once_is_restored(length, context):
    text = "b" * length
    for document in (f"\ufffd{text}", f"{text}\ufffd"):
        result = restore(document, [FakeExpert(context=context), FakeExpert(1, context=context)], evidence_radius=16)
        assert len(result.text) == length + 1


def test_the_less_confident_half_is_predicted_given_the_other_half():
    expert = ChainExpert()
    result = restore("a\ufffd\ufffd", [expert], evidence_radius=0)
    assert result.text == "abc"
    assert expert.seen[-1] == (ord("a"), ord("b"), None)


def test_alternatives_do_not_change_isolated_bytes():
    document = "".join("\ufffd" if position % 5 == 3 else chr(97 + position % 7) for position in range(90))
    experts = [FakeExpert(seed) for seed in range(2)]
    plain, with_alternatives = (restore(document, experts, alternatives=count) for count in (0, 3))
    assert plain.text == with_alternatives.text
    for edit, (start, stop) in zip(with_alternatives.edits, with_alternatives.ranges, strict=True):
        assert edit.alternatives[0].data == with_alternatives.data[start:stop]


def test_a_mark_among_characters_of_several_bytes_is_one_character():
    text = "Реклама молокоотсоса разделила мнения пользователей интернета. " * 3
    damaged, expert = text.replace("л", MARK.decode(), 1), FakeExpert(0, sharpness=1.0)
    result = restore(damaged, [expert], memory=False)
    assert result.lost_unit == "any"
    assert len(result.text) == len(text)
    unsure = restore(damaged.replace("м", MARK.decode()), [FakeExpert(0, sharpness=0.0)], memory=False)
    assert unsure.text.count(MARK.decode()) == unsure.summary.unfilled > 0  # improbable characters are not filled in
    assert "unknown_characters" in [notice.kind for notice in unsure.notices]
    half = text.encode().replace(
        "м".encode(), MARK + "м".encode()[1:], 1
    )  # part of a character is visible, so bytes are lost
    result = restore(half, [expert], memory=False)
    assert (result.lost_unit, result.summary.unfilled) == ("bytes", 0)


def test_the_length_of_a_gap_is_inferred():
    text = "".join(chr(33 + 7 * position % 90) for position in range(90))
    for length in (1, 5, 9):
        damaged = text[:40] + "[...]" + text[40 + length :]
        result = restore(damaged, [TextExpert(text)], gap="[...]", max_gap=10, alternatives=1)
        assert result.text == text
        assert result.edits[0].span == (40, 45)


def test_a_replacement_channel_may_change_visible_bytes():
    text = "the quick brown fox jumps over the lazy dog; " * 3
    wrong = text[:50] + "#" + text[51:]
    result = restore(wrong, [TextExpert(text)], channel=ReplacementChannel(256, 0.2))
    assert result.text == text
    assert result.ranges == ((50, 51),)
    assert restore(b"caf\xe9", [TextExpert(text)], channel=ReplacementChannel(256, 0.2)).text


def test_without_damage_there_is_no_cost():
    for document in ("", "all is here", "é"):
        result = restore(document, TEAMS[1])
        assert (result.text, result.cost.evaluations, result.edits) == (document, 0, ())


def test_progress_is_reported_and_may_stop_the_restoration():
    calls = []
    restore("a\ufffd\ufffdb[...]c", TEAMS[1], gap="[...]", alternatives=2, progress=lambda *call: calls.append(call))
    assert {stage for stage, _ in calls} == {"lengths", "inferring", "decoding", "alternatives"}
    shares = [share for stage, share in calls if stage == "inferring"]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0

    def stop(stage, share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore("a\ufffdb", TEAMS[1], progress=stop)


@pytest.mark.parametrize(
    ("document", "arguments", "message"),
    [
        ("a\ufffd", {"min_confidence": 1.5}, "between 0 and 1"),
        ("a\ufffd", {"alternatives": -1}, "non-negative integer"),
        ("a\ufffd", {"memory": "no"}, "true or false"),
        (
            "a\ufffd",
            {"memory": False, "references": [("text", "abc")]},
            "references: references have no effect without the memory",
        ),
        ("a\ufffd", {"experts": []}, "no experts"),
        ("a\ufffd", {"experts": ["nowhere"]}, "no expert 'nowhere'"),
        ("a\ufffd", {"experts": [BigramExpert.random(4, 1.0, torch.Generator())]}, "different vocabularies"),
        ("a", {"channel": "replacement"}, "known: auto, mask, replacement:RATE"),
        ("a", {"channel": "replacement:often"}, "between 0 and 1"),
        ("a", {"channel": 0.5}, "it must be a Channel or the name of a channel, got a float"),
        ("a", {"lost": "all"}, "must be one of auto, any, bytes, invalid, characters"),
        ("a", {"mark": ""}, "at least one character"),
        ("a", {"evidence_radius": -1}, "non-negative integer or None"),
        ("a", {"seed": 0.5}, "must be an integer"),
        ("a", {"invalid": "lost"}, "no such option, expected one of mark, gap"),
        ("a", {"experts": [object()]}, "without the attribute spec"),
        ("a\ufffd", {"channel": MaskChannel(4, 0.1)}, "output alphabet"),
        ("[...]", {"gap": "[...]", "max_gap": 0}, "at least 1"),
        (b"\xe9", {"encoding": "utf-8"}, "byte 0 is 0xe9"),
    ],
)
def test_bad_input_is_refused(document, arguments, message):
    with pytest.raises(ConservatorError, match=message):
        restore(document, **{"experts": TEAMS[1], **arguments})


@pytest.mark.parametrize("stage", ["lengths", "alternatives"])
def test_no_stage_runs_for_long_without_calling_progress(stage):
    expert, reads_between_calls, reads = FakeExpert(0, 64), [], []

    def progress(name, share):
        if name == stage:
            reads_between_calls.append(expert.read - (reads[-1] if reads else 0))
        reads.append(expert.read)

    restore("ab\ufffd\ufffd\ufffdcd [...] ef" * 6, [expert], gap="[...]", max_gap=6, alternatives=3, progress=progress)
    assert len(reads_between_calls) >= 6
    assert reads == sorted(reads)
    assert max(reads_between_calls) <= 64 * 64  # one call of the expert


def test_a_path_is_read(tmp_path):
    path = tmp_path / "damaged.txt"
    path.write_text("a\ufffdc")
    assert restore(path, TEAMS[0]).data == restore("a\ufffdc", TEAMS[0]).data
    with pytest.raises(ConservatorError, match=r"cannot read .*nowhere"):
        restore(tmp_path / "nowhere", TEAMS[0])


def test_a_document_may_have_marks_and_uncertain_bytes():
    text = "the quick brown fox jumps over the lazy dog; " * 3
    wrong = text[:50] + "#" + text[51:70] + "\ufffd" + text[71:]
    result = restore(wrong, [TextExpert(text)], channel="replacement:0.2")
    assert result.text == text
    assert result.ranges == ((50, 51), (70, 71))
    assert result.confidence.min() > 0.5


def test_a_restorer_loads_once_and_restores_many(tmp_path, monkeypatch):
    for seed, name in enumerate(("one", "two")):
        save_expert(tmp_path / name, random_network(seed=seed), name, {})
    loaded = []
    monkeypatch.setattr(library, "load_expert", lambda *arguments: loaded.append(arguments) or load_expert(*arguments))
    names = [tmp_path / "one", tmp_path / "two"]
    restorer = Restorer(names, RestoreOptions(min_confidence=0.5))
    first = restorer.restore("one \ufffd two")
    assert restorer.restore("one \ufffd two").data == first.data
    assert restorer.restore("one \ufffd two", min_confidence=0.0).unfilled.sum() == 0
    assert restore("one \ufffd two", names, min_confidence=0.5).data == first.data
    Restorer(names)
    assert len(loaded) == 2
    save_expert(tmp_path / "one", random_network(seed=5), "one", {})  # a changed expert is loaded again
    Restorer(names)
    assert len(loaded) == 3
    with pytest.raises(OptionError, match="no such option"):
        restorer.restore("a", minimum=1)


def test_a_restorer_is_safe_from_two_threads():
    restorer, text = Restorer([FakeExpert(0), FakeExpert(1)]), "ab\ufffdcd" * 30
    alone = [restorer.restore(text, seed=seed) for seed in range(6)]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda seed: restorer.restore(text, seed=seed), range(6)))
    for single, parallel in zip(alone, together, strict=True):
        assert single.data == parallel.data
        assert single.cost.evaluations == parallel.cost.evaluations
        np.testing.assert_array_equal(single.field, parallel.field)


def test_an_expert_can_be_made_of_the_document():
    class Memory:
        """An expert that is made from the document."""

        spec = FakeExpert(0).spec

        def condition(self, document: Observation):
            assert document.tokens.shape == (1, 8)
            assert document.lost[0].tolist() == [False] * 3 + [True] + [False] * 4
            return FakeExpert(0)

    result = restore("abc\ufffdefgh", [Memory(), FakeExpert(1)])
    assert result.data == restore("abc\ufffdefgh", [FakeExpert(0), FakeExpert(1)]).data
    assert restore("abc\ufffdefgh", [Memory()]).text


def test_the_public_name_stays_the_function():
    import conservator.restorer

    assert conservator.restore is restore
    assert callable(conservator.restore)


@given(st.text(max_size=40), st.lists(st.text(max_size=60), max_size=3), st.integers(0, 3))
@example("a\ufffdb", ["\ufffd" * 8, ""], 0)
@example("caf\ufffd\ufffd", ["\0\1\2 caf\u00e9"], 0)
def test_references_change_no_visible_byte(text, texts, seed):
    references = [(f"text {number}", content) for number, content in enumerate(texts)]
    result = restore(text, [FakeExpert(0)], references=references, seed=seed)
    damaged = read_damaged(text)
    known = ~result.changed
    assert known.sum() == (damaged.tokens != LOST).sum()
    np.testing.assert_array_equal(result.tokens[known], damaged.tokens[damaged.tokens != LOST])
    assert result.data.decode() == result.text
    assert (result.field >= 0).all()
    np.testing.assert_allclose(result.field.sum(axis=1), 1, rtol=1e-6)
    for position, source in result.provenance.items():
        assert not known[position]
        assert source.name in (None, *dict(references))


def test_a_text_is_restored_from_a_reference():
    sentence = "Colourless green ideas sleep furiously beneath the harbour clock."
    damaged = "".join("\ufffd" if position % 9 == 4 else letter for position, letter in enumerate(sentence))
    result = restore(damaged, [FakeExpert(0, sharpness=0.1)], references=[("sibling", f"First.\n{sentence}\n")])
    assert result.text == sentence
    assert {(source.name, source.line) for source in result.provenance.values()} == {("sibling", 2)}
    assert result.experts == ("fake0", "words", "memory")
    without = restore(damaged, [FakeExpert(0, sharpness=0.1)], memory=False)
    assert without.experts == ("fake0",)
    assert without.provenance == {}
    assert without.text != sentence


def test_a_restorer_selects_among_its_experts():
    verse, code = "the quick brown fox jumps over the lazy dog; " * 8, "x = [y for y in z if y]\n" * 6
    experts = [TextExpert(verse, name="verse"), FakeExpert(5), TextExpert(code, name="code")]
    damaged = "".join("\ufffd" if position % 11 == 5 else letter for position, letter in enumerate(verse))
    selected, unselected = (Restorer(experts, select=select).restore(damaged) for select in (True, False))
    assert selected.experts == ("verse", "words", "memory")
    assert unselected.experts == ("verse", "fake5", "code", "words", "memory")
    assert selected.cost.evaluations <= unselected.cost.evaluations
    assert Restorer(experts, select=True).restore("nothing is lost").experts == unselected.experts
    gaps = Restorer(experts, select=True).restore(verse.replace("brown", "[...]"), gap="[...]")
    assert "verse" in gaps.experts
