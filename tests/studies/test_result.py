import sys

import numpy as np
import pytest
from scipy import stats

from conservator import ConservatorError
from conservator.evaluation.figures import new_figure, render
from conservator.evaluation.tables import as_markdown
from conservator_studies.result import Column, TableSpec, grid, to_json
from conservator_studies.statistics import Measurements, summarise

ROWS = [
    {"method": "ours", "count": 2, "mae": 0.01234, "mae_sd": 0.002, "paper": {"mae": 0.5}},
    {"method": "theirs", "count": 1, "mae": 1.0, "paper": {}},
    {"method": "elsewhere", "count": 1, "rmse": 1.0, "paper": {}},
]


def test_the_interval_is_a_student_t_interval():
    values = [0.1, 0.4, 0.2, 0.35]
    summary = summarise("mae", values)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert summary == pytest.approx(
        {"mae": np.mean(values), "mae_sd": np.std(values, ddof=1), "mae_low": low, "mae_high": high}
    )


def test_a_single_repeat_has_no_interval():
    assert summarise("mae", [0.5]) == {"mae": 0.5}


def test_the_error_names_the_missing_dependency(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    assert summarise("mae", [0.5]) == {"mae": 0.5}
    with pytest.raises(ConservatorError, match=r"conservator\[studies\]"):
        summarise("mae", [0.5, 0.6])


def test_measurements_become_rows():
    measured = Measurements()
    measured.add("a", {"mae": 1.0})
    measured.add("a", {"mae": 3.0})
    measured.add("b", {"mae": 0.0})
    first, second = measured.rows({"a": {"mae": 9.0}})
    assert (first["method"], first["count"], first["mae"], first["paper"]) == ("a", 2, 2.0, {"mae": 9.0})
    assert (second["count"], second["paper"]) == (1, {})


def test_a_table_has_the_papers_value_next_to_ours():
    lines = grid(ROWS, TableSpec("T", [Column("mae", "error", 3)]), {"ours": "Ours"})
    assert lines == [["method", "error", "paper"], ["Ours", "0.012 ± 0.002", "0.500"], ["theirs", "1.000", "·"]]
    assert as_markdown("T", lines).splitlines()[2:5] == [
        "| method | error | paper |",
        "| :-- | --: | --: |",
        "| Ours | 0.012 ± 0.002 | 0.500 |",
    ]


def test_a_column_without_a_value_of_the_paper_has_no_paper_column():
    assert grid(ROWS, TableSpec("T", [Column("rmse", "rmse", 1)]), {}) == [["method", "rmse"], ["elsewhere", "1.0"]]


def test_a_result_with_nan_is_not_written():
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json({"rows": [{"method": "x", "mae": float("nan")}]})


@pytest.mark.parametrize(("file_format", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_a_figure_is_the_same_bytes_every_time(file_format, magic):
    images = []
    for _ in range(2):
        figure = new_figure(2, 1)
        figure.subplots().plot([0, 1], [1, 0])
        images.append(render(figure, file_format))
    assert images[0] == images[1]
    assert images[0].startswith(magic)
