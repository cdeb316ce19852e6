"""Every kind of damage can be combined with every option.

``python tests/test_combinations.py`` writes docs/combinations.md.
"""

import json
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from conservator import Restorer
from conservator.documents import splice
from support.causal_experts import MemorizingCausalExpert
from support.fakes import FakeExpert

DOCUMENT = Path(__file__).parent.parent / "docs" / "combinations.md"
MARK = "\ufffd"
GAP = "[...]"
TRUTH = "The harbour was quiet in the morning, and the boats of André’s café lay close to the old stone wall.\n"  # noqa: RUF001
REFERENCES = [("log.txt", f"The log of the day. {TRUTH}" * 2)]


@dataclass(frozen=True)
class Damage:
    """A kind of damage: options of the restoration, and replacements in TRUTH that damage it.

    Attributes:
        options: Options of the restoration.
        replacements: Text -> its damaged form.
        fixed: Damaged text that the user fixes -> the fixed text.
        gap: Gap marker.
        lacunae: Markers of lacunae in editorial notation.
    """

    options: dict[str, object]
    replacements: dict[str, str]
    fixed: tuple[str, str]
    gap: str = GAP
    lacunae: tuple[str, ...] = ()

    def document(self, *, has_gap: bool) -> bytes:
        """The damaged text, with or without a gap."""
        text = TRUTH.replace("lay close", self.gap) if has_gap else TRUTH
        for clean, damaged in self.replacements.items():
            text = text.replace(clean, damaged)
        return text.encode(errors="surrogateescape")


BYTES = {"harbour": f"harb{MARK}ur", "morning": f"morn{MARK}ng", "stone": f"st{MARK}ne"}
CHARACTERS = {"André": f"Andr{MARK}", "’s": f"{MARK}s", "café": f"caf{MARK}"}  # noqa: RUF001
OCR = {"morning": "moming", "the boats": "tbe boats"}
ANY = {"harbour": f"harb{MARK}ur", "café": f"caf{MARK}", "stone": f"st{MARK}ne"}
MOJIBAKE = {"café": "cafÃ©", "’s": "â€™s", "harbour": "â€œharbourâ€\ufffd"}  # noqa: RUF001
ELEMENT, SHORT = (f'<gap reason="lost" quantity="{count}" unit="character"/>' for count in (3, 1))
LACUNAE = {"harbour": "harb[.3]r", "quiet": "(q)uiet", "café": "caf[.1]", "stone": f"st{MARK}ne", "old": "[c. 3]"}
TEI = {"The harbour": f"<TEI><text>The harb{SHORT}ur", "quiet": f"qu{ELEMENT}", "wall.": "</text></TEI>"}
DAMAGE = {
    "lost characters of any kind": Damage({"lost": "any"}, ANY, (f"harb{MARK}ur", "o")),
    "lost bytes": Damage({"lost": "bytes"}, BYTES, (f"harb{MARK}ur", "o")),
    "characters outside ASCII": Damage({"lost": "characters"}, CHARACTERS, (f"caf{MARK}", "é")),
    "invalid bytes": Damage({"lost": "invalid"}, {**BYTES, "quiet": "qu\udcffet"}, (f"harb{MARK}ur", "o")),
    "lacunae in Leiden conventions": Damage(
        {"notation": "leiden"}, LACUNAE, (".3", "ou"), "___", (".3", ".1", "c. 3", MARK)
    ),
    "lacunae in EpiDoc": Damage({"notation": "epidoc"}, TEI, (ELEMENT, "iet"), "___", (ELEMENT, SHORT)),
    "overwritten bytes": Damage(
        {"channel": "replacement:0.03", "lost": "bytes"}, {**BYTES, "quiet": "qu#et"}, (f"harb{MARK}ur", "o")
    ),
    "overwritten bytes and lost characters of any kind": Damage(
        {"channel": "replacement:0.03", "lost": "any"}, {**ANY, "quiet": "qu#et"}, (f"harb{MARK}ur", "o")
    ),
    "overwritten bytes and characters outside ASCII": Damage(
        {"channel": "replacement:0.03", "lost": "characters"}, {**CHARACTERS, "quiet": "qu#et"}, (f"caf{MARK}", "é")
    ),
    "OCR errors": Damage({"channel": "ocr"}, {**OCR, "stone": f"st{MARK}ne"}, ("tbe", "the")),
    "OCR errors and lost bytes": Damage({"channel": "ocr", "lost": "bytes"}, {**OCR, **BYTES}, ("tbe", "the")),
    "OCR errors and invalid bytes": Damage(
        {"channel": "ocr", "lost": "invalid"}, {**OCR, "stone": "st\udcffne"}, ("tbe", "the")
    ),
    "OCR errors and lost characters of any kind": Damage(
        {"channel": "ocr", "lost": "any"}, {**OCR, **ANY}, ("tbe", "the")
    ),
    "OCR errors and characters outside ASCII": Damage(
        {"channel": "ocr", "lost": "characters"}, {**OCR, **CHARACTERS}, ("tbe", "the")
    ),
    "mojibake": Damage({"channel": "mojibake"}, MOJIBAKE, ("cafÃ©", "café")),
    "typing errors": Damage({"channel": "typing"}, {"quiet": "qiuet", "morning": "mornign"}, ("mornign", "morning")),
    "words broken at line ends": Damage(
        {"channel": "hyphenation"}, {"harbour was ": "har-\nbour was ", "stone ": "sto-\nne "}, ("boats", "boats")
    ),
    "missing and inserted spaces": Damage(
        {"channel": "spaces"},
        {"harbour was": "harbourwas", "the boats": "theboats", "wall": "wa ll"},
        ("wa ll", "wall"),
    ),
    "letter case": Damage({"channel": "case"}, {"The": "the", "André": "andré"}, ("quiet", "quiet")),
}
OPTIONS = {
    "experts": "`experts`: networks that the user selects",
    "best": "`effort=best`: language models",
    "alternatives": "`alternatives`",
    "fixed": "`fixed`: text that the user fixed",
    "gap": "`gap`: gaps of unknown length",
    "references": "`references`",
    "words": "`words`",
    "confidence": "`min_confidence`",
}
CHANGING = tuple(OPTIONS)[:5]  # options that change the search or the document; their pairs are tested, too
SETS = [(), *((name,) for name in OPTIONS), *combinations(CHANGING, 2), tuple(OPTIONS)]


