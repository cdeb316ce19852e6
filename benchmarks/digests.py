"""Compare the results of two commits: digests of 64 restorations and of every study.

    python benchmarks/digests.py --corpora CORPORA --out before.json                        # at one commit
    python benchmarks/digests.py --corpora CORPORA --out after.json --against before.json   # at another

Three digests are compared: ``text`` (the restored bytes), ``numbers`` (all numbers of a record, sorted, so that renamed
keys and reworded sentences do not count) and ``record`` (the whole record). Run both commits on the same kind of
processor. One thread is used, because sums in another order round differently. ``--keep FOLDER`` stores the records.
``--restorations`` and ``--studies`` run one half only. The exit code is 1 if a text or a number differs.
"""

import argparse
import gzip
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

KINDS = ("prose", "code", "config", "readme", "arxiv")
TEAMS = ("prose,code,config", "code,config", "prose,code,config,generalist_3x")
DAMAGES = ("marks", "alternatives", "gaps", "least", "replacement", "bursts", "everywhere", "sparse")
VARYING_KEYS = ("seconds", "arithmetic_share", "expert_seconds", "commit", "versions", "corpora")  # differ between runs
LIMITS = {"language-models": 2}  # windows or repeats of a study
DEFAULT_LIMIT = 4


def digest(data: bytes) -> str:
    """Sixteen hexadecimal digits of SHA-256."""
    return hashlib.sha256(data).hexdigest()[:16]


def drop_varying(value: object) -> object:
    """Remove the keys whose values differ between runs."""
    if isinstance(value, dict):
        return {key: drop_varying(item) for key, item in value.items() if key not in VARYING_KEYS}
    return [drop_varying(item) for item in value] if isinstance(value, list) else value


def numbers_of(value: object) -> Iterator[float]:
    """All numbers of a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers_of(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def digests_of(record: object) -> dict[str, str]:
    """Digests of a record and of its numbers."""
    body = json.dumps(record, sort_keys=True, ensure_ascii=False).encode()
    numbers = json.dumps(sorted(numbers_of(record), key=lambda number: (number, repr(number)))).encode()
    return {"record": digest(body), "numbers": digest(numbers)}


def documents(corpora: Path, kind: str, count: int) -> list[bytes]:
    """The first documents of a kind with at least 1,500 bytes."""
    texts = []
    with gzip.open(corpora / f"{kind}.eval.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            text = json.loads(line)["text"].encode()
            if len(text) >= 1500:
                texts.append(text)
            if len(texts) == count:
                break
    return texts


def restorations(corpora: Path, keep: Path | None) -> dict[str, dict[str, str]]:
    """Restore 64 documents: eight kinds of damage and options, five kinds of text, three teams."""
    import torch

    import conservator
    from conservator.channels import ReplacementChannel
    from conservator.documents.damage import damage

    torch.set_num_threads(1)
    texts = {kind: documents(corpora, kind, 16) for kind in KINDS}
    digests = {}
    for number in range(64):
        kind, case, team = KINDS[number % 5], DAMAGES[number % 8], TEAMS[number % 3]
        size = 600 if case == "replacement" else (1500, 2600, 900, 3500)[number // 8 % 4]
        text = texts[kind][number // 5].decode()[:size].replace("\ufffd", "?").encode()
        rate = (0.1, 0.05, 0.2)[number % 3]
        options: dict[str, object] = {"seed": number}
        if case == "replacement":
            damaged = damage(text, 0.08, channel="replacement", seed=number)
            options["channel"] = ReplacementChannel(256, 0.08)
        else:
            if case == "sparse":  # a few marks in a longer document
                text = (text * 6)[:9000].decode(errors="ignore").encode()
                rate = 0.0008
            damaged = damage(text, rate, burst=8 if case == "bursts" else 1, seed=number)
        if case == "gaps":
            damaged = (
                damaged[:400].decode(errors="ignore").encode() + b"[...]" + text[430:].decode(errors="ignore").encode()
            )
            options |= {"gap": "[...]", "max_gap": 12, "alternatives": number % 2 * 2, "min_gap_confidence": 0.0}
        if case == "alternatives":
            options["alternatives"] = 3
        if case == "least":
            options["min_confidence"] = 0.8
        if case == "everywhere":
            options["evidence_radius"] = None
        restored = conservator.restore(damaged, team, lost="bytes", **options)
        record = drop_varying(json.loads(restored.to_json()))
        name = f"{number:02} {kind} {case} {team}"
        digests[name] = {"text": digest(restored.data), **digests_of(record)}
        if keep:
            (keep / f"{number:02}.json").write_text(json.dumps(record, sort_keys=True, ensure_ascii=False))
        print(name, digests[name], file=sys.stderr, flush=True)
    return digests


def study(name: str, corpora: Path, keep: Path | None) -> dict[str, str]:
    """Run a study on a few windows or repeats."""
    limit = str(LIMITS.get(name, DEFAULT_LIMIT))
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["reproduce", name, "--limit", limit, "--corpora", str(corpora), "--out", folder]
        subprocess.run([sys.executable, "-m", "conservator", *arguments], check=True, capture_output=True)
        record = drop_varying(json.loads(Path(folder, f"{name}.json").read_bytes()))
    if keep:
        (keep / f"{name}.json").write_text(json.dumps(record, sort_keys=True, indent=1))
    print(name, digests_of(record), file=sys.stderr, flush=True)
    return digests_of(record)


def compare(after: dict[str, dict[str, str]], before: dict[str, dict[str, str]]) -> bool:
    """Print how many digests are equal; return whether all texts and numbers are."""
    shared, equal = [name for name in after if name in before], True
    for kind in ("text", "numbers", "record"):
        names = [name for name in shared if kind in after[name] and kind in before[name]]
        different = [name for name in names if after[name][kind] != before[name][kind]]
        print(f"{kind}: {len(names) - len(different)} of {len(names)} unchanged", *different, sep="\n  ")
        equal = equal and (kind == "record" or not different)
    return equal


def main() -> None:
    """Write the digests, and compare them with those of another commit."""
    from conservator_studies import STUDIES

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="folder with NAME.SPLIT.jsonl.gz files")
    parser.add_argument("--out", type=Path, required=True, help="JSON file for the digests")
    parser.add_argument("--against", type=Path, help="digests of another commit")
    parser.add_argument("--keep", type=Path, help="folder for the records")
    parser.add_argument("--restorations", action="store_true", help="only restorations")
    parser.add_argument("--studies", action="store_true", help="only studies")
    parser.add_argument("--only", nargs="*", default=list(STUDIES), help="names of studies")
    options = parser.parse_args()
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    both = options.restorations == options.studies
    digests: dict[str, dict[str, str]] = {}
    with ThreadPoolExecutor(1 if both else 2) as pool:
        jobs = {}
        if both or options.studies:
            jobs = {name: pool.submit(study, name, options.corpora, options.keep) for name in options.only}
        if both or options.restorations:
            digests |= restorations(options.corpora, options.keep)
        digests |= {f"study {name}": job.result() for name, job in jobs.items()}
    options.out.write_text(json.dumps(digests, indent=1) + "\n")
    if options.against and not compare(digests, json.loads(options.against.read_text())):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
