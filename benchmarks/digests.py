"""Does a change of the code change a result? Digests of 64 restorations and of every study, to compare two commits.

    python benchmarks/digests.py --corpora CORPORA --out before.json                        # at one commit
    python benchmarks/digests.py --corpora CORPORA --out after.json --against before.json   # at another

One thread, because sums in another order round differently. ``--keep FOLDER`` keeps the records themselves, to look
at what differs; ``--restorations`` and ``--studies`` run one half alone.
"""

import argparse
import gzip
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

KINDS = ("prose", "code", "config", "readme", "arxiv")
TEAMS = ("prose,code,config", "code,config", "prose,code,config,generalist_3x")
WAYS = ("marks", "alternatives", "gaps", "least", "replacement", "bursts", "everywhere", "sparse")
TIMES = ("seconds", "arithmetic_share", "expert_seconds", "commit", "versions", "corpora")  # differ from run to run
STUDIES = (
    *("simulator", "recoverability", "contextual", "byte3", "byte2", "rate", "seeds", "decoder", "smoothing"),
    *("field", "comments", "replacement", "routers", "prior-term", "flagship", "readme"),
)


def digest(data: bytes) -> str:
    """Sixteen hexadecimal digits of SHA-256."""
    return hashlib.sha256(data).hexdigest()[:16]


def without_times(value: object) -> object:
    """The same value without what differs from run to run."""
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items() if key not in TIMES}
    return [without_times(one) for one in value] if isinstance(value, list) else value


def documents(corpora: Path, kind: str, count: int) -> list[bytes]:
    """The first documents of a kind that are long enough."""
    found = []
    with gzip.open(corpora / f"{kind}.eval.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            text = json.loads(line)["text"].encode()
            if len(text) >= 1500:
                found.append(text)
            if len(found) == count:
                break
    return found


def restorations(corpora: Path, keep: Path | None) -> dict[str, dict[str, str]]:
    """Restore 64 documents: every way of damage and of asking, five kinds of document, three teams."""
    import torch

    import conservator
    from conservator.channels import ReplacementChannel
    from conservator.documents.damage import damage

    torch.set_num_threads(1)
    texts = {kind: documents(corpora, kind, 16) for kind in KINDS}
    found = {}
    for number in range(64):
        kind, way, team = KINDS[number % 5], WAYS[number % 8], TEAMS[number % 3]
        size = 600 if way == "replacement" else (1500, 2600, 900, 3500)[number // 8 % 4]
        text = texts[kind][number // 5].decode()[:size].replace("\ufffd", "?").encode()
        rate = (0.1, 0.05, 0.2)[number % 3]
        options: dict[str, object] = {"seed": number}
        if way == "replacement":
            damaged = damage(text, 0.08, channel="replacement", seed=number)
            options["channel"] = ReplacementChannel(256, 0.08)
        else:
            if way == "sparse":  # a few holes in a longer document, most of which is not near any
                text = (text * 6)[:9000].decode(errors="ignore").encode()
                rate = 0.0008
            damaged = damage(text, rate, burst=8 if way == "bursts" else 1, seed=number)
        if way == "gaps":
            damaged = (
                damaged[:400].decode(errors="ignore").encode() + b"[...]" + text[430:].decode(errors="ignore").encode()
            )
            options |= {"gap": "[...]", "max_gap": 12, "alternatives": number % 2 * 2, "min_gap_confidence": 0.0}
        if way == "alternatives":
            options["alternatives"] = 3
        if way == "least":
            options["min_confidence"] = 0.8
        if way == "everywhere":
            options["evidence_radius"] = None
        restored = conservator.restore(damaged, team, **options)
        record = without_times(json.loads(restored.to_json()))
        name = f"{number:02} {kind} {way} {team}"
        body = json.dumps(record, sort_keys=True, ensure_ascii=False).encode()
        found[name] = {"text": digest(restored.data), "record": digest(body)}
        if keep:
            (keep / f"{number:02}.json").write_bytes(body)
        print(name, found[name], file=sys.stderr, flush=True)
    return found


def study(name: str, corpora: Path, keep: Path | None) -> dict[str, str]:
    """Run a study on four windows or repeats."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["reproduce", name, "--limit", "4", "--corpora", str(corpora), "--out", folder]
        subprocess.run([sys.executable, "-m", "conservator", *words], check=True, capture_output=True)
        record = without_times(json.loads(Path(folder, f"{name}.json").read_bytes()))
    body = json.dumps(record, sort_keys=True, indent=1).encode()
    if keep:
        (keep / f"{name}.json").write_bytes(body)
    print(name, digest(body), file=sys.stderr, flush=True)
    return {"record": digest(body)}


def main() -> None:
    """Write the digests, and compare them with those of another commit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--restorations", action="store_true")
    parser.add_argument("--studies", action="store_true")
    parser.add_argument("--only", nargs="*", default=STUDIES)
    chosen = parser.parse_args()
    if chosen.keep:
        chosen.keep.mkdir(parents=True, exist_ok=True)
    both = chosen.restorations == chosen.studies
    found: dict[str, dict[str, str]] = {}
    with ThreadPoolExecutor(2 if not both else 1) as pool:
        if both or chosen.studies:
            jobs = {name: pool.submit(study, name, chosen.corpora, chosen.keep) for name in chosen.only}
        else:
            jobs = {}
        if both or chosen.restorations:
            found |= restorations(chosen.corpora, chosen.keep)
        found |= {f"study {name}": job.result() for name, job in jobs.items()}
    chosen.out.write_text(json.dumps(found, indent=1) + "\n")
    if chosen.against:
        before = json.loads(chosen.against.read_text())
        shared = [name for name in found if name in before]
        for kind in ("text", "record"):
            having = [name for name in shared if kind in found[name]]
            different = [name for name in having if found[name][kind] != before[name][kind]]
            print(f"{kind}: {len(having) - len(different)} of {len(having)} the same", *different, sep="\n  ")


if __name__ == "__main__":
    main()
