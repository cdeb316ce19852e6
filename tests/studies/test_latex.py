"""Spans of mathematics in LaTeX sources."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conservator_studies.latex import ENVIRONMENTS, math_spans

FRAGMENTS = [
    *("$", "$$", r"\(", r"\)", r"\[", r"\]", r"\begin{align*}", r"\end{align*}", r"\begin{equation}"),
    *(r"\end{equation}", r"\$", r"\%", "%", "\\", r"\\", "{", "}", "\n", "\n\n", "x", " ", "é", r"\text{"),
    *(
        r"\verb|",
        "|",
        r"\begin{verbatim}",
        r"\end{verbatim}",
        r"\newcommand{\be}{\begin{equation}}",
        r"\be ",
        "\U0001d4b3",
    ),
]
SOURCES = st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join)
MATHS = st.one_of(
    st.sampled_from(
        [
            *("$x$", r"\(a^2\)", "$$y$$", r"\[\int f\]", r"$\{x \mid 5\$\}$", r"$x \text{ if $y$ and \mbox{$z$}} w$"),
            *(
                "$$a \\text{ $b$ } c$$",
                "\\[x % \\] not yet\n\\]",
                "$a % b$\n$",
                r"\(\text{as $x$}\)",
                r"\[ a \\[2pt] b \]",
            ),
            *(
                r"$$\begin{aligned}a\end{aligned}$$",
                "$$\n\\begin{align}a\\end{align}$$",
                r"\[\begin{array}{c}1\end{array}\]",
            ),
        ]
    ),
    st.sampled_from(sorted(ENVIRONMENTS)).map(
        lambda name: f"\\begin{{{name}}}\n x &= \\text{{$y$}} \\\\\n\\end{{{name}}}"
    ),
)
PROSE = st.sampled_from(
    [
        *(
            "Let ",
            " be a\nset. ",
            "\n\n",
            r" costs \$5, ",
            " % $ is no delimiter\n",
            r" 5\% $".rstrip("$"),
            r"\verb|$x| ",
        ),
        *(
            r"\begin{verbatim}$ \[ %\end{verbatim}",
            r"\begin{theorem}[é] ",
            r" \\[2pt] ",
            r"\\(so) ",
            r"\lstinline!a $ b! ",
        ),
        r"\begin{comment} $x$ \end{comment}",
    ]
)


def inside(source):
    return [source[start:stop] for start, stop in math_spans(source)]


@given(pairs=st.lists(st.tuples(PROSE, MATHS), max_size=8), end=PROSE)
def test_inserted_mathematics_is_found(pairs, end):
    source, expected = "", []
    for prose, maths in pairs:
        source += prose
        expected.append((len(source), len(source) + len(maths)))
        source += maths
    assert math_spans(source + end) == expected


@given(source=SOURCES)
@example("${x$ a $y$ \n\n $z$")
@example("$$$")
def test_spans_are_sorted_disjoint_and_within_any_text(source):
    spans = math_spans(source)
    edges = [0, *(edge for span in spans for edge in span), len(source)]
    assert edges == sorted(edges)
    assert all(start < stop for start, stop in spans)


@given(source=SOURCES)
def test_bytes_and_characters_agree(source):
    offsets = [len(source[:index].encode()) for index in range(len(source) + 1)]
    assert math_spans(source.encode()) == [(offsets[start], offsets[stop]) for start, stop in math_spans(source)]


@given(source=st.text(st.characters(exclude_characters="$\\")))
def test_there_is_no_mathematics_without_dollar_and_backslash(source):
    assert math_spans(source) == []


@given(before=SOURCES, maths=MATHS)
def test_text_before_an_empty_line_does_not_affect_inline_mathematics(before, maths):
    source = before.replace("\\", "").replace("|", "")  # dollars and braces in any order
    assert inside(f"{source}\n\n{maths}")[-1] == maths


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a lone $ here\n\nand $x$", ["$x$"]),
        ("a lone $ before \\[x\\] and $y$", ["\\[x\\]", "$y$"]),
        ("a lone $ $x$ pairs wrongly\n\n$y$", ["$ $", "$y$"]),
        (r"a lone \[ and \[x\]", [r"\[x\]"]),
        (r"a lone \begin{align} and \begin{align}x\end{align}", [r"\begin{align}x\end{align}"]),
        ("a lone \\( here\n\n\\(x\\)", [r"\(x\)"]),
        ("$$ x\n\n$$y$$", ["$$y$$"]),
        ("\\[ x\n\n y \\]", ["\\[ x\n\n y \\]"]),
        ("${x$ and $y$", ["${x$", "$y$"]),
        ("$x}$ and $y$", ["$x}$", "$y$"]),
        ("$a$$b$", ["$a$", "$b$"]),
        (r"\begin{verbatim} $x$", ["$x$"]),
        (r"\] \) \end{align} $x$", ["$x$"]),
        ("\\verb|$ not closed on its line\n\n$x$", ["$x$"]),
        (r"\begin {equation} x \end {equation}", [r"\begin {equation} x \end {equation}"]),
    ],
)
def test_unbalanced_and_odd_sources(source, expected):
    assert inside(source) == expected


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        (r"\newcommand{\be}{\begin{equation}}", r"\newcommand{\ee}{\end{equation}}"),
        (r"\def\be{\begin{eqnarray*}}", r"\def\ee{\end{eqnarray*}}"),
        (r"\renewcommand*\be{ \[ }", r"\providecommand{\ee}{\]}"),
        (r"\newcommand{\be}{$$}", r"\newcommand{\ee}{$$}"),
    ],
)
def test_commands_defined_as_a_delimiter(opening, closing):
    assert inside(f"{opening}\n{closing}\nso \\be x \\ee, \\beta $y$") == [r"\be x \ee", "$y$"]


@pytest.mark.parametrize(
    "fragment", ["$", "$$ ", "{$", r"\(", r"\[", r"\begin{align}", r"\verb[", "\n", "$ {", r"\(}{"]
)
def test_long_sources_take_linear_time(fragment):
    math_spans(fragment * 20_000)