@pytest.fixture(scope="module")
def restorers():
    model = MemorizingCausalExpert(TRUTH.encode())
    return {
        (has_experts, has_references): Restorer(
            [FakeExpert(1)] if has_experts else None,
            references=REFERENCES if has_references else None,
            language_models=[model],
        )
        for has_experts in (False, True)
        for has_references in (False, True)
    }


def restore(damage, chosen, restorers):
    """Restore a damaged document with the chosen options."""
    document = damage.document(has_gap="gap" in chosen)
    options = dict(damage.options)
    options |= {"alternatives": 2} if "alternatives" in chosen else {}
    options |= {"effort": "best"} if "best" in chosen else {}
    options |= {"gap": damage.gap, "max_gap": 12, "min_gap_confidence": 0.0} if "gap" in chosen else {}
    options |= {"words": ("harbour", "morning", "André")} if "words" in chosen else {}
    options |= {"min_confidence": 0.3} if "confidence" in chosen else {}
    fixed = []
    if "fixed" in chosen:
        seen, text = damage.fixed
        start = document.index(seen.encode())
        marked = MARK.encode() if MARK in seen else seen.encode()
        start = document.index(marked, start)
        fixed = [(start, start + len(marked), text)]
    restorer = restorers["experts" in chosen, "references" in chosen]
    return document, restorer.restore(document, fixed=fixed, **options)


@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.parametrize("chosen", SETS, ids=["+".join(chosen) or "none" for chosen in SETS])
def test_options_can_be_combined(name, chosen, restorers):
    damage = DAMAGE[name]
    document, result = restore(damage, chosen, restorers)
    assert result.data == splice(document, ((*edit.span, edit.written()) for edit in result.edits))
    result.data.decode()
    assert ((result.confidence >= 0) & (result.confidence <= 1 + 1e-9)).all()
    assert np.allclose(result.field.sum(axis=1), 1)
    json.loads(result.to_json())
    result.to_html()
    is_byte_channel = "channel" not in DAMAGE[name].options
    for edit in result.changes if is_byte_channel else ():
        seen = document[slice(*edit.span)]
        markers = [marker.encode() for marker in (damage.gap, *damage.lacunae)]
        assert MARK.encode() in seen or seen in (*markers, b"\xff"), "visible text was changed"
    if "experts" in chosen:
        assert "fake1" in result.experts
    if "best" in chosen:
        assert "bookworm" in result.experts
    if "alternatives" in chosen:
        for edit in result.changes:
            assert edit.alternatives[0].data == edit.data
            assert len(edit.alternatives) <= 2
    if "fixed" in chosen:
        assert DAMAGE[name].fixed[1] in [edit.text for edit in result.edits if edit.is_fixed]
    if "gap" in chosen and "confidence" not in chosen:
        assert damage.gap not in result.text
        assert len(result.gaps) == 1 + len(damage.lacunae) - ("fixed" in chosen and bool(damage.lacunae))
    if "references" in chosen:
        assert {"references", "memory", "european"} & set(result.experts)


def combination_table():
    """docs/combinations.md: what can be combined."""
    lines = [
        "# Combinations",
        "",
        "Every kind of damage can be combined with every option. `tests/test_combinations.py` restores a text with",
        "each cell of this table, with every pair of its first five columns and with all columns together.",
        "",
        "| damage | options | " + " | ".join(OPTIONS.values()) + " |",
        "|---|---|" + "---|" * len(OPTIONS),
    ]
    for name, damage in DAMAGE.items():
        options = ", ".join(f"`{key}={value}`" for key, value in damage.options.items())
        lines.append(f"| {name} | {options} | " + " | ".join(["yes"] * len(OPTIONS)) + " |")
    return "\n".join(lines) + "\n"


def test_the_table_is_current():
    assert DOCUMENT.read_text().startswith(combination_table())


if __name__ == "__main__":
    table, current = combination_table(), DOCUMENT.read_text() if DOCUMENT.exists() else ""
    DOCUMENT.write_text(table + current[current.find("\n## ") :] if "\n## " in current else table)
