"""The code base uses the terms of docs/glossary.md: retired names and phrases are rejected."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CODE = sorted(path for folder in ("src", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PROSE = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PROSE = [path for path in PROSE if path.name != "glossary.md"]  # the glossary lists the retired names
PAGES = sorted(path for kind in ("*.js", "*.html") for path in (ROOT / "src").rglob(kind))

# Names that may not be bound: variables, parameters, attributes, functions, classes.
RETIRED_NAMES = {
    *("law", "laws", "found", "one", "place", "places", "own", "kept", "chances", "likeliest"),
    *("whom", "asked", "told", "said", "sure", "surer", "strange", "stranger", "strangers", "softened", "honest"),
    *("makers", "read_by", "recalls", "recalled", "recollection", "remembered", "trunk", "spelt", "holder", "seat"),
    *("Survey", "Alone", "Again", "Said", "Trust", "Reading", "Speller", "Spelled", "Recollection", "Remembered"),
    *("Beginning", "Trunk", "Judged", "Spot", "Doubt", "Stretch", "Covers", "InBytes", "Hiding", "AtTime", "Holder"),
    *("Seat", "Wish", "Moment", "Law", "Laws"),
    *("LEAST", "LARGEST", "LONGEST", "MOST", "FEW", "FAR", "SURE", "DOUBT", "FIRM", "REACH", "HEARD", "OWED", "GONE"),
    *("LOOKED_AT", "IN_DOUBT", "AT_ONCE", "BEYOND"),
}
# Phrases that may not occur in comments, strings and documents.
RETIRED_PHRASES = [
    r"reader of pages|readers of pages",
    r"\b(have|has|had|having) a say\b|\bits say\b|\btheir say\b",
    r"\bat home\b",
    r"\bforet(ell|old|ells)\b",
    r"\b(write|writes|wrote|written|writing) (it |them |these |those )?again\b",
    r"\b(texts?|files?|documents?) like (it|them|the document|the documents|this one)\b",
    r"\b(the|a|no|its|joint|each) laws? of\b",
    r"\bsurer\b|\bhow sure\b|\bless sure\b|\bmost sure\b",
    r"\bso many (of|bytes|characters|tokens|seconds|documents|positions|windows|steps)\b",
    r"\bwhat came of\b|\bwhat comes of\b|\bwhat is read of\b",
    r"\bhonest(ly)?\b",
    r"\bspelt\b|\bspeaks? (of|about) bytes\b",
    r"\bremember(s|ed|ing)?\b",
    r"\brecall(s|ed|ing)\b",
    r"\bwhom\b|\bnobody\b",
    r"\bcut into tokens\b|\bcanonical cut\b",
    r"\bkept apart\b|\btold apart\b|\btells? apart\b",
    r"\bhave something to say\b|\bhas something to say\b",
    r"\bin doubt\b",
]
PHRASES = re.compile("|".join(f"(?:{phrase})" for phrase in RETIRED_PHRASES), re.IGNORECASE)


def bound_names(path):
    """Names that a Python file binds, with their lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def phrases_in(path):
    """Retired phrases of a file, with their lines. A phrase may be broken over two lines."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        text = re.sub(r'"\n\s*f?"|\n\s*(# ?)?', " ", text)  # joins strings and comments that go on in the next line
        return [match[0] for match in PHRASES.finditer(text)]
    return [match[0] for match in PHRASES.finditer(re.sub(r"\s+", " ", text))]


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", [*CODE, *TESTS], ids=name_of)
def test_no_retired_name_is_bound(path):
    retired = [f"line {line}: {name}" for name, line in bound_names(path) if name in RETIRED_NAMES]
    assert not retired, f"see docs/glossary.md: {retired}"


@pytest.mark.parametrize("path", [path for path in [*CODE, *PROSE, *PAGES] if path != Path(__file__)], ids=name_of)
def test_no_retired_phrase_occurs(path):
    retired = phrases_in(path)
    assert not retired, f"see docs/glossary.md: {retired}"
