"""Harm of OCR correction: clean text in many languages and kinds, and OCR text of languages without a shipped model.

    python benchmarks/harm.py --corpora ../shared/corpora --json harm.json

Three measurements with ``channel="ocr"`` and the shipped models only:

1. Clean text: characters changed, for 40 languages (``languages/LANG.eval.jsonl.gz``) and for generated texts of kinds
   that tempt a corrector (prices, CSV, URLs, identifiers, formulas, code and others). Every change is harm.
2. OCR text of languages that no shipped model covers: character error rate before and after, and how many documents
   got worse.
3. The same for English, to show that the protection does not disable correction.

``--split train`` uses the texts that thresholds may be tuned on.
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
    """Sums in pounds, shillings and pence."""
    sums = (f"{random.randint(1, 99)}l. {random.randint(1, 19)}s. {random.randint(1, 11)}d." for _ in range(2))
    return f"Received of Mr. {random.choice(NAMES)}, {'; of Mrs. Hill, '.join(sums)} for vol. ii., @ 8s. 6d. each."


def table(random: Random) -> str:
    """A row of a table with commas."""
    date = f"{random.randint(1990, 2026)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
    return f"{random.randint(1, 9999)},{random.choice(NAMES)},{date},{random.random():.4f},,ok,{random.choice('ABC')}l"


def address(random: Random) -> str:
    """A line with an address of the web and one of mail."""
    number = random.randint(1, 99)
    page = f"https://www.exumple{number}.org/a1l/path_{number}/index.htm?q=tbe&lang=en#sec{number}"
    return f"See {page} or write to info{number}@rnail.exarnple.net before noon."


def identifiers(random: Random) -> str:
    """Numbers of books, accounts and orders."""
    digits = [str(random.randint(0, 9)) for _ in range(22)]
    book = f"978-{digits[0]}-{''.join(digits[1:4])}-{''.join(digits[4:9])}-{digits[9]}"
    return (
        f"ISBN {book}, IBAN DE{''.join(digits)}, order AB-{''.join(digits[:5])}-OI, serial l0O1I{digits[3]}Z, rev. B2."
    )


def formulas(random: Random) -> str:
    """Chemical and mathematical formulas."""
    count = random.randint(2, 9)
    reaction = f"C{count}H{2 * count}O{count} + {count} O2 -> {count} CO2 + {count} H2O"
    return f"{reaction}; a1 = b0 + {count}x^2 - l0, Na2SO4, CH3COOH"


def c_code(random: Random) -> str:
    """A line of C with names that look alike."""
    name = "".join(random.choice("lI1O0") for _ in range(3))
    body = f"return p{name}[nO{name}] != '\\0' ? l{name} : O_RDONLY;"
    return f"static int l{name}(const char *p{name}, int nO{name}) {{ {body} }}"


def shell_code(random: Random) -> str:
    """A line of a shell script with regular expressions."""
    return (
        f"sed -E 's/^([a-z]+)_(\\w{{{random.randint(1, 9)}}})$/\\2-\\1/; /foo|bar/d' < in.txt | grep -vE '^#|^$' > $OUT"
    )


def encoded(random: Random) -> str:
    """Data in base 64."""
    return "".join(random.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") for _ in range(64))


def digest(random: Random) -> str:
    """A hash and a file name."""
    return f"{random.getrandbits(160):040x}  dist/conservator-{random.randint(0, 9)}.tar.gz"


def invoice(random: Random) -> str:
    """A line of an invoice."""
    count, price = random.randint(1, 99), random.randint(100, 99999) / 100
    return f"{count} x Widget, blue, 12 mm   {price:.2f} EUR   {count * price:.2f} EUR  (VAT 19 %, due 14/03/2025)"


def people(random: Random) -> str:
    """Names of people in a sentence."""
    return f"The committee thanked {random.choice(NAMES)} and {random.choice(NAMES)}, and then Mr. Wojciechowski spoke."


KINDS: dict[str, Callable[[Random], str]] = {
    "prices": prices,
    "CSV": table,
    "URLs": address,
    "identifiers": identifiers,
    "formulas": formulas,
    "C": c_code,
    "shell": shell_code,
    "base64": encoded,
    "hashes": digest,
    "invoices": invoice,
    "names": people,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="the folder with languages/ and ocr/")
    parser.add_argument("--split", choices=("train", "eval"), default="eval", help="of languages/; halves of ocr/")
    parser.add_argument("--documents", type=int, default=50, help="of each language, OCR")
    parser.add_argument("--characters", type=int, default=10_000, help="of each language and kind, clean")
    parser.add_argument("--parts", default="kinds,languages,uncovered,english")
    parser.add_argument("--only", help="names of languages and kinds, separated by commas")
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
        used = {key: str(getattr(options, key)) for key in ("split", "documents", "characters", "parts", "effort")}
        about = {"commit": commit(), "versions": versions(), "options": used}
        write_atomically(options.json, json.dumps({**about, "rows": rows}, indent=1, ensure_ascii=False) + "\n")


def groups(part: str, options: argparse.Namespace) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The documents of a part by name: pairs of the text as it was seen and the true text."""
    if part == "kinds":
        for name, draw in KINDS.items():
            random = Random(zlib.crc32(f"{name} {options.split}".encode()))
            text = ""
            while len(text) < options.characters:
                text += draw(random) + "\n"
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
    sets = UNCOVERED if part == "uncovered" else {name: (name,) for name in ENGLISH}
    for name, files in sets.items():
        pairs = []
        for file in files:
            records = [
                one for one in read(options.corpora / "ocr" / f"{file}.dev.jsonl.gz") if half(one) == options.split
            ]
            pairs += [(one["ocr"], one["truth"]) for one in records][: options.documents // len(files)]
        yield name, pairs


def half(record: dict[str, Any]) -> str:
    """The half of the OCR data that a document belongs to."""
    return "train" if zlib.crc32(str(record["doc"]).encode()) % 2 else "eval"


def read(path: Path) -> list[dict[str, Any]]:
    """The records of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def measure(restorer: Restorer, pairs: list[tuple[str, str]], name: str) -> dict[str, Any]:
    """Errors before and after, and documents that got better or worse."""
    total = dict.fromkeys(("documents", "characters", "before", "after", "changed", "better", "worse", "left"), 0)
    stated = 0.0
    for seen, truth in track(pairs, description=name, transient=True):
        found = restorer.restore(seen)
        before, after = Levenshtein.distance(seen, truth), Levenshtein.distance(found.text, truth)
        total["documents"] += 1
        total["characters"] += len(truth)
        total["before"] += before
        total["after"] += after
        total["changed"] += sum(max(len(one.seen), len(one.text)) for one in found.changes)
        total["better"] += after < before
        total["worse"] += after > before
        total["left"] += any(notice.kind == "unknown_language" for notice in found.notices)
        stated += sum(one.probability for one in found.changes)
    return {**total, "changes_stated_right": round(stated, 1)}


def show(rows: list[dict[str, Any]]) -> None:
    """Print a table."""
    out = Table(title="OCR correction with the shipped models")
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
        out.add_column(column, justify="left" if column in ("part", "name") else "right")
    for row in rows:
        size = max(1, row["characters"])
        rates = [f"{100 * row[key] / size:.2f}" for key in ("before", "after")]
        cells = [row["documents"], row["characters"], *rates, f"{10_000 * row['changed'] / size:.1f}"]
        out.add_row(row["part"], row["name"], *map(str, [*cells, row["better"], row["worse"], row["left"]]))
    Console(width=140).print(out)


if __name__ == "__main__":
    main()
