"""Harm of OCR correction on clean text of many languages and kinds, and on OCR text of languages without a model.

    python benchmarks/harm.py --corpora PATH --json FILE [--parts kinds,languages,uncovered,english]

Three measurements with ``channel="ocr"`` and the shipped models only:

1. Clean text: characters changed, for 40 languages (``languages/LANG.eval.jsonl.gz``) and for generated texts of kinds
   that invite false corrections (prices, CSV, URLs, identifiers, formulas, code and others). Every change is harm.
2. OCR text of languages that no shipped model covers: character error rate before and after correction, and number of
   documents with more errors.
3. The same for English, to show that the protection does not disable correction.

``--split train`` uses the texts for tuning thresholds.
"""

import argparse
import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from rapidfuzz.distance import Levenshtein
from rich.console import Console
from rich.progress import track
from rich.table import Table

from conservator import RestoreOptions, Restorer
from conservator.evaluation.provenance import commit, versions
from conservator.system.files import write_atomically

UNCOVERED = {
    "fr": ("hipe2026_icdar2017_fr", "icdar2019_fr"),
    "de": ("hipe2026_impresso-snippets_de", "hipe2026_dta19-l0_de", "icdar2019_de"),
    "pl": ("poleval2021_pl", "icdar2019_pl"),
    "es": ("icdar2019_es",),
    "nl": ("icdar2019_nl",),
    "cs": ("icdar2019_cs",),
}
ENGLISH = ("hipe2026_icdar2017_en", "hipe2026_impresso-snippets_en", "icdar2019_en", "mibio", "acl_benchmark")
NAMES = ("Clark", "Hill", "Yevgeniy Mravinskiy", "Szymborska", "O'Shaughnessy", "McLachlan", "van der Berg", "Nguyen")


def prices(random: Random) -> str:
    """Generate a line with prices in pounds, shillings and pence."""
    sums = (f"{random.randint(1, 99)}l. {random.randint(1, 19)}s. {random.randint(1, 11)}d." for _ in range(2))
    return f"Received of Mr. {random.choice(NAMES)}, {'; of Mrs. Hill, '.join(sums)} for vol. ii., @ 8s. 6d. each."


def csv_row(random: Random) -> str:
    """Generate a row of a CSV table."""
    date = f"{random.randint(1990, 2026)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
    return f"{random.randint(1, 9999)},{random.choice(NAMES)},{date},{random.random():.4f},,ok,{random.choice('ABC')}l"


def url(random: Random) -> str:
    """Generate a line with a URL and an e-mail address."""
    number = random.randint(1, 99)
    page = f"https://www.exumple{number}.org/a1l/path_{number}/index.htm?q=tbe&lang=en#sec{number}"
    return f"See {page} or write to info{number}@rnail.exarnple.net before noon."


def identifiers(random: Random) -> str:
    """Generate a line with an ISBN, an IBAN, an order number and a serial number."""
    digits = [str(random.randint(0, 9)) for _ in range(22)]
    book = f"978-{digits[0]}-{''.join(digits[1:4])}-{''.join(digits[4:9])}-{digits[9]}"
    return (
        f"ISBN {book}, IBAN DE{''.join(digits)}, order AB-{''.join(digits[:5])}-OI, serial l0O1I{digits[3]}Z, rev. B2."
    )


def formulas(random: Random) -> str:
    """Generate a line with chemical and mathematical formulas."""
    count = random.randint(2, 9)
    reaction = f"C{count}H{2 * count}O{count} + {count} O2 -> {count} CO2 + {count} H2O"
    return f"{reaction}; a1 = b0 + {count}x^2 - l0, Na2SO4, CH3COOH"


def c_code(random: Random) -> str:
    """Generate a line of C with similar names."""
    name = "".join(random.choice("lI1O0") for _ in range(3))
    body = f"return p{name}[nO{name}] != '\\0' ? l{name} : O_RDONLY;"
    return f"static int l{name}(const char *p{name}, int nO{name}) {{ {body} }}"


def shell_code(random: Random) -> str:
    """Generate a line of a shell script with regular expressions."""
    return (
        f"sed -E 's/^([a-z]+)_(\\w{{{random.randint(1, 9)}}})$/\\2-\\1/; /foo|bar/d' < in.txt | grep -vE '^#|^$' > $OUT"
    )


