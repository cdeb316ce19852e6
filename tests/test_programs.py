"""External programs are hidden from tests that are not marked ``external_programs``."""

import os
import shutil

import pytest

from support.programs import PROGRAMS, hide_programs


def test_only_the_listed_programs_are_hidden(tmp_path):
    for folder, name in [("one", "tesseract"), ("one", "other"), ("two", "third")]:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text("#!/bin/sh\n")
        (tmp_path / folder / name).chmod(0o755)
    path = hide_programs(os.pathsep.join(str(tmp_path / name) for name in ("one", "two", "none")), tmp_path / "links")
    assert [shutil.which(name, path=path) is None for name in ("tesseract", "other", "third")] == [True, False, False]
    assert path.split(os.pathsep)[1:] == [str(tmp_path / name) for name in ("two", "none")]


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_test_without_the_marker_finds_no_program(name):
    assert shutil.which(name) is None
