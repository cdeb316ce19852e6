import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.documents import splice


@pytest.mark.parametrize(
    ("source", "replacements", "expected"),
    [
        ("abc", [], "abc"),
        ("abc", [(1, 2, "xy")], "axyc"),
        ("abc", [(0, 0, "x"), (3, 3, "y")], "xabcy"),
        ("abc", [(1, 1, "x"), (1, 2, "")], "axc"),
        (b"abc", [(0, 3, b"")], b""),
    ],
)
def test_spans_are_replaced(source, replacements, expected):
    assert splice(source, replacements) == expected


@pytest.mark.parametrize("spans", [[(0, 2), (1, 3)], [(2, 1)], [(0, 4)], [(2, 3), (0, 1)]])
def test_spans_that_overlap_or_exceed_the_source_are_refused(spans):
    with pytest.raises(ValueError, match="the span"):
        splice("abc", [(*span, "") for span in spans])


@given(st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4), st.text(max_size=4)), max_size=6))
def test_a_splice_is_undone_by_the_inverse_splice(parts):
    """Each part: text that stays, text that is replaced, its replacement."""
    source, result = "".join(a + b for a, b, _ in parts), "".join(a + c for a, _, c in parts)
    forward, backward, at, to = [], [], 0, 0
    for stays, old, new in parts:
        at, to = at + len(stays), to + len(stays)
        forward.append((at, at + len(old), new))
        backward.append((to, to + len(new), old))
        at, to = at + len(old), to + len(new)
    assert splice(source, forward) == result
    assert splice(result, backward) == source
