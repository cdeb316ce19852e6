"""The three copies of the example document agree."""

from pathlib import Path

from conservator import damage

ROOT = Path(__file__).parent.parent
CLEAN = (ROOT / "examples" / "field_station.md").read_bytes()


def test_the_damaged_example_is_the_clean_one_with_a_tenth_lost():
    assert (ROOT / "examples" / "field_station.damaged.md").read_bytes() == damage(CLEAN, 0.1, seed=6)


def test_the_web_page_has_the_same_example():
    assert (ROOT / "src" / "conservator" / "web" / "sample.md").read_bytes() == CLEAN
