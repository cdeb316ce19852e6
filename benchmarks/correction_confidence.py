"""Fit the coefficients of ``conservator.pipelines.correction.confidence`` and show how well it is calibrated.

    python benchmarks/correction_confidence.py --corpora ../shared/corpora

Changes that the shipped models propose in OCR text (English, and some French and German, which they do not know) and in
clean English text are labelled with their effect: a change is right if it alone reduces the edit distance between the
document and the true text. Coefficients are fitted on one half of the documents (``train``, as in ``harm.py``); the
table shows stated and true shares on the other.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from harm import ENGLISH, half, read
from rapidfuzz.distance import Levenshtein
from rich.progress import track
from sklearn.linear_model import LogisticRegression

from conservator.channels import as_edit_channel
from conservator.decoders.edits import Change, find_changes
from conservator.experts import Meter
from conservator.pipelines.correction import Corrector
from conservator.pipelines.correction.acceptance import is_layout
from conservator.pipelines.correction.confidence import CALIBRATION, KIND_BIAS, calibrate, kind_of
from conservator.pipelines.correction.corrector import apply_changes, shift_change, split_lines
from conservator.pipelines.correction.coverage import Coverage
from conservator.pipelines.correction.protection import is_code, is_name, token_span
from conservator.pipelines.references import char_ngram_prior

KINDS = list(KIND_BIAS)
FOREIGN = ("hipe2026_impresso-snippets_fr", "hipe2026_impresso-snippets_de")


def main() -> None:
    """Fit and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="the folder with languages/, ocr/ and bln600/")
    parser.add_argument("--documents", type=int, default=15, help="of each set and half")
    options = parser.parse_args()
    channel = as_edit_channel("ocr")
    assert channel is not None
    corrector = Corrector(channel, char_ngram_prior([]))
    halves = {name: collect(corrector, documents(options, name)) for name in ("train", "eval")}
    rows = halves["train"]
    model = LogisticRegression(C=100, max_iter=1000).fit([features(*row[:2]) for row in rows], [row[2] for row in rows])
    names = ["slope", "surprisal_slope", *(f"KIND_BIAS[{kind}]" for kind in KINDS[1:])]
    print("bias", round(float(model.intercept_[0]), 2), dict(zip(names, model.coef_[0].round(2).tolist(), strict=True)))
    for name, rows in halves.items():
        stated = np.array(
            [calibrate(change.probability, surprisal, kind_of(change), 0) for change, surprisal, _ in rows]
        )
        right = np.array([is_right for _, _, is_right in rows])
        print(f"{name}: {len(rows)} changes; lattice states {np.mean([row[0].probability for row in rows]):.3f}")
        for low, high in ((0, 0.3), (0.3, 0.6), (0.6, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 1)):
            inside = (stated >= low) & (stated < high)
            if inside.any():
                shares = f"stated {stated[inside].mean():.3f}, right {right[inside].mean():.3f}"
                print(f"  {low:.1f} to {high:.1f}: {inside.sum()} changes, {shares}")


def documents(options: argparse.Namespace, split: str) -> list[tuple[str, str]]:
    """Pairs of seen and true text: English OCR documents and clean English text."""
    pairs = []
    for name in (*ENGLISH, *FOREIGN):
        records = [one for one in read(options.corpora / "ocr" / f"{name}.dev.jsonl.gz") if half(one) == split]
        pairs += [(one["ocr"], one["truth"]) for one in records][
            : options.documents if name in ENGLISH else options.documents // 4
        ]
    lines: dict[str, list[dict[str, Any]]] = {}
    for one in read(options.corpora / "bln600" / "train.jsonl.gz"):
        lines.setdefault(one["id"], []).append(one)
    articles = [article for name, article in sorted(lines.items()) if half({"doc": name}) == split]
    for article in articles[: options.documents]:
        pairs.append(("\n".join(one["ocr"] for one in article), "\n".join(one["truth"] for one in article)))
    clean = [one["text"][:2500] for one in read(options.corpora / "languages" / f"en.{split}.jsonl.gz")]
    step = max(1, len(clean) // options.documents)
    return pairs + [(text, text) for text in clean[::step][: options.documents]]


def collect(corrector: Corrector, pairs: list[tuple[str, str]]) -> list[tuple[Change, float, bool]]:
    """The proposed changes of ordinary words, their local surprisal, and whether each is right."""
    rows = []
    for text, truth in track(pairs, transient=True):
        before = Levenshtein.distance(text, truth)
        for change, surprisal in propose(corrector, text):
            rows.append((change, surprisal, Levenshtein.distance(apply_changes(text, [change]), truth) < before))
    return rows


def propose(corrector: Corrector, text: str) -> list[tuple[Change, float]]:
    """The changes of the best path that are subject to calibration, with the local surprisal."""
    folded, found = corrector.normalize_quotes(text), []
    mixture = corrector.fit_mixture(folded)
    coverage = Coverage(folded, mixture)
    pieces = list(split_lines(folded))
    table = corrector.arc_table(corrector.infer_rate(pieces, mixture, None, None, Meter()), mixture, None)
    for start, piece in pieces:
        steps = table.of(piece, None)
        lattice = corrector.beam.search(mixture, steps, "\n" + folded[:start])
        for change in find_changes(text[start : start + len(piece)], lattice, steps):
            at = shift_change(change, start)
            around = slice(max(0, at.start - 1), at.stop + 1)
            first, last = token_span(text, at.start, at.stop)
            tokens = text[first:last], text[first : at.start] + at.text + text[at.stop : last]
            if (
                at.log_odds < corrector.min_log_odds
                or is_layout(text, at)
                or any(is_name(token) or is_code(token) for token in tokens)
            ):
                continue
            found.append((at, float(coverage.surprisal[around].mean())))
    return found


def features(change: Change, surprisal: float) -> list[float]:
    """The regressors of a change."""
    share = min(max(change.probability, 1e-9), 1 - 1e-9)
    logit = float(np.clip(np.log(share) - np.log1p(-share), -CALIBRATION.max_logit, CALIBRATION.max_logit))
    return [logit, surprisal, *(float(kind_of(change) == kind) for kind in KINDS[1:])]


if __name__ == "__main__":
    main()