def base64_line(random: Random) -> str:
    """Generate a line of base64."""
    return "".join(random.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") for _ in range(64))


def digest(random: Random) -> str:
    """Generate a line with a hash and a file name."""
    return f"{random.getrandbits(160):040x}  dist/conservator-{random.randint(0, 9)}.tar.gz"


def invoice(random: Random) -> str:
    """Generate a line of an invoice."""
    count, price = random.randint(1, 99), random.randint(100, 99999) / 100
    return f"{count} x Widget, blue, 12 mm   {price:.2f} EUR   {count * price:.2f} EUR  (VAT 19 %, due 14/03/2025)"


def names_of_people(random: Random) -> str:
    """Generate a sentence with names of people."""
    return f"The committee thanked {random.choice(NAMES)} and {random.choice(NAMES)}, and then Mr. Wojciechowski spoke."


KINDS: dict[str, Callable[[Random], str]] = {
    "prices": prices,
    "CSV": csv_row,
    "URLs": url,
    "identifiers": identifiers,
    "formulas": formulas,
    "C": c_code,
    "shell": shell_code,
    "base64": base64_line,
    "hashes": digest,
    "invoices": invoice,
    "names": names_of_people,
}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="folder with languages/ and ocr/")
    parser.add_argument(
        "--split", choices=("train", "eval"), default="eval", help="split of languages/, or half of ocr/"
    )
    parser.add_argument("--documents", type=int, default=50, help="OCR documents per language")
    parser.add_argument("--characters", type=int, default=10_000, help="clean characters per language and kind")
    parser.add_argument(
        "--parts", default="kinds,languages,uncovered,english", help="measurements, separated by commas"
    )
    parser.add_argument("--only", help="languages and kinds to measure, separated by commas")
    parser.add_argument("--effort", default="fast")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    restorer = Restorer(options=RestoreOptions(channel="ocr", effort=options.effort))
    rows = []
    for part in options.parts.split(","):
        for name, pairs in groups(part, options):
            if options.only is None or name in options.only.split(","):
                rows.append({"part": part, "name": name, **measure(restorer, pairs, name)})
    show(rows)
    if options.json:
        settings = {key: str(getattr(options, key)) for key in ("split", "documents", "characters", "parts", "effort")}
        about = {"commit": commit(), "versions": versions(), "options": settings}
        write_atomically(options.json, json.dumps({**about, "rows": rows}, indent=1, ensure_ascii=False) + "\n")


def groups(part: str, options: argparse.Namespace) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the names of a part with their documents, as pairs of observed and true text."""
    if part == "kinds":
        for name, generate in KINDS.items():
            random = Random(zlib.crc32(f"{name} {options.split}".encode()))
            text = ""
            while len(text) < options.characters:
                text += generate(random) + "\n"
            yield name, [(text[start : start + 2500],) * 2 for start in range(0, len(text), 2500)]
        return
    if part == "languages":
        for path in sorted((options.corpora / "languages").glob("*.eval.jsonl.gz")):
            name = path.name.split(".")[0]
            split = path.with_name(f"{name}.{options.split}.jsonl.gz")
            texts = [record["text"][:2500] for record in read(split if split.exists() else path)]
            step = max(1, len(texts) * 2500 // options.characters)
            yield name, [(text, text) for text in texts[::step]]
        return
    data_sets = UNCOVERED if part == "uncovered" else {name: (name,) for name in ENGLISH}
    for name, files in data_sets.items():
        pairs = []
        for file in files:
            records = read(options.corpora / "ocr" / f"{file}.dev.jsonl.gz")
            selected = [(record["ocr"], record["truth"]) for record in records if split_of(record) == options.split]
            pairs += selected[: options.documents // len(files)]
        yield name, pairs


def split_of(record: dict[str, Any]) -> str:
    """Return the half of the OCR data that a document belongs to."""
    return "train" if zlib.crc32(str(record["doc"]).encode()) % 2 else "eval"


def read(path: Path) -> list[dict[str, Any]]:
    """Read the records of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def measure(restorer: Restorer, pairs: list[tuple[str, str]], name: str) -> dict[str, Any]:
    """Count errors before and after correction, and documents with fewer or more errors."""
    total = dict.fromkeys(("documents", "characters", "before", "after", "changed", "better", "worse", "left"), 0)
    expected_correct = 0.0
    for observed, truth in track(pairs, description=name, transient=True):
        restoration = restorer.restore(observed)
        before, after = Levenshtein.distance(observed, truth), Levenshtein.distance(restoration.text, truth)
        total["documents"] += 1
        total["characters"] += len(truth)
        total["before"] += before
        total["after"] += after
        counts = restoration.record.correction
        total["changed"] += counts.changed if counts else 0
        total["better"] += after < before
        total["worse"] += after > before
        total["left"] += any(notice.kind == "unknown_language" for notice in restoration.notices)
        expected_correct += sum(edit.probability for edit in restoration.edits)
    return {**total, "changes_stated_right": round(expected_correct, 1)}


def show(rows: list[dict[str, Any]]) -> None:
    """Print a table."""
    table = Table(title="OCR correction with the shipped models")
    for column in (
        "part",
        "name",
        "documents",
        "characters",
        "CER before %",
        "after %",
        "changed / 10,000",
        "better",
        "worse",
        "left",
    ):
        table.add_column(column, justify="left" if column in ("part", "name") else "right")
    for row in rows:
        size = max(1, row["characters"])
        rates = [f"{100 * row[key] / size:.2f}" for key in ("before", "after")]
        cells = [row["documents"], row["characters"], *rates, f"{10_000 * row['changed'] / size:.1f}"]
        table.add_row(row["part"], row["name"], *map(str, [*cells, row["better"], row["worse"], row["left"]]))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
