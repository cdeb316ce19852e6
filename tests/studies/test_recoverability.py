from dataclasses import replace

from conservator_studies import recoverability
from conservator_studies.study import untracked


def test_error_falls_with_observations_and_rises_with_corruption():
    config = replace(
        recoverability.PRESETS["laptop"], repeats=2, all_observations=(30, 3000), gaps=(0.25, 1.5), rates=(0.0, 0.9)
    )
    findings = recoverability.run(config, 0, untracked)
    error = {row["method"]: row["mae"] for row in findings.rows}
    assert error["n=3000"] < error["n=30"] / 3
    assert error["gap=1.5"] < error["gap=0.25"] / 2
    assert error["rate=0"] < error["rate=0.9"] / 3
    assert list(findings.figures) == ["recoverability"]
