r"""Spans of mathematics in LaTeX sources (appendix "Data", "Scientific documents").

Mathematics is the text between ``$``, ``$$``, ``\(`` and ``\)``, ``\[`` and ``\]``, and in the environments of
ENVIRONMENTS, including the delimiters and nested text (``aligned``, ``\text{if $x$}``, a comment). The scanner does not
expand macros, with one exception: a command that the same source defines as one delimiter (``\newcommand{\be}
{\begin{equation}}``) is treated as that delimiter. Not detected: ``\ensuremath``, and macros that contain mathematics
or are defined in another file.
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
    """A delimiter, a brace or an empty line, with its span."""

    key: str
    start: int
    stop: int


def math_spans(text: bytes | str) -> list[Span]:
    r"""Find the spans of mathematics, sorted and disjoint: in bytes for ``bytes``, in characters for ``str``.

    The scanner recovers from unbalanced sources. An opener without a closer before an empty line is ignored. A display
    other than ``$$`` may contain empty lines, but must be closed before the next display. A surplus dollar pairs with
    the next dollar of its paragraph. The time is linear in the length of the source.
    """
    source = text.decode("latin-1") if isinstance(text, bytes) else text
    return _Scanner(source, list(_tokens(source))).spans()


def _tokens(source: str) -> Iterator[_Token]:
    """Yield delimiters, braces and empty lines in order; skip comments, verbatim text and delimiter definitions."""
    shortcuts: dict[str, str] = {}
    unclosed: set[str] = set()  # closers of verbatim environments that do not occur in the rest of the source
    position = 0
    while match := _LEXER.search(source, position):
        position = match.end()
        kind = match.lastgroup
        if kind == "definition":
            shortcuts[match["defined"]] = _delimiter(match["body"])
        elif kind == "begin" and match["begin"] in VERBATIM:
            closer = f"\\end{{{match['begin']}}}"
            stop = -1 if closer in unclosed else source.find(closer, position)
            if stop < 0:
                unclosed.add(closer)
            else:
                position = stop + len(closer)
        elif kind == "word":
            if match["word"] in shortcuts:
                yield _Token(shortcuts[match["word"]], match.start(), position)
        elif kind == "blank":
            position -= 1  # the last newline may start another empty line
            yield _Token("blank", match.start(), position)
        elif kind in ("begin", "end", "symbol", "plain"):
            yield _Token(_delimiter(match[0]), match.start(), position)


def _delimiter(source: str) -> str:
    """Normalise a delimiter: ``begin NAME`` and ``end NAME`` for environments, else the source text."""
    match = re.fullmatch(rf"{_BEGIN}|{_END}", source)
    if match is None:
        return source
    return f"begin {match['begin']}" if match["begin"] is not None else f"end {match['end']}"


_DISPLAYS = {r"\[": r"\]"} | {f"begin {name}": f"end {name}" for name in ENVIRONMENTS}  # unambiguous closers
_PAIRS = {"$": "$", "$$": "$$", r"\(": r"\)"}  # ended by an empty line; may be nested in braces


@dataclass
class _Scanner:
    """Finds the closer of each opener.

    Attributes:
        source: the text.
        tokens: its delimiters, braces and empty lines.
        bare: closer -> index of the token up to which braces are unbalanced and therefore ignored.
        missing: closer -> index of the token up to which the closer does not occur.
    """

    source: str
    tokens: list[_Token]
    bare: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)

    def spans(self) -> list[Span]:
        """Find the spans of mathematics."""
        spans = []
        index = 0
        while index < len(self.tokens):
            opener = self._key(index)
            after = index + (1 if self.tokens[index].key == opener else 2)
            last = None
            if opener in _DISPLAYS:
                last = self._close_display(after, _DISPLAYS[opener])
            elif opener in _PAIRS:
                last = self._close_pair(after, _PAIRS[opener])
            if last is not None:
                spans.append((self.tokens[index].start, self.tokens[last].stop))
            index = after if last is None else last + 1
        return spans

    def _key(self, index: int) -> str:
        """Key of a token; two adjacent dollars are one token."""
        token = self.tokens[index]
        if token.key != "$" or index + 1 == len(self.tokens):
            return token.key
        after = self.tokens[index + 1]
        return "$$" if after.key == "$" and after.start == token.stop else "$"

    def _close_display(self, first: int, closer: str) -> int | None:
        """Index of the closing token of a display; None if another display starts before it."""
        for index in range(first, len(self.tokens)):
            key = self.tokens[index].key
            if key == closer:
                return index
            if key in _DISPLAYS and not self._starts_with_outer(first, index):
                return None
        return None

    def _starts_with_outer(self, first: int, index: int) -> bool:
        """Whether a display starts directly after the opener around it, as ``align`` often does in ``$$``."""
        return index == first and not self.source[self.tokens[first - 1].stop : self.tokens[first].start].strip()

    def _close_pair(self, first: int, closer: str) -> int | None:
        """Index of the last token of the closer before an empty line or a display; outside braces if possible."""
        if first < self.missing.get(closer, 0):
            return None
        balanced = first >= self.bare.get(closer, 0)
        depth, inner, index = 0, None, first
        while index < len(self.tokens):
            key = self.tokens[index].key
            if key == "blank" or (key in _DISPLAYS and not (closer == "$$" and self._starts_with_outer(first, index))):
                break
            if key == "{":
                depth += 1
            elif key == "}":
                depth = max(depth - 1, 0)
            elif key == closer or (closer == "$$" and self._key(index) == closer):
                last = index if key == closer else index + 1
                if depth == 0 or not balanced:
                    return last
                if inner is None:
                    inner = last
            index += 1
        (self.missing if inner is None else self.bare)[closer] = index
        return inner
