"""Fit the coefficients of ``conservator.pipelines.correction.confidence``, and measure their calibration.

    python benchmarks/correction_confidence.py --corpora ../shared/corpora

The shipped models propose changes in OCR text (English, and some French and German, which they do not cover) and in
clean English text. A change is labelled as correct if it alone reduces the edit distance between the document and the
true text. The coefficients are fitted on one half of the documents (``train``, as in ``harm.py``). The table compares
mean confidence and accuracy on both halves.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from harm import ENGLISH, read, split_of
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
from conservator.pipelines.references import ReferenceTexts

KINDS = list(KIND_BIAS)
FOREIGN = ("hipe2026_impresso-snippets_fr", "hipe2026_impresso-snippets_de")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="folder with languages/, ocr/ and bln600/")
    parser.add_argument("--documents", type=int, default=15, help="documents per data set and half")
    options = parser.parse_args()
    channel = as_edit_channel("ocr")
    assert channel is not None
    corrector = Corrector(channel, ReferenceTexts().char_ngram_prior)
    splits = {split: label(corrector, documents(options, split)) for split in ("train", "eval")}
    rows = splits["train"]
    model = LogisticRegression(C=100, max_iter=1000).fit([features(*row[:2]) for row in rows], [row[2] for row in rows])
    names = ["slope", "surprisal_slope", *(f"KIND_BIAS[{kind}]" for kind in KINDS[1:])]
    print("bias", round(float(model.intercept_[0]), 2), dict(zip(names, model.coef_[0].round(2).tolist(), strict=True)))
    for split, rows in splits.items():
        confidence = np.array(
            [calibrate(change.probability, surprisal, kind_of(change), 0) for change, surprisal, _ in rows]
        )
        correct = np.array([is_correct for _, _, is_correct in rows])
        lattice = np.mean([change.probability for change, _, _ in rows])
        print(f"{split}: {len(rows)} changes; mean probability of the lattice {lattice:.3f}")
        for low, high in ((0, 0.3), (0.3, 0.6), (0.6, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 1)):
            selected = (confidence >= low) & (confidence < high)
            if selected.any():
                means = f"mean confidence {confidence[selected].mean():.3f}, correct {correct[selected].mean():.3f}"
                print(f"  {low:.1f} to {high:.1f}: {selected.sum()} changes, {means}")


def documents(options: argparse.Namespace, split: str) -> list[tuple[str, str]]:
    """Read pairs of observed and true text: OCR documents and clean English text."""
    pairs = []
    for name in (*ENGLISH, *FOREIGN):
        records = read(options.corpora / "ocr" / f"{name}.dev.jsonl.gz")
        count = options.documents if name in ENGLISH else options.documents // 4
        pairs += [(record["ocr"], record["truth"]) for record in records if split_of(record) == split][:count]
    lines: dict[str, list[dict[str, Any]]] = {}
    for line in read(options.corpora / "bln600" / "train.jsonl.gz"):
        lines.setdefault(line["id"], []).append(line)
    articles = [article for name, article in sorted(lines.items()) if split_of({"doc": name}) == split]
    for article in articles[: options.documents]:
        pairs.append(("\n".join(line["ocr"] for line in article), "\n".join(line["truth"] for line in article)))
    clean = [record["text"][:2500] for record in read(options.corpora / "languages" / f"en.{split}.jsonl.gz")]
    step = max(1, len(clean) // options.documents)
    return pairs + [(text, text) for text in clean[::step][: options.documents]]


def label(corrector: Corrector, pairs: list[tuple[str, str]]) -> list[tuple[Change, float, bool]]:
    """Collect the proposed changes, their local surprisal, and whether each is correct."""
    rows = []
    for text, truth in track(pairs, transient=True):
        before = Levenshtein.distance(text, truth)
        for change, surprisal in propose(corrector, text):
            rows.append((change, surprisal, Levenshtein.distance(apply_changes(text, [change]), truth) < before))
    return rows


def propose(corrector: Corrector, text: str) -> list[tuple[Change, float]]:
    """Propose the changes that the calibration applies to, with their local surprisal."""
    normalized, proposals = corrector.normalize_quotes(text), []
    mixture = corrector.fit_mixture(normalized)
    coverage = Coverage(normalized, mixture)
    lines = list(split_lines(normalized))
    table = corrector.arc_table(corrector.infer_rate(lines, mixture, None, None, Meter()), mixture, None)
    for start, line in lines:
        arcs = table.of(line, None)
        lattice = corrector.beam.search(mixture, arcs, "\n" + normalized[:start])
        for line_change in find_changes(text[start : start + len(line)], lattice, arcs):
            change = shift_change(line_change, start)
            neighbourhood = slice(max(0, change.start - 1), change.stop + 1)
            first, last = token_span(text, change.start, change.stop)
            tokens = text[first:last], text[first : change.start] + change.text + text[change.stop : last]
            if (
                change.log_odds < corrector.min_log_odds
                or is_layout(text, change)
                or any(is_name(token) or is_code(token) for token in tokens)
            ):
                continue
            proposals.append((change, float(coverage.surprisal[neighbourhood].mean())))
    return proposals


def features(change: Change, surprisal: float) -> list[float]:
    """Return the regressors of a change."""
    probability = min(max(change.probability, 1e-9), 1 - 1e-9)
    logit = float(np.clip(np.log(probability) - np.log1p(-probability), -CALIBRATION.max_logit, CALIBRATION.max_logit))
    return [logit, surprisal, *(float(kind_of(change) == kind) for kind in KINDS[1:])]


if __name__ == "__main__":
    main()
