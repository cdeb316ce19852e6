r"""Where the mathematics of a LaTeX source stands (appendix "Data", "Scientific documents").

Mathematics is what stands between ``$``, ``$$``, ``\(`` and ``\)``, ``\[`` and ``\]``, and in the environments of
ENVIRONMENTS, delimiters included; what is nested in it (``aligned``, ``\text{if $x$}``, a comment) belongs to it. The
scanner expands no macros, except that a command defined in the same source as one delimiter (``\newcommand{\be}
{\begin{equation}}``) stands for it. Not found: ``\ensuremath``, and macros that hold mathematics or are defined in
another file.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

Span = tuple[int, int]

ENVIRONMENTS = frozenset(
    name + star
    for name in (
        *("equation", "align", "gather", "multline", "eqnarray", "alignat", "xalignat", "xxalignat", "flalign"),
        *("displaymath", "math", "dmath", "dgroup", "IEEEeqnarray", "mathpar", "mathparpagebreakable"),
        "narrowmultline",
    )
    for star in ("", "*")
)
VERBATIM = frozenset(
    name + star
    for name in ("verbatim", "Verbatim", "lstlisting", "minted", "alltt", "comment", "filecontents")
    for star in ("", "*")
)

_BEGIN = r"\\begin[ \t]*\{(?P<begin>[^{}\n]*)\}"
_END = r"\\end[ \t]*\{(?P<end>[^{}\n]*)\}"
_LEXER = re.compile(
    r"%[^\n]*"
    r"|(?P<definition>\\(?:(?:re)?newcommand|providecommand|DeclareRobustCommand|def)\*?[ \t]*\{?[ \t]*"
    r"(?P<defined>\\[A-Za-z]+)[ \t]*\}?[ \t]*\n?[ \t]*"
    r"\{[ \t]*(?P<body>\\(?:begin|end)[ \t]*\{[^{}\n]*\}|\\\[|\\\]|\\\(|\\\)|\$\$?)[ \t]*\})"
    rf"|{_BEGIN}|{_END}"
    r"|\\(?:verb|lstinline)\*?(?:\[[^\]\n]{0,80}\])?(?P<mark>[!-)+-@\[-`|~])[^\n]*?(?P=mark)"
    r"|(?P<word>\\[A-Za-z]+)"
    r"|(?P<symbol>\\[^A-Za-z\n])"
    r"|(?P<plain>[${}])"
    r"|(?P<blank>\n[ \t\r]*\n)"
)


@dataclass(frozen=True)
class _Token:
    """A delimiter, a brace or an empty line: what it is, and where."""

    key: str
    start: int
    stop: int


def math_spans(text: bytes | str) -> list[Span]:
    r"""The spans of mathematics, sorted and disjoint, in bytes of ``bytes`` and in characters of a ``str``.

    It recovers from unbalanced source. What is not closed before an empty line is no mathematics; a display other than
    ``$$`` may have empty lines, but must be closed before the next display. A dollar too many pairs with the next one,
    up to the end of its paragraph. It takes linear time.
    """
    source = text.decode("latin-1") if isinstance(text, bytes) else text
    return _Scanner(source, list(_tokens(source))).spans()


def _tokens(source: str) -> Iterator[_Token]:
    """What matters in a source, in order; comments, verbatim text and definitions of delimiters are left out."""
    shortcuts: dict[str, str] = {}
    endless: set[str] = set()  # verbatim environments that are not closed any more
    place = 0
    while found := _LEXER.search(source, place):
        place = found.end()
        kind = found.lastgroup
        if kind == "definition":
            shortcuts[found["defined"]] = _delimiter(found["body"])
        elif kind == "begin" and found["begin"] in VERBATIM:
            closer = f"\\end{{{found['begin']}}}"
            stop = -1 if closer in endless else source.find(closer, place)
            if stop < 0:
                endless.add(closer)
            else:
                place = stop + len(closer)
        elif kind == "word":
            if found["word"] in shortcuts:
                yield _Token(shortcuts[found["word"]], found.start(), place)
        elif kind == "blank":
            place -= 1  # its last newline may begin the next one
            yield _Token("blank", found.start(), place)
        elif kind in ("begin", "end", "symbol", "plain"):
            yield _Token(_delimiter(found[0]), found.start(), place)


def _delimiter(written: str) -> str:
    """The name of a delimiter: ``begin NAME`` and ``end NAME`` for an environment, else as it is written."""
    found = re.fullmatch(rf"{_BEGIN}|{_END}", written)
    if found is None:
        return written
    return f"begin {found['begin']}" if found["begin"] is not None else f"end {found['end']}"


_DISPLAYS = {r"\[": r"\]"} | {f"begin {name}": f"end {name}" for name in ENVIRONMENTS}  # closers that leave no doubt
_PAIRS = {"$": "$", "$$": "$$", r"\(": r"\)"}  # what an empty line ends, and nests in braces


@dataclass
class _Scanner:
    """Finds the closer of each opener.

    Attributes:
        source: the text.
        tokens: what matters in it.
        bare: closer -> the token up to which braces are not balanced, so that they count for nothing.
        missing: closer -> the token up to which there is none.
    """

    source: str
    tokens: list[_Token]
    bare: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)

    def spans(self) -> list[Span]:
        """The spans of mathematics."""
        found = []
        place = 0
        while place < len(self.tokens):
            opener = self._key(place)
            after = place + (1 if self.tokens[place].key == opener else 2)
            last = None
            if opener in _DISPLAYS:
                last = self._close_display(after, _DISPLAYS[opener])
            elif opener in _PAIRS:
                last = self._close_pair(after, _PAIRS[opener])
            if last is not None:
                found.append((self.tokens[place].start, self.tokens[last].stop))
            place = after if last is None else last + 1
        return found

    def _key(self, place: int) -> str:
        """The token there, two dollars in one."""
        token = self.tokens[place]
        if token.key != "$" or place + 1 == len(self.tokens):
            return token.key
        after = self.tokens[place + 1]
        return "$$" if after.key == "$" and after.start == token.stop else "$"

    def _close_display(self, first: int, closer: str) -> int | None:
        """The closing token of a display, unless another one begins before."""
        for place in range(first, len(self.tokens)):
            key = self.tokens[place].key
            if key == closer:
                return place
            if key in _DISPLAYS and not self._at_once(first, place):
                return None
        return None

    def _at_once(self, first: int, place: int) -> bool:
        """Whether a display begins where the one around it does, as ``align`` often does in ``$$``."""
        return place == first and not self.source[self.tokens[first - 1].stop : self.tokens[first].start].strip()

    def _close_pair(self, first: int, closer: str) -> int | None:
        """The last token of the closer, at best outside braces, before an empty line or a display."""
        if first < self.missing.get(closer, 0):
            return None
        balanced = first >= self.bare.get(closer, 0)
        depth, inner, place = 0, None, first
        while place < len(self.tokens):
            key = self.tokens[place].key
            if key == "blank" or (key in _DISPLAYS and not (closer == "$$" and self._at_once(first, place))):
                break
            if key == "{":
                depth += 1
            elif key == "}":
                depth = max(depth - 1, 0)
            elif key == closer or (closer == "$$" and self._key(place) == closer):
                last = place if key == closer else place + 1
                if depth == 0 or not balanced:
                    return last
                if inner is None:
                    inner = last
            place += 1
        (self.missing if inner is None else self.bare)[closer] = place
        return inner
