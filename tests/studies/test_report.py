"""RESULTS.md from result files."""

import json

import pytest

from conservator_studies.claims import check_claims
from conservator_studies.report import report


def row(method, accuracy, difference=None, p=0.0001, **more):
    result_row = {"method": method, "accuracy_documents": accuracy, "windows": 9, "paper": {}, **more}
    if difference is not None:
        for prefix in ("", "own_"):
            comparison = {"difference": difference, "difference_low": difference, "difference_high": difference, "p": p}
            result_row |= {prefix + key: value for key, value in comparison.items()}
    return result_row


BYTE3 = [
    row("local_bayes", 0.8),
    row("local_bayes_own", 0.8, 0.0, 0.9),
    row("hard_label", 0.79, 0.01, 0.001),
    row("global", 0.7, 0.1),
    row("equal", 0.6, 0.2),
    row("shuffled_within", 0.5, 0.3),
    row("shuffled_across", 0.4, 0.4),
    row("global_particles", 0.79, 0.01, 0.5, windows=2),  # too few windows for a claim
    row("local_particles", 0.79, 0.01, 0.5),
    *(row(f"{name}{end}", 0.65, 0.15) for name in ("demix", "raw_loss", "hmm") for end in ("", "_heldout")),
]
FIELD = [
    {
        "method": "local_bayes",
        "field_accuracy": 0.96,
        "macro_auroc": 0.98,
        "boundary_f1": 0.8,
        "paper": {"field_accuracy": 0.976, "macro_auroc": 0.993, "boundary_f1": 0.720},
    }
]


def test_claims_are_checked_against_the_numbers():
    claims = {claim.text: claim for claim in check_claims({"byte3": BYTE3, "field": FIELD})}
    assert claims["local above global above equal weights"].holds
    assert claims["shuffled fields below equal weights"].holds
    assert claims["above the privileged label router, p < 0.01"].holds
    assert claims["field accuracy of at least 0.95"].holds
    assert not claims["macro AUROC of at least 0.985"].holds
    assert claims["boundary F1 of at least 0.75"].figures == "0.800 (paper: 0.720)"
    assert "above the compute-matched generalist" not in claims


def test_a_baseline_without_a_significant_difference_is_named():
    rows = [row("hmm", 0.79, 0.01, 0.2) if baseline["method"] == "hmm" else baseline for baseline in BYTE3]
    plain, in_domain = (claim for claim in check_claims({"byte3": rows}) if "baselines" in claim.text)
    assert not plain.holds
    assert plain.figures == in_domain.figures == "HMM router: +0.010, p = 0.2000"
    assert in_domain.text.startswith("in-domain context: ")


@pytest.fixture
def folder(tmp_path):
    record = {
        "name": "contextual",
        "preset": "laptop",
        "commit": "abc",
        "seed": 0,
        "config": {"repeats": 2},
        "experts": {},
        "corpora": None,
        "seconds": 60.0,
        "figures": ["contextual"],
        "rows": [{"method": "n=1", "count": 2, "mae": 0.5, "mae_sd": 0.1, "paper": {"mae": 0.362}}],
    }
    (tmp_path / "contextual.json").write_text(json.dumps(record))
    return tmp_path


def test_the_report_has_the_papers_value_next_to_ours(folder):
    text = report(folder)
    assert "| n=1 | 0.500 ± 0.100 | 0.362 |" in text
    assert "2 repeats, 1.0 minutes" in text
    assert "![contextual: contextual](contextual.png)" in text
    assert "commit abc" in text
    assert "## Claims" not in text
    assert "## simulator" not in text
